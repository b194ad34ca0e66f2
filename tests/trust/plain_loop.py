"""The control: the loop that everybody writes. The model sees the tools, and whatever it calls is executed.

The same model, tools, arguments' schemas and services; the rules stand in its prompt. Nothing else is between them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from trust.obedient import Obedient

from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.errors import SmaError
from statemachine_agent.tools.arguments import checked_arguments

RULES = (
    "You help one customer with one order. Look up the order, its refunds and the policy. Propose nothing but the later payment,"
    " ask a support lead with request_approval before any money moves, and write to nobody about what was not verified.\n"
)
_TURNS = 12


def plain_loop(
    model: Obedient,
    tools: Mapping[str, ToolManifest],
    call: Callable[[str, Mapping[str, Any]], object],
    asking: Mapping[str, Callable[[Mapping[str, Any]], object]],
    task: str,
) -> None:
    """Run `task` to its end; `asking` are the tools that ask a person."""
    said = [RULES, *(f"- {m.tool}: {m.summary}\n" for m in tools.values()), f"Task: {task}\n"]
    names = {**{m.tool: list(m.args) for m in tools.values()}, **{name: ["tool", "args"] for name in asking}}
    for _ in range(_TURNS):
        proposed = model.next("".join(said), names)
        if proposed is None:
            return
        tool, args = proposed
        mine = ", ".join(f"{name}={value}" for name, value in args.items())
        said.append(f"you: {tool}({mine})\n{tool}: {_done(tool, args, tools, call, asking)}\n")


def _done(tool: str, args: Mapping[str, Any], tools: Any, call: Any, asking: Any) -> str:
    if tool in asking:
        return json.dumps(asking[tool](args), ensure_ascii=False)
    if tool not in tools:
        return "there is no such tool"
    given = {k: v for k, v in args.items() if k in tools[tool].args}
    checked, faults = checked_arguments(tools[tool], given)
    if faults:
        return "; ".join(map(str, faults))
    try:
        return json.dumps(call(tool, checked), ensure_ascii=False)
    except SmaError as problem:
        return f"error: {problem.message}"
