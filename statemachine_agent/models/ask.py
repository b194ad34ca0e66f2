"""A person plays the model: shown the brief, the evidence and the allowed tools, they choose one and fill it in.

What they type is a proposal like any other. It must not know machines or tasks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import OfferedTool, Prompt, Reply, Spent
from statemachine_agent.models.typed import UnreadableLineError, typed_line
from statemachine_agent.text import one_line, visible

_LEFT_OUT = object()
_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "integer": (int,), "number": (int, float), "boolean": (bool,),
}  # fmt: skip


class AskModel:
    """Asks on standard error, reads from standard input."""

    spec = "ask"
    waits_for_person = True

    def __init__(self, environment: Environment) -> None:
        """The terminal is looked for when the first question is asked."""
        self._environment = environment

    async def decide(self, prompt: Prompt) -> Reply:
        """Ask, in a thread of its own, so that nothing else is held up."""
        call = await self._environment.in_thread(ask, prompt)
        return Reply(RawReply((call,)), Spent(0, 0), self.spec)


def ask(prompt: Prompt) -> RawCall:
    """One choice; UsageError where nobody is there to ask."""
    _say("\n" + _screen(prompt))
    tool = _choose(prompt)
    if tool.name in prompt.unavailable:  # proposed all the same: what people try out is how a machine refuses
        _say(visible(f"  {tool.name} will be refused: {prompt.unavailable[tool.name]}"))
        if not tool.schema.get("properties"):
            _say("  it takes no arguments")
    required = tool.schema.get("required", ())
    fields = tool.schema.get("properties", {}).items()
    arguments = {name: _value(name, schema, required=name in required) for name, schema in fields}
    return RawCall(f"call-{prompt.step}", tool.name, {k: v for k, v in arguments.items() if v is not _LEFT_OUT})


def _screen(prompt: Prompt) -> str:
    lines = [f"--- step {prompt.step} · {prompt.machine} · {prompt.state} ---", prompt.brief, ""]
    for quoted in prompt.quoted:
        lines.append(visible(f"[{quoted.id}] {quoted.label} ({quoted.trust})"))
        lines.append("    " + visible(json.dumps(quoted.value, ensure_ascii=False)))
    if prompt.observation:
        lines += ["", f"! {visible(prompt.observation)}"]
    lines.append("")
    for number, tool in enumerate(prompt.tools, 1):
        lines.append(visible(f"  {number}. {tool.name}: {tool.summary}"))
    for name, text in prompt.unavailable.items():
        lines.append(visible(f"     {name}: not available yet: {text}"))
    left = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in prompt.remaining.items())
    lines += ["", f"left: {left}"]
    return "\n".join(lines)


def _choose(prompt: Prompt) -> OfferedTool:
    names = {tool.name: tool for tool in (*prompt.hidden, *prompt.tools)}
    while True:
        answer = _read("choose a number or a name: ").strip()
        if answer in names:
            return names[answer]
        numbered = {str(number): tool for number, tool in enumerate(prompt.tools, 1)}
        if answer in numbered:
            return numbered[answer]
        _say(f"  there is no choice `{one_line(answer, 40)}`")


def _value(name: str, schema: Any, *, required: bool) -> Any:
    """What is typed for one argument: text as it is, anything else as JSON of the kind that is asked for."""
    about = f" ({schema['description']})" if schema.get("description") else ""
    wanted = _wanted(schema)
    of = f" [{wanted}]" if schema.get("type") == "object" else ""
    while True:
        text = _read(visible(f"  {name}{about}{of}{'' if required else ' [optional]'}: "))
        if not text and not required:
            return _LEFT_OUT
        if schema.get("type") == "string":
            if text or not schema.get("minLength"):
                return text
            _say("  write something")
            continue
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = _LEFT_OUT
        if _is_of(value, schema.get("type")):
            return value
        _say(visible(f"  write {wanted}"))


def _wanted(schema: Mapping[str, Any]) -> str:
    """What is to be typed, in words: of an object with its fields."""
    fields = [
        f'"{name}": {field.get("type", "value")}{"" if name in schema.get("required", ()) else " [optional]"}'
        for name, field in schema.get("properties", {}).items()
    ]
    return f"a JSON {schema.get('type', 'value')}" + (f" {{{', '.join(fields)}}}" if fields else "")


def _is_of(value: object, kind: object) -> bool:
    """True for a value of this kind: of another one it is a slip of the hand, and not worth a step."""
    if value is _LEFT_OUT:
        return False
    types = _TYPES.get(str(kind))
    return types is None or (isinstance(value, types) and (kind == "boolean" or not isinstance(value, bool)))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201  this is the terminal's face of a model


def _read(question: str) -> str:
    while True:
        print(question, end="", file=sys.stderr, flush=True)  # noqa: T201
        try:
            line = typed_line()
        except UnreadableLineError as problem:
            _say(f"\n  {problem}")
            continue
        if not line:
            _say("")
            raise UsageError("nobody is there to choose", hint="run in a terminal, or name another model with --model")
        return line.rstrip("\r\n")
