"""One request and its answer as plain values; must not know sockets, routes or any particular service."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

Json = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """What goes back to the caller: ``body`` is sent as JSON, except ``bytes``, which are sent as they are."""

    status: int
    body: Json | list[Json] | bytes
    headers: tuple[tuple[str, str], ...] = ()

    def content(self) -> bytes:
        """The body as the bytes to send."""
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode("ascii")


class Problem(Exception):
    """A request cannot be served: an HTTP status, a code for programs and, where it helps, a text for people."""

    def __init__(
        self, status: int, error: str, detail: str | None = None, headers: tuple[tuple[str, str], ...] = ()
    ) -> None:
        super().__init__(f"{status} {error}" if detail is None else f"{status} {error}: {detail}")
        self.status = status
        self.error = error
        self.detail = detail
        self.headers = headers

    def answer(self) -> Answer:
        """The problem as ``{"error"}`` or ``{"error", "detail"}``."""
        body = {"error": self.error} if self.detail is None else {"error": self.error, "detail": self.detail}
        return Answer(self.status, body, self.headers)


@dataclass(frozen=True)
class Request:
    """One request as it arrived, and what routing found out about it.

    ``target`` is the path with its query as received; ``path`` is still percent-encoded, ``query`` and ``names``
    (the values of the placeholders of the route) are decoded. ``key`` is the ``Idempotency-Key``. ``flaw`` is set
    when the body could not be read at all. ``fault`` is the mode of the fault that hits this request.
    """

    method: str
    target: str
    path: str
    query: Mapping[str, str]
    key: str | None
    raw: bytes
    flaw: Problem | None = None
    names: Mapping[str, str] = field(default_factory=dict)
    fault: str | None = None

    def json(self) -> object:
        """The body as a JSON value; a body that is not JSON is a ``Problem`` with status 400."""
        try:
            return parse(self.raw)
        except ValueError as error:
            raise Problem(400, "bad_json", f"the body is not JSON ({error}); send one JSON object in UTF-8") from error

    def choice(self, *names: str) -> tuple[str, str]:
        """The one query parameter given out of ``names``, with its value; none, several or others: status 400."""
        if len(self.query) == 1:
            ((name, value),) = self.query.items()
            if name in names:
                return name, value
        raise Problem(400, "bad_query", f"give exactly one query parameter out of: {', '.join(names)}")


def parse(raw: bytes) -> object:
    """Bytes to a JSON value; every way in which they are not standard JSON is a ``ValueError``."""
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_reject_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")
