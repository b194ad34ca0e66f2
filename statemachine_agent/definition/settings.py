"""The project's settings: where things are, what tools may reach, and how identities are established.

They come from `[tool.statemachine-agent]` in `pyproject.toml` or from `statemachine-agent.toml`, the nearest one at or above
the current folder; `SMA_…` variables override single values. Where nothing is set, nothing is allowed.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationError, ValidationInfo, field_validator, model_validator

from statemachine_agent import files
from statemachine_agent.definition.named_models import NamedModel, Price
from statemachine_agent.definition.node import Lower, Node, Text, as_list, complaint, in_schema
from statemachine_agent.definition.sentences import explain, shown
from statemachine_agent.definition.token_source import TokenSource
from statemachine_agent.errors import SettingsError
from statemachine_agent.text import did_you_mean, one_line

FILES = ("statemachine-agent.toml", "pyproject.toml")
TABLE = "statemachine-agent"
MAX_BYTES = 1_000_000


Paths = Annotated[tuple[str, ...], BeforeValidator(as_list, json_schema_input_type=str | list[str])]


def _variable(value: object) -> object:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Z][A-Z0-9_]*", value):
        raise complaint(f"{shown(value)} is not the name of a variable", "write it in A-Z, 0-9 and _")
    return value


VariableName = Annotated[str, BeforeValidator(_variable), in_schema(pattern="^[A-Z][A-Z0-9_]*$")]


class McpServer(Node):
    """An MCP server that tools may ask: a program that is started for each call, or an address."""

    #: the program and its words
    command: Annotated[tuple[Text, ...], Field(min_length=1)] | None = None
    #: variables that the program is given
    environment: tuple[VariableName, ...] = ()
    #: where it answers over streamable HTTP
    url: Annotated[Text, in_schema(pattern="^https?://.")] | None = None
    #: headers, with `${VARIABLE}` wherever one is wanted
    headers: Mapping[str, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_way(self) -> McpServer:
        if (self.command is None) == (self.url is None):
            raise complaint("a server has exactly one of `command`, `url`", "write one of them")
        if (self.environment and self.url) or (self.headers and self.command):
            raise complaint("`environment` is for programs, and `headers` for addresses", "remove it")
        if self.url is not None and not re.match(r"https?://[^/\s@]+(/\S*)?$", self.url):
            raise complaint(f"{shown(self.url)} is no address", "write https://host/path")
        return self


class Settings(Node):
    """The settings in force; paths are relative to the folder of the file that they come from."""

    #: files and folders of machines
    machines: Paths = ("machines",)
    #: files and folders of tool manifests
    tools: Paths = ("tool_manifests",)
    #: the people file
    people: str = "people.yaml"
    #: the store
    db: str = "tasks.db"
    #: what decides where a task does not say: `ask`, `scripted:FILE`, `provider:NAME`, or a name from `models`
    model: str = "ask"
    #: providers' models under names of the project's own
    models: Mapping[Lower, NamedModel] = Field(default_factory=dict)
    #: how an identity is established: by the operating system, by a token, or merely asserted (demo only)
    identity: Literal["os", "token", "asserted"] = "os"
    #: with `token`: the variable that holds the key which tokens are signed with
    identity_key: str = "SMA_IDENTITY_KEY"
    #: names for `${…}` in manifests, each with its value unless the environment has one
    variables: Mapping[VariableName, str] = Field(default_factory=dict)
    #: hosts that HTTP tools may reach: `name` or `name:port`
    hosts: tuple[str, ...] = ()
    #: those of `hosts` whose names may lead into a private network, or to this machine: `name` or `name:port`
    private_hosts: tuple[str, ...] = ()
    #: a PEM file of authorities that HTTP tools trust beside the public ones
    ca_file: str | None = None
    #: where HTTP tools get access tokens, under names of the project's own
    oauth2: Mapping[Lower, TokenSource] = Field(default_factory=dict)
    #: packages that Python tools may be imported from
    python_packages: tuple[str, ...] = ()
    #: programs that tools may start: absolute paths, or paths in the folder of the settings
    commands: tuple[str, ...] = ()
    #: MCP servers that tools may ask, under names of the project's own
    mcp: Mapping[Lower, McpServer] = Field(default_factory=dict)
    #: where the sandbox keeps its files
    sandbox: str = ".sma/sandbox"

    @field_validator("oauth2")
    @classmethod
    def _secrets_elsewhere(cls, value: Mapping[str, TokenSource], info: ValidationInfo) -> Mapping[str, TokenSource]:
        """Every variable of a source is listed, and that of its secret has no value in a file."""
        variables: Mapping[str, str] = info.data.get("variables", {})
        for source, one in value.items():
            missing = next((name for name in one.variables if name not in variables), None)
            if missing is not None:
                message = f"`{source}` needs `${{{missing}}}`, which is not listed"
                raise complaint(message, f'write `{missing} = ""` under `variables`')
            if variables[one.secret]:
                message = f"`{one.secret}`, the secret of `{source}`, has a value in a file"
                raise complaint(message, f'write `{one.secret} = ""`, and set it in the environment')
        return value


@dataclass(frozen=True)
class Project:
    """Settings, and the folder that their paths are relative to."""

    settings: Settings
    folder: Path
    #: the file they came from, for people
    source: str
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def path(self, text: str) -> Path:
        """A path of the settings; SettingsError for one that no file can have."""
        if "\0" in text:
            raise SettingsError(f"{self.source}: the path `{text}` holds a zero byte", hint="mend it there")
        return self.folder / text

    @property
    def machines(self) -> list[Path]:
        """Files and folders of machines."""
        return [self.path(p) for p in self.settings.machines]

    @property
    def tools(self) -> list[Path]:
        """Files and folders of manifests."""
        return [self.path(p) for p in self.settings.tools]

    @property
    def programs(self) -> dict[str, str]:
        """The programs that tools may start: as manifests name them, and where they lie."""
        return {name: str(self.path(name).absolute()) for name in self.settings.commands if "/" in name}

    @property
    def servers(self) -> dict[str, McpServer]:
        """The MCP servers, their programs where they lie; a name without a folder is looked for in PATH."""
        found = dict(self.settings.mcp)
        for name, server in found.items():
            if server.command and "/" in server.command[0]:
                words = (str(self.path(server.command[0]).absolute()), *server.command[1:])
                found[name] = server.model_copy(update={"command": words})
        return found

    @property
    def ca_file(self) -> str | None:
        """The file of authorities, where it lies."""
        found = self.settings.ca_file
        return None if found is None else str(self.path(found).absolute())

    @property
    def listed(self) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
        """What definitions may name: variables, token sources, and models."""
        return frozenset(self.settings.variables), frozenset(self.settings.oauth2), frozenset(self.settings.models)

    @property
    def people(self) -> Path | None:
        """The people file, where it exists."""
        found = self.path(self.settings.people)
        return None if files.is_absent(found) else found

    def model_spec(self, spec: str | None) -> str:
        """The model to use; a script named by the settings lies in the settings' folder."""
        if spec is not None:
            return spec
        kind, mark, rest = self.settings.model.partition(":")
        return f"scripted:{self.path(rest)}" if mark and kind == "scripted" else self.settings.model


