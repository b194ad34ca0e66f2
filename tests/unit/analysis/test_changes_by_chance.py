"""Whatever changes by chance in what is shipped, `sma diff` tells it; what is only written in another way, it does not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import yaml

from statemachine_agent.analysis.changes import changes
from statemachine_agent.chart.compile import CompiledMachine, compile_machine
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.faults import FaultyDefinitionError
from statemachine_agent.definition.source import Source
from statemachine_agent.errors import UsageError

SHIPPED = Path(__file__).parents[3]
NAMES = ("policy_question", "watch_refund", "refund", "aftercare")  # the last one holds the first two
DEFINED = [yaml.safe_load((SHIPPED / f"machines/{name}.yaml").read_text()) for name in NAMES]
TOOLS = [yaml.safe_load(p.read_text()) for p in sorted((SHIPPED / "tool_manifests").rglob("*.yaml"))]


def shipped(machines: list[Any], tools: list[Any], text: Callable[[Any], str] = json.dumps) -> Catalogue:
    sources = [[Source(f"{n}.yaml", text(one)) for n, one in enumerate(kind)] for kind in (machines, tools)]
    return Catalogue.build(*sources)


def values_in(value: Any) -> list[tuple[Any, Any]]:
    """Every place in `value`: what holds it, and its key."""
    held = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, one in held for place in ((value, key), *values_in(one))]


def is_kept(value: Any) -> bool:
    """True for what would hardly load without it, or as another one."""
    return isinstance(value, dict) or (isinstance(value, str) and " " not in value)


def changed(chance: Random, holder: Any, key: Any) -> None:
    value = holder[key]
    match value:
        case bool():
            holder[key] = not value
        case int():
            holder[key] = value + 1
        case str() if chance.random() < 0.5:
            holder[key] = value + "x"
        case list() if value:
            chance.choice([value.pop, value.reverse, value.clear])()
        case _:
            del holder[key]


def behaviour(machine: CompiledMachine) -> Any:
    """What is compiled, as the library itself dumps it."""
    ways = [(t.source, t.event, t.target, t.when, t.unless, t.success, t.refuse, t.reason, t.confirms) for t in
            machine.chart.transitions]  # fmt: skip
    definition = machine.definition.model_dump(exclude={"version"})
    within = {name: state.of.model_dump() for name, state in machine.definition.inlined.items()}
    return definition, within, {name: tool.model_dump() for name, tool in machine.tools.items()}, machine.masks, ways


def test_no_change_by_chance_goes_untold() -> None:
    """One value somewhere in what is shipped is another one: where it loads and means another thing, something is said."""
    chance, before, other = Random(7), shipped(DEFINED, TOOLS), 0  # noqa: S311  the same ones every time
    old = {name: compile_machine(before, name) for name in NAMES}
    dumped = {name: behaviour(old[name]) for name in NAMES}
    for _ in range(16):
        machines, tools = copy.deepcopy((DEFINED, TOOLS))
        one = chance.choice([*machines, *tools])
        changed(chance, *chance.choice([(h, k) for h, k in values_in(one) if not is_kept(h[k])]))
        name = "refund" if one is machines[2] or "tool" in one else "aftercare"
        try:
            new = compile_machine(shipped(machines, tools), name)
        except (FaultyDefinitionError, UsageError):
            continue
        found = changes(old[name], new)
        if behaviour(new) == dumped[name]:
            assert found == []
        else:
            other += 1
            assert found or drops_a_type(old[name], new), (one, found)
    assert other > 3


def drops_a_type(old: CompiledMachine, new: CompiledMachine) -> bool:
    """True where all that differs is `type: string`, which is meant where nothing is said."""
    texts = [repr(behaviour(one)).replace("'type': 'string'", "'type': None") for one in (old, new)]
    return texts[0] == texts[1]


def test_no_shuffle_is_a_change() -> None:
    """Keys stand in another order, and comments between them; states of a parallel one are left where they are."""
    chance, before = Random(3), shipped(DEFINED, TOOLS)  # noqa: S311  the same order every time

    def shuffled(value: Any, *, fixed: bool = False) -> Any:
        if isinstance(value, list):
            return [shuffled(one) for one in value]
        if not isinstance(value, dict):
            return value
        keys = list(value)
        if not fixed:
            chance.shuffle(keys)
        return {k: shuffled(value[k], fixed=k == "states" and "parallel" in value) for k in keys}

    after = shipped(shuffled(DEFINED), shuffled(TOOLS), lambda one: "# a comment\n\n" + json.dumps(one, indent=1))
    for name in before.machines:
        old, new = compile_machine(before, name), compile_machine(after, name)
        assert old.hash != new.hash and changes(old, new) == []
