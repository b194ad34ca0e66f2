"""A tool manifest: what a tool is, what it takes and gives, and everything that makes calling it safe.

It must not know any machine, nor how a binding is called.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt, field_validator, model_validator

from statemachine_agent.definition.bindings import CommandLine, Mcp, Words
from statemachine_agent.definition.node import Cel, Count, Duration, Lower, Node, Pause, Text, complaint, in_schema
from statemachine_agent.definition.redaction import FieldPath, described, masked
from statemachine_agent.definition.schema import Name, Properties
from statemachine_agent.definition.sentences import shown
from statemachine_agent.definition.states import Given, Roles
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


def _seen(pattern: re.Pattern[str]) -> Any:
    """The form as JSON schemas say it."""
    return in_schema(pattern=f"^{pattern.pattern}$")


Scope = Annotated[Text, _in_form(_SCOPE, "a scope", "write `service:verb`, for example `orders:read`"), _seen(_SCOPE)]
SourceName = Annotated[
    Text,
    _in_form(_SOURCE, "the name of a source", "a source begins with a-z and goes on with a-z, 0-9, _ and -"),
    _seen(_SOURCE),
]
Function = Annotated[Text, _in_form(_FUNCTION, "a function", "write `package.module:function`"), _seen(_FUNCTION)]
Header = Annotated[
    Text, _in_form(_HEADER, "the name of a header", "write it as in HTTP, for example `X-Team`"), _seen(_HEADER)
]


def _status(value: object) -> object:
    """Status codes are written as numbers; the keys of YAML are text."""
    if isinstance(value, str) and _STATUS.fullmatch(value):
        return int(value)
    raise complaint(f"{shown(value)} is not an HTTP status of 400 to 599", "write a number, for example 422")


#: how both are read is said in `template`; these are their outlines
Address = Annotated[Text, in_schema(pattern=r"^(https?://[^#]|\$\{)[^# ]*$")]
Key = Annotated[Text, in_schema(pattern=r"^[^{}]*(\{[A-Za-z_][A-Za-z0-9_]*(\|sha256)?\}[^{}]*)+$")]
StatusCode = Annotated[
    int, BeforeValidator(_status, json_schema_input_type=Annotated[str, Field(pattern=f"^{_STATUS.pattern}$")])
]

#: statuses that do not say that nothing happened: too slow, too early, too many, and all of the service's own failures
UNSETTLED = re.compile(r"408|425|429|5[0-9][0-9]")

#: how a call can fail besides `http_NNN`, of which all that is no answer; the names under `errors` are answers
ERROR_CLASSES = ("timeout", "unavailable", "rate_limited", "bad_result", "too_large", "exception", "token_unavailable")

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


class Http(Node):
    """One request. Arguments without a placeholder go into the query of a GET or DELETE, else into the JSON body."""

    #: a write is no GET
    method: Method = "GET"
    #: `${VARIABLE}` in front, `{argument}` as whole path segments or query values
    url: Address
    #: headers, with `${VARIABLE}` wherever one is wanted
    headers: Mapping[Header, Text] = Field(default_factory=dict)
    #: whose access token is sent: a token source of the settings
    oauth2: Lower | None = None
    #: the header in which a write sends its key
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

    #: a request to a service
    http: Http | None = None
    #: `package.module:function`
    python: Function | None = None
    #: a program that the settings list, and its words: as they are, `{argument}` or `--x={argument}`
    command: Words | None = None
    #: a tool of a server that the settings name
    mcp: Mcp | None = None

    @model_validator(mode="after")
    def _exactly_one(self) -> Binding:
        if sum(way is not None for way in (self.http, self.python, self.command, self.mcp)) != 1:
            raise complaint("a binding has exactly one of `http`, `python`, `command`, `mcp`", "write one of them")
        return self

    @property
    def call(self) -> CommandLine:
        """The words of `command`, parsed."""
        return CommandLine.parse(self.command or ("",))


class Reconcile(Node):
    """How the service is asked whether an effect happened."""

    #: the read that looks
    tool: Lower
    #: its arguments, from `args` and `effect`
    given: Mapping[Name, Given] = Field(default_factory=dict, alias="with")
    #: true where the answer shows the effect
    found: Cel
    #: true where the answer shows that there is none; neither of them is in doubt
    absent: Cel
    #: the part of the answer that is the tool's own result
    result: Cel


class Idempotency(Node):
    """The effect's key, from business fields, and how to find the effect by it."""

    #: `order:{isbn}:v1`; what makes two calls the same action, and nothing else
    key: Key
    #: ask a read of the service
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

    #: the read
    tool: Lower
    #: its arguments, from `args` and `effect`
    given: Mapping[Name, Given] = Field(default_factory=dict, alias="with")
    #: what must be true of its answer
    holds: Cel
    #: the reason of `blocked` where it is not
    reason: Lower


class Rule(Node):
    """When a call needs a yes, of whom, and by which policy."""

    #: for which arguments; left out: for all
    when: Cel | None = None
    #: a role, or a list of roles; each is filled by another person
    by: Roles
    #: the policy that asks for it, shown to who approves
    because: Text


