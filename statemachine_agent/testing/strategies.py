"""What a random walk draws: values that fit a description, and replies that are none of the model's business.

Texts and numbers that a machine already knows are drawn more often than any others: guards compare them. It must not know
what is done with a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from hypothesis import strategies as st

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.definition.schema import Properties, Property, misfit
from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.records import Checkpoint
from statemachine_agent.testing.samples import variants_of

#: single values that may mean something to a machine
Pool: TypeAlias = Sequence[Any]
_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)


def objects(properties: Properties, pool: Pool = (), given: Sequence[Mapping[str, Any]] = ()) -> st.SearchStrategy[Any]:
    """Objects that fit; those `given` are six times as likely as all others."""
    required = {name: values(p, pool) for name, p in properties.items() if not p.optional}
    optional = {name: values(p, pool) for name, p in properties.items() if p.optional}
    made_up = st.fixed_dictionaries(required, optional=optional)
    if not given:
        return made_up
    likely = st.sampled_from([dict(g) for g in given])
    return st.one_of(*[likely] * 6, made_up)


def values(declared: Property, pool: Pool = ()) -> st.SearchStrategy[Any]:
    """Values that fit."""
    known = [value for value in pool if misfit(declared, value) is None]
    plain = list(variants_of(declared))
    choices: list[st.SearchStrategy[Any]] = [st.sampled_from(found) for found in (known, known, plain) if found]
    match declared.kind:
        case "integer" if not declared.enum:
            low, high = declared.minimum, declared.maximum
            choices.append(st.integers(low, high if high is not None or low is None else low + 1000))
        case "array" if declared.items is not None:
            least = declared.min_items or 0
            most = min(declared.max_items if declared.max_items is not None else 3, least + 3)
            choices = [st.lists(values(declared.items, pool), min_size=least, max_size=most)]
        case "object" if declared.properties is not None:
            choices = [objects(declared.properties, pool)]
        case "string" if not (declared.enum or declared.pattern or declared.format):
            choices.append(_TEXT.filter(lambda text: misfit(declared, text) is None))
    return st.one_of(choices) if choices else st.nothing()


def pool_of(machine: CompiledMachine, checkpoint: Checkpoint) -> list[Any]:
    """What stands in the task's input, evidence and actor, and in the texts of the machine's guards."""
    found: dict[str, Any] = {}
    data = [checkpoint.task.input, checkpoint.task.actor["id"], *(e.payload for e in checkpoint.evidence)]
    for value in (*_singles(data), *_literals(machine)):
        found.setdefault(repr(value), value)
    return list(found.values())


def _singles(value: Any) -> Iterable[Any]:
    match value:
        case Mapping():
            for part in value.values():
                yield from _singles(part)
        case list() | tuple():
            for part in value:
                yield from _singles(part)
        case _:
            yield value


def _literals(machine: CompiledMachine) -> Iterable[Any]:
    for guard in machine.definition.guards.values():
        if isinstance(guard, str):
            yield from re.findall(r'"([^"\\]*)"', guard)
            for number in re.findall(r"(?<![\w.])\d{1,9}(?![\w.])", guard):
                yield from (int(number), int(number) + 1)


def malformed(tools: Sequence[str]) -> st.SearchStrategy[RawReply]:
    """Replies that are no proposal, or one that cannot be right."""
    tool = st.sampled_from([*tools, "finish"])
    arguments = st.sampled_from(
        ['{"a": 1', "[]", "null", '{"a": NaN}', '{"a": 1, "a": 2}', '{"surely_unknown": true}', ""]
    )
    call = st.builds(RawCall, st.just("call-1"), tool, arguments)
    return st.one_of(
        st.just(RawReply()),
        st.builds(RawReply, text=st.sampled_from(["I have done it.", "finish", "\u202e\x00"])),
        st.builds(RawReply, st.tuples(call)),
        st.builds(RawReply, st.tuples(call, call)),
        st.builds(RawReply, st.tuples(call), stop_reason=st.just("length")),
        st.builds(RawReply, st.tuples(st.builds(RawCall, st.just(""), _TEXT, st.just({})))),
    )