def load_project(start: Path | None = None, environ: Mapping[str, str] | None = None) -> Project:
    """The settings that rule in `start` (the current folder); SettingsError where they cannot be used."""
    environ = os.environ if environ is None else environ
    named = environ.get("SMA_SETTINGS")
    if named:
        path = Path(named)
        if files.is_absent(path):
            raise SettingsError(f"SMA_SETTINGS names {path}, which is no file", hint="name a TOML file")
        return _project(path, environ)
    here = _here() if start is None else start.absolute()
    for folder in (here, *here.parents):
        for name in FILES:
            path = folder / name
            if files.look(path)[0] in (files.Kind.FILE, files.Kind.OTHER) and _table(path) is not None:
                return _project(path, environ)
    return Project(_settings({}, "the defaults", environ), here, "defaults", environ)


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as problem:
        hint = "go to a folder that is there, or name the settings with --settings"
        raise SettingsError(f"the current folder cannot be used: {problem.strerror}", hint=hint) from None


def _project(path: Path, environ: Mapping[str, str]) -> Project:
    table = _table(path) or {}
    folder = path.parent if path.is_absolute() else _here() / path.parent
    return Project(_settings(table, str(path), environ), folder, str(path), environ)


def _table(path: Path) -> dict[str, Any] | None:
    """The settings' table of a file; None where it has none."""
    try:
        content = tomllib.loads(files.read_bytes(path, MAX_BYTES).decode())
    except files.UnreadableError as problem:
        raise SettingsError(f"{path} {problem.reason}", hint=problem.advice) from None
    except RecursionError:
        raise SettingsError(f"{path} is not valid TOML: it is nested too deeply", hint="mend it there") from None
    except ValueError as problem:  # no TOML, no UTF-8, a number that is too long
        raise SettingsError(f"{path} is not valid TOML: {one_line(str(problem))}", hint="mend it there") from None
    if path.name != "pyproject.toml":
        return content
    tool = content.get("tool")
    found = tool.get(TABLE) if isinstance(tool, dict) else None
    if found is not None and not isinstance(found, dict):
        raise SettingsError(f"{path}: `tool.{TABLE}` is no table", hint=f"write `[tool.{TABLE}]`")
    return found