class Retry(Node):
    """A write is retried only while nothing was sent; a read may be repeated."""

    #: of a write: tries while nothing was sent
    unsent: Annotated[StrictInt, Field(ge=1, le=10)] | None = None
    #: of a read: tries
    attempts: Annotated[StrictInt, Field(ge=1, le=10)] | None = None
    #: the bound of the first pause; it doubles, and each pause is drawn below it
    backoff: Pause = timedelta(milliseconds=500)
    #: of a read: the error classes that are worth another try
    errors: tuple[Lower, ...] = ("timeout", "unavailable")


#: names that the author makes up, the same in every manifest that means the same thing
Things = Annotated[tuple[Lower, ...], Field(min_length=1), in_schema(uniqueItems=True)]


class Touches(Node):
    """What of the world a tool looks at, and what it changes: things with names of the author's own."""

    #: what its answer depends on
    reads: Things = Field(default=())
    #: of a write: what it changes; results of reads that look at it are old then
    writes: Things = Field(default=())

    @model_validator(mode="after")
    def _something(self) -> Touches:
        if not self.reads and not self.writes:
            raise complaint("`touches` names nothing", "write `reads:` or `writes:`, or remove it")
        for names in (self.reads, self.writes):
            twice = next((name for name in names if names.count(name) > 1), None)
            if twice is not None:
                raise complaint(f"`{twice}` is named twice", "name each thing once")
        return self


class Render(Node):
    """How a result is shown to the model, always as quoted data."""

    #: characters of its JSON; what is longer is shown cut, and says so
    max_chars: Annotated[StrictInt, Field(ge=100, le=24_000)] = 24_000


Effect = Literal["read", "write", "irreversible"]


class ToolManifest(Node):
    """One tool file."""

    stand_in: ClassVar[Mapping[str, object]] = {
        "version": 1, "summary": "-", "source": "x", "binding": {"python": "x:x"}, "returns": {},
    }  # fmt: skip

    #: its name, as machines say it
    tool: Lower
    #: raise it with every change of what the tool does; approvals are bound to it
    version: Count
    #: one sentence, also for the model
    summary: Text
    #: `read` changes nothing, `write` can be looked up, `irreversible` is always approved
    effect: Effect
    #: provenance stamped on every result
    source: SourceName
    #: what the actor of the task must be allowed
    scopes: tuple[Scope, ...] = ()
    #: how it is reached
    binding: Binding
    #: what it takes: name to description of the value
    args: Properties = Field(default_factory=dict)
    #: what is kept of its answer; what else a service sends is dropped
    returns: Properties
    #: of a write: its key, and how an effect is found by it
    idempotency: Idempotency | None = None
    #: of a write: read again just before it is sent
    precondition: Precondition | None = None
    #: a floor that no machine can lower; `[]` says on purpose that none is needed
    approval: tuple[Rule, ...] | None = None
    #: how long one try may take
    timeout: Duration = timedelta(seconds=10)
    #: when a call is tried again
    retry: Retry = Retry()
    #: calls per task, reconciliation excluded
    at_most: Count | None = None
    #: HTTP statuses that mean "no", each with a name; of a write none that leaves open whether it happened
    errors: Mapping[StatusCode, Lower] = Field(default_factory=dict)
    #: the largest answer of a read that is kept
    max_bytes: Annotated[StrictInt, Field(ge=256, le=16_777_216)] = 262_144
    #: what it looks at and what it changes
    touches: Touches | None = None
    #: of a read: an older result counts as absent
    fresh_for: Duration | None = None
    #: of a read: repeats are expected, and are no sign of going in circles
    polling: StrictBool = False
    #: how much of a result the model is shown
    render: Render = Render()
    #: texts of a result that are masked before anything is written; of a read also arguments, as `args.NAME`
    redact: tuple[FieldPath, ...] = ()

    @property
    def is_read(self) -> bool:
        """True where a call changes nothing outside."""
        return self.effect == "read"

    @property
    def masked_results(self) -> tuple[str, ...]:
        """The paths of what is masked in a result; `result.args` is a field called `args`."""
        return tuple(path.removeprefix("result.") for path in self.redact if not path.startswith("args."))

    @property
    def masked_args(self) -> tuple[str, ...]:
        """The paths of what is masked in the arguments."""
        return tuple(path.removeprefix("args.") for path in self.redact if path.startswith("args."))

    def recorded(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Arguments as they may be written and shown; of a tool that masks some, nothing is kept that it does not describe."""
        return masked(self.masked_args, described(self.args, args)) if self.masked_args else args

    @property
    def reconciler(self) -> Reconcile | None:
        """How an effect of this tool is looked up."""
        return self.idempotency.reconcile if self.idempotency else None

    @property
    def can_be_looked_up(self) -> bool:
        """True where it can be asked whether an effect happened."""
        return self.idempotency is not None and (self.idempotency.reconcile is not None or self.idempotency.replay)

    def makes_old(self, other: ToolManifest) -> bool:
        """True where an effect of this tool makes earlier results of the read `other` old."""
        if self.touches is None or other.touches is None or not other.is_read:
            return False
        return not set(self.touches.writes).isdisjoint(other.touches.reads)


def commute(one: ToolManifest, other: ToolManifest) -> bool:
    """True where it makes no difference which of two calls comes first: neither writes what the other reads or writes."""
    both = (one.touches or _NOTHING, other.touches or _NOTHING)
    return all(
        set(a.writes).isdisjoint((*b.reads, *b.writes)) for a, b in (both, both[::-1])
    )  # fmt: skip


_NOTHING = Touches.model_construct()
