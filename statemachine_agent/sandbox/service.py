"""What every service does with a request: log it, route it, misbehave if told to, answer in JSON.

Must not know sockets (``listener`` does) nor what a particular service is about.
"""

from __future__ import annotations

import sqlite3
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar
from urllib.parse import unquote

from . import request_log
from .database import Database
from .exchange import Answer, Problem, Request
from .faults import READ_MODES, WRITE_MODES, Fault, Faults, misbehave
from .request_log import RequestLog

BACKSTAGE = "/_"
"""Paths that start like this are for whoever runs the service: they are never logged and never hit by a fault."""


@dataclass(frozen=True)
class Route:
    """A method and a path template such as ``/orders/{order_id}``, and the function that answers."""

    method: str
    template: str
    handler: Callable[[Request], Answer]

    def match(self, path: str) -> dict[str, str] | None:
        """The decoded placeholders when the percent-encoded ``path`` fits the template, else None."""
        wanted, given = self.template.split("/"), path.split("/")
        if len(wanted) != len(given):
            return None
        names: dict[str, str] = {}
        for template, encoded in zip(wanted, given, strict=True):
            word = unquote(encoded)
            if template.startswith("{") and word:
                names[template.strip("{}")] = word
            elif template != word:
                return None
        return names


class Service(ABC):
    """One service on one SQLite file, without a network: requests in, answers out, from any thread."""

    name: ClassVar[str]
    schema: ClassVar[tuple[str, ...]]
    read_modes: ClassVar[frozenset[str]] = READ_MODES
    write_modes: ClassVar[frozenset[str]] = WRITE_MODES

    def __init__(self, file: Path) -> None:
        self.database = Database(file)
        self.database.prepare((request_log.SCHEMA, *self.schema), self.seed)
        self._log = RequestLog(self.database)
        self._faults = Faults({"read": self.read_modes, "write": self.write_modes})
        self._routes = (*self.routes(), *self._common_routes())

    @abstractmethod
    def routes(self) -> Sequence[Route]:
        """What the service offers beside health, log and faults."""

    @abstractmethod
    def seed(self, connection: sqlite3.Connection) -> None:
        """Fill the tables of a new file."""

    def respond(self, request: Request) -> Answer | None:
        """Serve one request; None means: close the connection without sending anything.

        Whatever the request stores is committed, and its end is in the log, before this returns.
        """
        if request.path.startswith(BACKSTAGE):
            return self._work(request)
        number = self._log.arrived(request)
        fault = self._fault_for(request)
        mode = None if fault is None else fault.mode
        answer = misbehave(fault, lambda: self._work(replace(request, fault=mode)))
        self._log.ended(number, None if answer is None else answer.status, mode)
        return answer

    def _fault_for(self, request: Request) -> Fault | None:
        """The fault that hits this request; one that leads nowhere uses up no fault."""
        try:
            self._find(request)
        except Problem:
            return None
        return self._faults.take("write" if request.method == "POST" else "read")

    def _work(self, request: Request) -> Answer:
        try:
            route, names = self._find(request)
            return route.handler(replace(request, names=names))
        except Problem as problem:
            return problem.answer()
        except Exception:
            traceback.print_exc()
            return Problem(500, "internal", "the service failed; its standard error has the traceback").answer()

    def _find(self, request: Request) -> tuple[Route, dict[str, str]]:
        if request.flaw is not None:
            raise request.flaw
        method = "GET" if request.method == "HEAD" else request.method
        allowed: set[str] = set()
        for route in self._routes:
            names = route.match(request.path)
            if names is None:
                continue
            if route.method == method:
                return route, names
            allowed.add(route.method)
        if not allowed:
            raise Problem(404, "not_found", f"{self.name} has no such path; check the address")
        listed = ", ".join(sorted(allowed | ({"HEAD"} if "GET" in allowed else set())))
        raise Problem(405, "method_not_allowed", f"this path takes {listed}", (("Allow", listed),))

    def _common_routes(self) -> Sequence[Route]:
        return (
            Route("GET", "/_health", lambda request: Answer(200, {"service": self.name, "ok": True})),
            Route("GET", "/_log", lambda request: Answer(200, self._log.all())),
            Route("GET", "/_faults", lambda request: self._faults_now(200)),
            Route("POST", "/_faults", self._add_fault),
            Route("DELETE", "/_faults", self._clear_faults),
        )

    def _add_fault(self, request: Request) -> Answer:
        self._faults.add(request.json())
        return self._faults_now(201)

    def _clear_faults(self, request: Request) -> Answer:
        self._faults.clear()
        return self._faults_now(200)

    def _faults_now(self, status: int) -> Answer:
        return Answer(status, {"faults": self._faults.all()})