#: variables that mean something to the program itself and are no setting
_OTHERS = frozenset({"SMA_SETTINGS"})

#: settings that are lists, and what parts their values in a variable
_LISTS = {
    "machines": os.pathsep,
    "tools": os.pathsep,
    "commands": os.pathsep,
    "hosts": ",",
    "private_hosts": ",",
    "python_packages": ",",
}


def _settings(table: Mapping[str, Any], source: str, environ: Mapping[str, str]) -> Settings:
    merged = dict(table)
    origin: dict[str, str] = {}
    for name, value in environ.items():
        if not name.startswith("SMA_") or name in _OTHERS or not value:
            continue
        key = name.removeprefix("SMA_").lower()
        if key in _LISTS:
            merged[key] = [part.strip() for part in value.split(_LISTS[key]) if part.strip()]
        elif key in ("db", "model", "identity", "people", "sandbox"):
            merged[key] = value
        else:
            continue
        origin[key] = name
    try:
        return Settings.model_validate(merged)
    except ValidationError as problem:
        error = problem.errors(include_url=False)[0]
        where = ".".join(str(p) for p in error["loc"] if p != "[key]")
        if error["type"] == "extra_forbidden":
            hint = did_you_mean(str(error["loc"][-1]), _keys_at(error["loc"]))
            raise SettingsError(f"{source}: unknown setting `{one_line(where, 60)}`", hint=hint) from None
        if error["type"] == "missing":
            raise SettingsError(f"{source}: `{one_line(where, 60)}` is missing", hint="write it there") from None
        sentence, advice = explain(error)
        source = origin.get(str(error["loc"][0]), source)
        raise SettingsError(f"{source}: `{one_line(where, 60)}`: {sentence}", hint=advice) from None


def _keys_at(path: tuple[str | int, ...]) -> set[str]:
    """What may stand where the last part of the path stands."""
    if path[0] == "mcp":
        return McpServer.keys()
    if path[0] == "oauth2":
        return TokenSource.keys()
    if path[0] != "models":
        return Settings.keys()
    return Price.keys() if "price" in path[2:-1] else NamedModel.keys()


def demo_settings() -> Path:
    """The settings of the demo: inside an installed package, or at the top of a checkout."""
    package = Path(__file__).resolve().parent.parent
    packaged = package / "_data" / FILES[0]
    return packaged if packaged.is_file() else package.parent / FILES[0]
