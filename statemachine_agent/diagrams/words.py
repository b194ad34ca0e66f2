"""What the diagrams say: events, conditions, times and pinned arguments as short texts.

It must not know where a text is shown; nothing is escaped here.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Literal

from statemachine_agent.chart.transitions import Transition
from statemachine_agent.definition.machine import Limits
from statemachine_agent.definition.names import CONTROLS
from statemachine_agent.definition.nesting import DONE
from statemachine_agent.definition.references import MACHINE_ROOTS, Reference, parse
from statemachine_agent.definition.states import Given, Wait
from statemachine_agent.diagrams.picture import Exits, Line, is_done
from statemachine_agent.text import one_line
from statemachine_agent.times import duration

#: kinds of state, and who decides or what happens there
KINDS = {
    "choose": "the model chooses",
    "route": "policy decides",
    "call": "runs a tool",
    "reconcile": "asks what happened",
    "approval": "a person decides",
    "wait": "waits",
}

#: what stands for an end of another machine
ENDING = "what follows"
#: kinds of states that hold others, and how what they hold goes on
HOLDERS = {"compound": "one at a time", "parallel": "side by side", "region": "region"}

_TEXT = 400  # longer than any text that a person reads on a picture
_WHOLE = 10_000  # and longer than a definition's texts are: a table shows all of them
_VALUE = 60


def clean(text: str) -> str:
    """A text of the author as one line, in which nothing is hidden."""
    return one_line(text, _TEXT)


def whole(text: str) -> str:
    """The same without an end: what decides is never cut where there is room."""
    return one_line(text, _WHOLE)


def happened(transition: Transition, kind: str) -> str:
    """What sets the transition off, in a state of that kind."""
    verb, _, of = transition.event.partition(".")
    if verb == "exit":
        return of.replace("_", " ")
    if kind == "route":
        return ""
    if kind != "choose":
        return verb
    if verb == "call":
        return of if of in CONTROLS else f"{of} proposed"
    return "after a step" if verb == "then" else f"{of} {verb}"


def condition(transition: Transition) -> str:
    """What must hold for it: `when a and b`, `unless a and b`, `when success`."""
    parts = [f"when {together(transition.when)}"] if transition.when else []
    parts += [f"unless {together(transition.unless)}"] if transition.unless else []
    parts += ["when success"] if transition.success else []
    return ", ".join(parts)


def notes(transition: Transition) -> tuple[str, ...]:
    """What else follows from it."""
    found = [f"reason {transition.reason}"] if transition.reason else []
    found += [f"confirms {transition.confirms}"] if transition.confirms else []
    return tuple(found)


def told(line: Line, within: str = "") -> str:
    """A row that leads nowhere else as one text; inside the entry of a tool (`within`) its proposal goes without saying."""
    t = line.transition
    on = "" if within and t.event == f"call.{within}" else line.on
    if t.refuse is not None:
        text = " ".join(word for word in (on, "refused", line.condition) if word) + f": “{t.refuse}”"
    else:
        text = ", ".join(word for word in (on, line.condition) if word) + (f" → {target(t)}" if t.target else ": stays")
    return clean(f"{numbered(line)} {text}") + noted(line)


def led(line: Line) -> str:
    """What leads along an arrow, as a row of the state that it leaves."""
    return f"{beside(line)} → {target(line.transition)}".strip() + noted(line)


def target(transition: Transition) -> str:
    """Where it leads, as its row says."""
    return DONE if is_done(transition.target or "") else transition.target or ""


def asked(line: Line) -> str:
    """The condition of an arrow: `[when a and b]`, `[otherwise]`, or nothing."""
    return f"[{line.condition}]" if line.condition else ""


def beside(line: Line) -> str:
    """What stands beside an arrow, without the notes."""
    return " ".join(word for word in (numbered(line), line.on, asked(line)) if word)


def noted(line: Line) -> str:
    """The notes, set apart."""
    return f" ({', '.join(line.notes)})" if line.notes else ""


def numbered(line: Line) -> str:
    """Its number among rows whose order says something."""
    return f"{line.order}." if line.order else ""


def times(count: int) -> str:
    """How often a way was gone."""
    return f"\N{MULTIPLICATION SIGN} {count}"


def ways(group: Exits) -> list[str]:
    """The exits of a group, those to one end together: `crashed, guard error → FAILED`."""
    found: dict[str, list[str]] = {}
    for one in group.exits:
        found.setdefault(one.target, []).append(one.word)
    return [f"{', '.join(several)} → {target}" for target, several in found.items()]


def waited(wait: Wait) -> str:
    """For what a state waits."""
    if wait.signal is not None and wait.expires is not None:
        return f"for the signal {wait.signal}, up to {duration(wait.expires)}"
    return f"until {whole(wait.until)}" if wait.until is not None else f"for {duration(wait.duration or timedelta())}"


def together(names: Iterable[str]) -> str:
    """`a and b and c`, as conditions are read."""
    return " and ".join(names)


def listed(names: Iterable[str]) -> str:
    """`a, b and c`."""
    *first, last = list(names)
    return f"{', '.join(first)} and {last}" if first else last


def people(roles: Mapping[str, int], beside: Mapping[str, int] | None = None) -> str:
    """Who must agree, beside those named already; each is somebody else."""
    named = [(role, n + (beside or {}).get(role, 0)) for role, count in roles.items() for n in range(count)]
    return listed(f"another {role}" if before else role for role, before in named)


def so_often(count: int) -> str:
    """`once`, `3 times`."""
    return "once" if count == 1 else f"{count} times"


def limits(budget: Limits) -> tuple[str, ...]:
    """The budgets of a task."""
    return (
        f"{budget.steps:,} steps",
        f"{duration(budget.active_time)} active time",
        f"{budget.tokens:,} tokens",
        f"{budget.tool_calls:,} tool calls",
        f"{budget.cost_usd:.2f} USD",
    )


def given(with_: Literal["proposal"] | Mapping[str, Given]) -> tuple[tuple[str, str], ...]:
    """The arguments of a call."""
    return (("arguments", "the accepted proposal"),) if isinstance(with_, str) else pins(with_)


def pins(given: Mapping[str, Given]) -> tuple[tuple[str, str], ...]:
    """Arguments that the machine fills: a reference as it stands, a literal as JSON."""
    return tuple((name, _value(value)) for name, value in given.items())


def _value(value: Given) -> str:
    meant = parse(value, MACHINE_ROOTS)
    if isinstance(meant, Reference):
        return one_line(meant.text, _VALUE)
    return one_line(json.dumps(meant.value, ensure_ascii=False, default=str), _VALUE)
