"""A tool manifest: what a tool is, what it takes and gives, and everything that makes calling it safe.

It must not know any machine, nor how a binding is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictInt, field_validator, model_validator

from statemachine_agent.definition.machine import Count, Given, Roles
from statemachine_agent.definition.node import Cel, Duration, Lower, Node, Text, complaint
from statemachine_agent.definition.schema import Properties
from statemachine_agent.definition.template import KeyTemplate, UrlTemplate

SCOPE = re.compile(r"[a-z][a-z0-9_-]{0,62}:[a-z][a-z0-9_-]{0,62}")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Http(Node):
    """One request. Arguments without a placeholder go into the query of a GET or DELETE, else into the JSON body."""

    method: Method = "GET"
    url: Text
    headers: Mapping[str, str] = Field(default_factory=dict)
    idempotency_header: Text | None = None

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
    python: Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")] | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Binding:
        if (self.http is None) == (self.python is None):
            raise complaint("a binding has exactly one of `http`, `python`", "write one of them")
        return self


class Reconcile(Node):
    """How the service is asked whether an effect happened."""

    tool: Lower
    given: Mapping[Lower, Given] = Field(default_factory=dict, alias="with")
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
    given: Mapping[Lower, Given] = Field(default_factory=dict, alias="with")
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
    backoff: Duration = timedelta(milliseconds=500)
    errors: tuple[Lower, ...] = ("timeout", "unavailable")


def _codes(value: Any) -> Any:
    """Status codes are written as numbers; YAML keys are text."""
    if not isinstance(value, dict):
        return value
    for key in value:
        if not (isinstance(key, int) or (isinstance(key, str) and re.fullmatch(r"[45][0-9][0-9]", key))):
            raise complaint(
                f"`{key}` is not an HTTP status of 400 to 599", "write the status as a number, for example 422"
            )
    return {int(k): v for k, v in value.items()}


Effect = Literal["read", "write", "irreversible"]


class ToolManifest(Node):
    """One tool file."""

    not_built: ClassVar[frozenset[str]] = frozenset({"render", "redact", "fresh_for", "polling", "touches"})

    tool: Lower
    version: Count
    summary: Text
    effect: Effect
    #: provenance stamped on every result
    source: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
    scopes: tuple[str, ...] = ()
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
    errors: Annotated[Mapping[int, Lower], BeforeValidator(_codes)] = Field(default_factory=dict)
    max_bytes: Annotated[StrictInt, Field(ge=256, le=16_777_216)] = 262_144

    @field_validator("scopes")
    @classmethod
    def _scopes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for scope in value:
            if not SCOPE.fullmatch(scope):
                raise complaint(f"`{scope}` is not a scope", "write `service:verb`, for example `orders:read`")
        return value

    @property
    def is_read(self) -> bool:
        """True where a call changes nothing outside."""
        return self.effect == "read"

    @property
    def reconciler(self) -> Reconcile | None:
        """How an effect of this tool is looked up."""
        return self.idempotency.reconcile if self.idempotency else None
