"""What a model can propose: a closed, versioned union, and how a raw reply becomes one of its members or a fault.

Every provider's reply is brought into one raw form: texts and calls; a control choice is a call of that name. It must not
know which tools are allowed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from statemachine_agent.canonical import canonical
from statemachine_agent.definition.names import CONTROLS
from statemachine_agent.definition.redaction import MASK
from statemachine_agent.definition.states import MOST_AT_ONCE
from statemachine_agent.errors import CanonicalError
from statemachine_agent.text import one_line

#: raised when a member or a field of the union changes
SCHEMA_VERSION = 1

MAX_TEXT = 8_000
MAX_ARGUMENTS = 100_000  # characters of one call's arguments
MAX_CALLS = MOST_AT_ONCE  # of one reply
#: why a reply ended before it was whole; a call in it is never run, however whole it looks
_CUT_OFF = ("length", "max_tokens", "content_filter", "error")
_MAX_NAME = 200  # characters of the id or the name of a call


@dataclass(frozen=True)
class RawCall:
    """One call as it came: arguments are JSON text, or a mapping that the provider had parsed."""

    id: str
    name: str
    arguments: str | Mapping[str, Any]


#: the arguments of a tool as they may be written; None where they may be as they are
Recorded = Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]


@dataclass(frozen=True)
class RawReply:
    """A reply as it came."""

    calls: tuple[RawCall, ...] = ()
    text: str = ""
    stop_reason: str | None = None

    def as_json(self, recorded: Recorded | None = None) -> dict[str, Any]:
        """The reply for the record, in a form that can always be written; `recorded` masks the arguments of a tool."""
        return {
            "text": _recordable(self.text),
            "calls": [
                {
                    "id": _recordable(c.id)[:_MAX_NAME],
                    "name": _recordable(c.name)[:_MAX_NAME],
                    "arguments": _recordable_arguments(c, recorded),
                }
                for c in self.calls[:MAX_CALLS]
            ],
            "stop_reason": None if self.stop_reason is None else _recordable(self.stop_reason)[:_MAX_NAME],
        }


@dataclass(frozen=True)
class ToolCall:
    """One tool with its arguments."""

    id: str
    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class ToolCalls:
    """Call tools."""

    calls: tuple[ToolCall, ...]


@dataclass(frozen=True)
class Finish:
    """The goal is met."""

    #: a text, or what the machine's `output` describes
    answer: str | Mapping[str, Any]


@dataclass(frozen=True)
class AskUser:
    """A fact is needed that only the user has."""

    question: str


@dataclass(frozen=True)
class RequestApproval:
    """Propose this call, and ask people first whatever the rules say."""

    call: ToolCall
    reason: str


@dataclass(frozen=True)
class CannotContinue:
    """There is nothing useful left to do."""

    reason: str


Decision = ToolCalls | Finish | AskUser | RequestApproval | CannotContinue


@dataclass(frozen=True)
class InvalidCall:
    """One of several calls that is none: what is wrong with it."""

    id: str
    tool: str
    error_class: str
    message: str


@dataclass(frozen=True)
class InvalidDecision:
    """A reply that is none of them: what is wrong, as the model will be told."""

    error_class: str
    message: str
    #: where several calls were proposed: all of them, those included with which nothing is wrong
    calls: tuple[ToolCall | InvalidCall, ...] = ()


#: the one argument of each control choice, but `request_approval`
_CONTROL_ARGUMENT = {"finish": "answer", "ask_user": "question", "cannot_continue": "reason"}


def decision_of(reply: RawReply) -> Decision | InvalidDecision:
    """The decision in a reply; anything that is not exactly one of the union is invalid, never an exception."""
    if reply.stop_reason in _CUT_OFF and reply.calls:
        return InvalidDecision("truncated", "the reply was cut off before the call was complete")
    if not reply.calls:
        if _recordable(reply.text).strip():
            return InvalidDecision("text_without_call", "a text decides nothing: propose one of the allowed calls")
        return InvalidDecision("empty", "nothing was proposed: propose one of the allowed calls")
    if len(reply.calls) > MAX_CALLS:
        return InvalidDecision("too_many_calls", f"more than {MAX_CALLS} calls were proposed at once")
    if len(reply.calls) > 1:
        return _several(reply.calls)
    parsed = _call(reply.calls[0])
    if isinstance(parsed, InvalidDecision):
        return parsed
    return _control(parsed) if parsed.tool in CONTROLS else ToolCalls((parsed,))


def _several(calls: tuple[RawCall, ...]) -> ToolCalls | InvalidDecision:
    """Several calls at once; each is looked at, so that the model can be told of all that is wrong."""
    found: list[ToolCall | InvalidCall] = []
    for place, call in enumerate(calls, 1):
        parsed = _call(call)
        if isinstance(parsed, ToolCall) and any(parsed.id == one.id for one in found):
            parsed = InvalidDecision("duplicate_call_id", "another call has this id")
        elif isinstance(parsed, ToolCall) and parsed.tool in CONTROLS:
            parsed = InvalidDecision("mixed", "a control choice stands alone")
        if isinstance(parsed, InvalidDecision):
            name, tool = (value if _is_name(value) else "" for value in (call.id, call.name))
            found.append(InvalidCall(name or f"number {place}", tool, parsed.error_class, parsed.message))
        else:
            found.append(parsed)
    good = [one for one in found if isinstance(one, ToolCall)]
    if len(good) == len(found):
        return ToolCalls(tuple(good))
    bad = [one for one in found if isinstance(one, InvalidCall)]
    message = "; ".join(one_line(f"{one.id}: {one.message}", 200) for one in bad)
    return InvalidDecision(bad[0].error_class, message, tuple(found))


def _call(call: RawCall) -> ToolCall | InvalidDecision:
    for what, value in (("id", call.id), ("name", call.name)):
        if not _is_name(value):
            return InvalidDecision("malformed_call", f"a call has no usable {what}")
    arguments = _arguments(call.arguments)
    if isinstance(arguments, InvalidDecision):
        return arguments
    return ToolCall(call.id, call.name, arguments)


def _arguments(raw: str | Mapping[str, Any]) -> Mapping[str, Any] | InvalidDecision:
    value: Any = raw
    if isinstance(raw, str):
        if len(raw) > MAX_ARGUMENTS:
            return InvalidDecision("too_large", f"the arguments have more than {MAX_ARGUMENTS} characters")
        try:
            value = json.loads(raw or "{}", parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
        except RecursionError:
            return InvalidDecision("malformed_arguments", "the arguments are nested too deeply")
        except ValueError as problem:
            return InvalidDecision("malformed_arguments", f"the arguments are not JSON: {one_line(str(problem), 120)}")
    if not isinstance(value, Mapping):
        return InvalidDecision("malformed_arguments", "the arguments are not an object")
    try:
        size = len(canonical(value))
    except (CanonicalError, RecursionError) as problem:
        text = "they are nested too deeply"
        if isinstance(problem, CanonicalError):  # a path is made of names that the model wrote, which may be anything
            text = f"a value in them {problem.problem}"
        return InvalidDecision("malformed_arguments", f"the arguments are not JSON: {one_line(text, 120)}")
    if size > MAX_ARGUMENTS:
        return InvalidDecision("too_large", f"the arguments have more than {MAX_ARGUMENTS} characters")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found


def _control(call: ToolCall) -> Decision | InvalidDecision:
    if call.tool == "request_approval":
        return _request_approval(call)
    name = _CONTROL_ARGUMENT[call.tool]
    text = call.args.get(name)
    if call.tool == "finish" and set(call.args) == {name} and isinstance(text, Mapping):
        return Finish(text)  # whether this is an answer of the machine is the validation's matter
    if set(call.args) != {name} or not isinstance(text, str) or not text.strip() or len(text) > MAX_TEXT:
        return InvalidDecision(
            "malformed_arguments",
            f"`{call.tool}` takes `{name}`: a text of at most {MAX_TEXT} characters, and nothing else",
        )
    match call.tool:
        case "finish":
            return Finish(text)
        case "ask_user":
            return AskUser(text)
        case _:
            return CannotContinue(text)


def _request_approval(call: ToolCall) -> Decision | InvalidDecision:
    tool, args, reason = call.args.get("tool"), call.args.get("args"), call.args.get("reason")
    if (
        set(call.args) != {"tool", "args", "reason"}
        or not isinstance(tool, str)
        or not isinstance(args, Mapping)
        or not isinstance(reason, str)
        or not reason.strip()
        or len(reason) > MAX_TEXT
    ):
        return InvalidDecision("malformed_arguments", "`request_approval` takes `tool`, `args` and `reason`")
    return RequestApproval(ToolCall(call.id, tool, args), reason)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_NAME and _is_writable(value)


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _recordable(text: object) -> str:
    """A text that can be written, whatever was given."""
    if text is None:
        return ""
    try:
        found = text if isinstance(text, str) else repr(text)
    except Exception:  # noqa: BLE001  nested without end, or an object that cannot say what it is
        found = f"a {type(text).__name__} that cannot be shown"
    return found[:MAX_ARGUMENTS].encode("utf-8", "backslashreplace").decode()


def _recordable_arguments(call: RawCall, recorded: Recorded | None) -> Any:
    arguments: object = call.arguments
    if recorded is not None and recorded(call.name, {}) is not None:
        parsed = _arguments(call.arguments)
        arguments = MASK if isinstance(parsed, InvalidDecision) else recorded(call.name, parsed)
    if isinstance(arguments, str):
        return _recordable(arguments)
    try:
        if len(canonical(arguments)) <= MAX_ARGUMENTS:
            return arguments
    except (CanonicalError, RecursionError):
        pass
    return _recordable(arguments)
