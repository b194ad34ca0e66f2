"""The port to a model: what it is shown, and what it gives back. Adapters fill it; the loop knows nothing else of a model.

It must not know states, stores or how a prompt was chosen.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from statemachine_agent.errors import ModelError
from statemachine_agent.models.decision import MAX_CALLS, RawCall, RawReply
from statemachine_agent.text import one_line, said_by


@dataclass(frozen=True)
class OfferedTool:
    """A tool (or control choice) that may be proposed now."""

    name: str
    summary: str
    #: JSON Schema of the arguments, without those that the machine fills in
    schema: Mapping[str, Any]
    #: of a read: the arguments with which it was answered, by results that count; asking so again brings nothing new
    answered: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True)
class Quoted:
    """Data shown to the model: never an instruction."""

    id: str  #: `input`, or `ev-3`
    label: str  #: where it comes from
    value: Any
    trust: str
    #: False where it was cut, or only says that there is more
    whole: bool = True


@dataclass(frozen=True)
class Prompt:
    """Everything that one decision is asked with."""

    machine: str
    state: str
    #: the number of the decision that is asked for, counting from 1
    step: int
    brief: str
    tools: tuple[OfferedTool, ...]
    #: tools of this state that are refused now, with the row's text
    unavailable: Mapping[str, str] = field(default_factory=dict)
    #: the same tools, for a person who plays the model and proposes one all the same; no request to a model holds them
    hidden: tuple[OfferedTool, ...] = ()
    quoted: tuple[Quoted, ...] = ()
    #: what the model is told about its newest proposal
    observation: str | None = None
    #: what is left: steps, tokens, tool calls, seconds
    remaining: Mapping[str, Any] = field(default_factory=dict)
    #: how many calls of the tools in `together` may be proposed at once
    at_once: int = 1
    #: reads of which several may be proposed at once
    together: tuple[str, ...] = ()
    #: the whole as text, data fenced off by a random tag
    text: str = ""
    #: so many characters of it, from the beginning, most likely stand in the next prompt of this state too
    stable: int = 0
    hash: str = ""


#: more than any inference can spend, of tokens or of dollars; a larger number counts as this one
MOST = 2**40


@dataclass(frozen=True)
class Spent:
    """What one inference cost; what a provider does not say is estimated, never zero by default.

    Whatever a provider claims, it never gives budget back. A count that is missing, negative or no number is zero here and
    named in `untold`, and whoever books it puts an estimate there; one beyond measure counts as `MOST`.
    """

    input_tokens: int
    output_tokens: int
    cost_usd: Decimal = Decimal(0)
    #: which of the counts of tokens nobody told
    untold: frozenset[str] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        read, written = _counted(self.input_tokens), _counted(self.output_tokens)
        untold = {name for name, found in (("input_tokens", read), ("output_tokens", written)) if found is None}
        object.__setattr__(self, "input_tokens", int(read or 0))
        object.__setattr__(self, "output_tokens", int(written or 0))
        object.__setattr__(self, "cost_usd", _counted(self.cost_usd) or Decimal(0))
        object.__setattr__(self, "untold", untold.union(self.untold))

    def filled(self, read: int, written: int) -> Spent:
        """The same, with estimates where nobody told."""
        return Spent(
            read if "input_tokens" in self.untold else self.input_tokens,
            written if "output_tokens" in self.untold else self.output_tokens,
            self.cost_usd,
        )


def _counted(given: object) -> Decimal | None:
    """A number between zero and `MOST`; None for what is negative or no number."""
    match given:
        case Decimal() | int():
            found = Decimal(given)
        case float():
            found = Decimal(repr(given))  # 0.1, and not all that a float of 0.1 stands for
        case _:
            return None
    return min(found, Decimal(MOST)) if found.is_finite() and found >= 0 else None


def _plain_spent(given: Spent) -> Spent:
    """The same of our own kind: one of somebody else's may have left its counts as they came."""
    return Spent(given.input_tokens, given.output_tokens, given.cost_usd, frozenset(given.untold))


@dataclass(frozen=True)
class Reply:
    """A model's answer to a prompt."""

    raw: RawReply
    spent: Spent
    model: str
    #: of how many possible calls this is one, where the model chose from a list
    options: int | None = None


