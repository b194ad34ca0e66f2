"""A tool manifest: what a tool is, what it takes and gives, and everything that makes calling it safe.

It must not know any machine, nor how a binding is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, field_validator, model_validator

from statemachine_agent.definition.machine import Count, Given, Roles
from statemachine_agent.definition.node import Cel, Duration, Lower, Node, Pause, Text, complaint
from statemachine_agent.definition.schema import Name, Properties
from statemachine_agent.definition.sentences import shown
from statemachine_agent.definition.template import KeyTemplate, UrlTemplate

_SCOPE = re.compile(r"[a-z][a-z0-9_-]{0,62}:[a-z][a-z0-9_-]{0,62}")
_SOURCE = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STATUS = re.compile(r"[45][0-9][0-9]")


def _in_form(pattern: re.Pattern[str], what: str, advice: str) -> AfterValidator:
    """A text of a certain form."""

    def check(value: str) -> str:
        if not pattern.fullmatch(value):
            raise complaint(f"{shown(value)} is not {what}", advice)
        return value

    return AfterValidator(check)


Scope = Annotated[Text, _in_form(_SCOPE, "a scope", "write `service:verb`, for example `orders:read`")]
SourceName = Annotated[
    Text, _in_form(_SOURCE, "the name of a source", "a source begins with a-z and goes on with a-z, 0-9, _ and -")
]
Function = Annotated[Text, _in_form(_FUNCTION, "a function", "write `package.module:function`")]
Header = Annotated[Text, _in_form(_HEADER, "the name of a header", "write it as in HTTP, for example `X-Team`")]


def _status(value: object) -> object:
    """Status codes are written as numbers; the keys of YAML are text."""
    if isinstance(value, str) and _STATUS.fullmatch(value):
        return int(value)
    raise complaint(f"{shown(value)} is not an HTTP status of 400 to 599", "write a number, for example 422")


StatusCode = Annotated[int, BeforeValidator(_status)]

#: how a call can fail besides the names under `errors` and `http_NNN`
ERROR_CLASSES = ("timeout", "unavailable", "rate_limited", "bad_result", "too_large", "exception")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Http(Node):
    """One request. Arguments without a placeholder go into the query of a GET or DELETE, else into the JSON body."""

    method: Method = "GET"
    url: Text
    headers: Mapping[Header, Text] = Field(default_factory=dict)
    idempotency_header: Header | None = None

    @field_validator("url")
    @classmethod
    def _url(cls, value: str) -> str:
        UrlTemplate.parse(value)
        return value

    @property
    def template(self) -> UrlTemplate:
        """The address, parsed."""
        return UrlTemplate.parse(self.url)


class Binding(Node):
    """How the tool is reached: exactly one of its keys."""

    not_built: ClassVar[frozenset[str]] = frozenset({"mcp", "command"})
    http: Http | None = None
    python: Function | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Binding:
        if (self.http is None) == (self.python is None):
            raise complaint("a binding has exactly one of `http`, `python`", "write one of them")
        return self


class Reconcile(Node):
    """How the service is asked whether an effect happened."""

    tool: Lower
    given: Mapping[Name, Given] = Field(default_factory=dict, alias="with")
    found: Cel
    absent: Cel
    #: the part of the answer that is the tool's own result
    result: Cel


class Idempotency(Node):
    """The effect's key, from business fields, and how to find the effect by it."""

    key: Text
    reconcile: Reconcile | None = None
    #: send the same request with the same key once more; an answer means found
    replay: StrictBool = False

    @field_validator("key")
    @classmethod
    def _key(cls, value: str) -> str:
        KeyTemplate.parse(value)
        return value

    @model_validator(mode="after")
    def _one_way(self) -> Idempotency:
        if self.reconcile is not None and self.replay:
            raise complaint("`reconcile` and `replay: true` exclude each other", "keep one of them")
        return self

    @property
    def template(self) -> KeyTemplate:
        """The key, parsed."""
        return KeyTemplate.parse(self.key)


class Precondition(Node):
    """Read again just before the effect runs."""

    tool: Lower
    given: Mapping[Name, Given] = Field(default_factory=dict, alias="with")
    holds: Cel
    reason: Lower


class Rule(Node):
    """When a call needs a yes, of whom, and by which policy."""

    when: Cel | None = None
    by: Roles
    because: Text


class Retry(Node):
    """A write is retried only while nothing was sent; a read may be repeated."""

    unsent: Annotated[StrictInt, Field(ge=1, le=10)] | None = None
    attempts: Annotated[StrictInt, Field(ge=1, le=10)] | None = None
    backoff: Pause = timedelta(milliseconds=500)
    errors: tuple[Lower, ...] = ("timeout", "unavailable")


Effect = Literal["read", "write", "irreversible"]


class ToolManifest(Node):
    """One tool file."""

    not_built: ClassVar[frozenset[str]] = frozenset({"render", "redact", "fresh_for", "polling", "touches"})

    stand_in: ClassVar[Mapping[str, object]] = {
        "version": 1, "summary": "-", "source": "x", "binding": {"python": "x:x"}, "returns": {},
    }  # fmt: skip

    tool: Lower
    version: Count
    summary: Text
    effect: Effect
    #: provenance stamped on every result
    source: SourceName
    scopes: tuple[Scope, ...] = ()
    binding: Binding
    args: Properties = Field(default_factory=dict)
    returns: Properties
    idempotency: Idempotency | None = None
    precondition: Precondition | None = None
    #: a floor that no machine can lower; `[]` says on purpose that none is needed
    approval: tuple[Rule, ...] | None = None
    timeout: Duration = timedelta(seconds=10)
    retry: Retry = Retry()
    #: calls per task, reconciliation excluded
    at_most: Count | None = None
    #: answers that mean "no"
    errors: Mapping[StatusCode, Lower] = Field(default_factory=dict)
    max_bytes: Annotated[StrictInt, Field(ge=256, le=16_777_216)] = 262_144

    @property
    def is_read(self) -> bool:
        """True where a call changes nothing outside."""
        return self.effect == "read"

    @property
    def reconciler(self) -> Reconcile | None:
        """How an effect of this tool is looked up."""
        return self.idempotency.reconcile if self.idempotency else None

    @property
    def can_be_looked_up(self) -> bool:
        """True where it can be asked whether an effect happened."""
        return self.idempotency is not None and (self.idempotency.reconcile is not None or self.idempotency.replay)
