"""One request to a tool, and what the settings allow a binding to reach. It must not know machines or tasks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from statemachine_agent.definition.settings import McpServer
from statemachine_agent.definition.template import fill_variables
from statemachine_agent.definition.token_source import TokenSource
from statemachine_agent.text import one_line
from statemachine_agent.tools.outcome import NotSentError


@dataclass(frozen=True)
class ToolRequest:
    """What is sent: checked arguments, the effect's key of a write, and an id of its own."""

    args: Mapping[str, Any]
    request_id: str
    key: str | None = None


@dataclass(frozen=True)
class Reach:
    """What bindings may use; nothing that is not named here."""

    #: names for `${…}`, each with a default value that the environment overrides
    variables: Mapping[str, str] = field(default_factory=dict)
    #: hosts, as `name` or `name:port`
    hosts: frozenset[str] = frozenset()
    #: packages from which Python tools may be imported
    python_packages: frozenset[str] = frozenset()
    #: where values of variables come from
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)
    #: programs that command tools may start: as manifests name them, and where they lie
    programs: Mapping[str, str] = field(default_factory=dict)
    #: MCP servers that tools may ask
    servers: Mapping[str, McpServer] = field(default_factory=dict)
    #: hosts whose names may lead to addresses outside the open network, as `name` or `name:port`
    private_hosts: frozenset[str] = frozenset()
    #: a PEM file of authorities that are trusted beside the public ones
    ca_file: str | None = None
    #: where access tokens come from, by the name that manifests use
    token_sources: Mapping[str, TokenSource] = field(default_factory=dict)

    def missing(self, names: Iterable[str]) -> list[str]:
        """Those of `names` that have no value now."""
        return [name for name in names if not (self.environ.get(name) or self.variables.get(name))]

    def may_import(self, module: str) -> bool:
        """True for a module of an allowed package."""
        return any(module == package or module.startswith(f"{package}.") for package in self.python_packages)

    def variable(self, name: str) -> str:
        """The value of a listed variable, read now; NotSentError where there is none."""
        if name not in self.variables:
            raise NotSentError(f"`{name}` is not listed in the settings", hint="list it", reason="not_configured")
        found = self.environ.get(name) or self.variables[name]
        if not found:
            raise NotSentError(f"`{name}` has no value", hint=f"set {name} in the environment", reason="not_configured")
        return found

    def place(self, base: str) -> str:
        """Where an address leads: in the author's words, and the host and port behind them, never more of a value."""
        with suppress(NotSentError, ValueError):
            found = urlsplit(fill_variables(base, self.variable))
            host, port = (found.hostname or "").encode("idna").decode(), found.port
            if host and host not in base.lower():
                return one_line(f"{base} ({host}{f':{port}' if port else ''})")
        return base
