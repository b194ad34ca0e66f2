"""Several reads in one proposal: which may stand together, and when that is so now.

They run at once, so none may need what another brings, and nothing may follow from one of them. What is true of a single
call is checked elsewhere; for a single call nothing here applies. It must not change anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from statemachine_agent.canonical import digest
from statemachine_agent.definition.manifest import commute
from statemachine_agent.definition.states import ChooseState
from statemachine_agent.loop.budget import calls_left, tool_calls_left
from statemachine_agent.loop.call import Call, named
from statemachine_agent.loop.phases import Observation

#: place of a call, kind, error class, and what is wrong with it
_Fault = tuple[int, str, str, str]


def in_company(observation: Observation, calls: Sequence[Call]) -> tuple[Call, ...]:
    """The calls of one proposal, each with all that is wrong with it beside the others."""
    found = list(calls)
    if len(found) > 1:
        for rule in _RULES:
            for place, *fault in rule(observation, calls):
                found[place] = found[place].but(*fault)
    return tuple(found)


def _only_reads(observation: Observation, calls: Sequence[Call]) -> Iterator[_Fault]:
    """A write is proposed alone; so is a read whose result may lead on to another state."""
    for place, call in enumerate(calls):
        if call.manifest is None:
            continue
        if not call.manifest.is_read:
            text = "it changes something: propose it alone, after what it depends on was read"
            yield place, "invalid", "mixed", text
        elif leads_on(observation, call.tool) or (call.move is not None and call.move.moved):
            yield place, "invalid", "mixed", "its result may lead to another state: propose it alone"


def _no_two_equal(_: Observation, calls: Sequence[Call]) -> Iterator[_Fault]:
    """Whatever the order of keys or the spacing in which arguments were sent."""
    seen: dict[str, Call] = {}
    for place, call in enumerate(calls):
        first = seen.setdefault(digest({"tool": call.tool, "args": call.args}), call)
        if first is not call and call.manifest is not None and call.finding is None:
            yield place, "invalid", "equal_calls", f"it is the same call as {named(first)}"


def _each_pair_commutes(_: Observation, calls: Sequence[Call]) -> Iterator[_Fault]:
    for place, call in enumerate(calls):
        for other in calls[:place]:
            if call.manifest and other.manifest and not commute(call.manifest, other.manifest):
                text = f"it and {named(other)} touch the same thing: propose one after the other"
                yield place, "invalid", "mixed", text


def _not_too_many(observation: Observation, calls: Sequence[Call]) -> Iterator[_Fault]:
    most = at_once(observation)
    text = "this state takes one call at a time: propose them one after another"
    if most > 1:
        text = f"this state takes {most} calls at once"
    yield from ((place, "invalid", "several_calls", text) for place in range(most, len(calls)))


def _within_budgets(observation: Observation, calls: Sequence[Call]) -> Iterator[_Fault]:
    """Asked for all of them before the first begins."""
    context, head = observation.context, observation.checkpoint.head
    left = tool_calls_left(context, head)
    text = (
        f"the tool budget is too small for it: {left} of {context.machine.definition.limits.tool_calls} calls are left"
    )
    yield from ((place, "refused", "tool_budget", text) for place in range(left, len(calls)))
    counted: Counter[str] = Counter()
    for place, call in enumerate(calls):
        counted[call.tool] += 1
        most = calls_left(context, head, call.tool) if call.manifest else None
        if most is not None and counted[call.tool] > most > 0:  # at none left it is not offered at all
            yield place, "refused", "at_most", f"calls of `{call.tool}` that are left in this task: {most}"


_RULES: tuple[Callable[[Observation, Sequence[Call]], Iterator[_Fault]], ...] = (
    _only_reads, _no_two_equal, _each_pair_commutes, _not_too_many, _within_budgets,
)  # fmt: skip


# ---------------------------------------------------------------- what may be proposed


@dataclass(frozen=True)
class Together:
    """What may be called at once now."""

    most: int
    tools: tuple[str, ...]


def at_once(observation: Observation) -> int:
    """How many calls one proposal may hold in this state."""
    machine = observation.context.machine
    definition = machine.state(observation.state)
    own = definition.parallel_calls if isinstance(definition, ChooseState) else None
    return own or machine.definition.parallel_calls


def leads_on(observation: Observation, tool: str) -> bool:
    """True where the configuration may change by a call of this read, or by its outcome."""
    chart, leaves = observation.context.machine.chart, observation.checkpoint.head.configuration
    return any(t.target for event in ("call", "ok", "failed") for t in chart.rows(leaves, f"{event}.{tool}"))


def together(observation: Observation) -> Together | None:
    """The reads of which several may be called at once now; None where only one call can be made."""
    machine = observation.context.machine
    definition = machine.state(observation.state)
    most = min(at_once(observation), tool_calls_left(observation.context, observation.checkpoint.head))
    reads = [t for t in observation.offered if t in machine.tools and machine.tools[t].is_read]
    tools = tuple(tool for tool in reads if not leads_on(observation, tool))
    pinned = definition.choose if isinstance(definition, ChooseState) else {}
    varied = any(set(machine.tools[tool].args) - set(pinned[tool].pinned) for tool in tools)
    return Together(most, tools) if most > 1 and (len(tools) > 1 or varied) else None