class ModelUnavailableError(ModelError):
    """The provider gave no answer; asking again may help."""

    reason = "model_unavailable"

    def __init__(self, message: str, *, retryable: bool = True, retry_after: float | None = None) -> None:
        """`retry_after`: seconds that the provider asked to wait."""
        self.retryable = retryable
        self.retry_after = float(_counted(retry_after) or 0) if retry_after is not None else None
        #: what the attempt is booked with; None: as many tokens as the prompt has
        self.spent: Spent | None = None
        super().__init__(message)


def taken(given: object) -> Reply:
    """`given` as a reply of plain values, whatever an adapter made of it; ModelUnavailableError where it is none."""
    try:
        if isinstance(given, Reply) and isinstance(given.raw, RawReply) and isinstance(given.spent, Spent):
            raw = given.raw
            proposed = islice(raw.calls or (), MAX_CALLS + 1)
            calls = tuple(RawCall(_word(c.id), _word(c.name), _plain(c.arguments)) for c in proposed)
            stop = raw.stop_reason if isinstance(raw.stop_reason, str) else None
            name = one_line(str(given.model or "unnamed").encode(errors="replace").decode(), 200)
            options = given.options if isinstance(given.options, int) else None
            return Reply(RawReply(calls, raw.text, stop), _plain_spent(given.spent), name, options)
    except Exception as problem:  # noqa: BLE001  an object of somebody else's may do anything when it is read
        text = f"the model's reply cannot be read: {said_by(problem)}"
        raise ModelUnavailableError(text, retryable=False) from None
    what = "reply without raw text and calls, or without usage" if isinstance(given, Reply) else type(given).__name__
    raise ModelUnavailableError(f"the model gave a {what}: that is no reply", retryable=False)


def plain_failure(given: ModelUnavailableError) -> ModelUnavailableError:
    """The same of plain values, whatever an adapter put into it."""
    try:
        made = ModelUnavailableError(
            one_line(str(given.message)), retryable=bool(given.retryable), retry_after=given.retry_after
        )
        made.spent = _plain_spent(given.spent) if isinstance(given.spent, Spent) else None
        made.reason = one_line(str(given.reason), 60)
    except Exception as problem:  # noqa: BLE001  as above
        return ModelUnavailableError(f"the model's failure cannot be read: {said_by(problem)}", retryable=False)
    return made


def _word(given: Any) -> Any:
    """A text of Python's own kind; what is none stays, and is found out where calls are read."""
    return str.__str__(given) if isinstance(given, str) else given


def _plain(arguments: object) -> Any:
    """Arguments of built-in types that nobody else holds; what is no JSON becomes a text that is none either."""
    if isinstance(arguments, str):
        return str(arguments)
    try:
        return json.loads(json.dumps(arguments))
    except (TypeError, ValueError, RecursionError):
        return f"<{type(arguments).__name__}>"


class Model(Protocol):
    """Something that decides: a provider, a script, a person.

    One that has `waits_for_person = True` is not hurried, and its time does not count against the task's.
    """

    #: what a task stores to find it again (`scripted:…`, `ask`, `openai:…`)
    spec: str

    async def decide(self, prompt: Prompt) -> Reply:
        """One inference; ModelUnavailableError where there is no answer."""


#: what a piece can be of: words, the name of a call, the arguments of a call as JSON text
PIECES = ("words", "call", "arguments")


@dataclass(frozen=True)
class Piece:
    """A part of a reply that is still on its way. It is for eyes only: nothing is decided by it."""

    #: one of `PIECES`
    kind: str
    text: str
    #: which call of the reply it belongs to, counting from 0
    call: int = 0


#: takes the pieces of a reply as they come; it never raises
Hear = Callable[[Piece], None]


@runtime_checkable
class StreamingModel(Model, Protocol):
    """A model that can be heard while it answers. It is asked this way only where somebody looks on."""

    async def decide_aloud(self, prompt: Prompt, hear: Hear) -> Reply:
        """As `decide`, and `hear` is given each piece as it comes.

        The reply is the same that `decide` would give, and is whole: one that breaks off is a ModelUnavailableError.
        """
