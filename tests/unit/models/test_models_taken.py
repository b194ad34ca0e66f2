"""Whatever an adapter gives back or raises: a reply of plain values or a failed attempt on record, never an exception."""

from __future__ import annotations

import asyncio
import itertools
from collections import UserDict
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from statemachine_agent import ScriptedModel, SimulatedEnvironment
from statemachine_agent.models.decision import MAX_CALLS, RawCall, RawReply
from statemachine_agent.models.port import MOST, ModelUnavailableError, Prompt, Reply, Spent, taken
from statemachine_agent.records import Checkpoint
from support.world import LOOK_STEP, ONE, act_step, simulated, world

LOOK = RawCall("c", "look", {"thing": "box"})
FREE = Spent(0, 0)


class Mute(Exception):  # noqa: N818
    """It cannot say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class Broken:
    """It does not let itself be read."""

    def __iter__(self) -> Iterator[RawCall]:
        raise Mute


def given(*calls: Any, spent: Any = FREE, model: Any = "m", **more: Any) -> Reply:
    return Reply(RawReply(calls, **more), spent, model)


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (None, "the model gave a NoneType"),
        ("I have refunded it", "the model gave a str"),
        ({"calls": []}, "the model gave a dict"),
        (given(LOOK).raw, "the model gave a RawReply"),
        (given(LOOK, spent=None), "without usage"),
        (given(LOOK, spent={"input_tokens": 3}), "without usage"),
        (Reply({"calls": [LOOK]}, FREE, "m"), "without raw text and calls"),  # type: ignore[arg-type]
        (Reply(RawReply(Broken()), FREE, "m"), "cannot be read: Mute"),  # type: ignore[arg-type]
        (given({"id": "c", "name": "look"}), "cannot be read: AttributeError"),
        (given(LOOK, model=Mute()), "cannot be read: RuntimeError"),
    ],
)  # fmt: skip
def test_what_is_no_reply_is_told(reply: object, says: str) -> None:
    with pytest.raises(ModelUnavailableError) as problem:
        taken(reply)
    assert says in problem.value.message
    assert not problem.value.retryable, "the same adapter would do the same again"


@pytest.mark.parametrize(
    ("arguments", "plain"),
    [
        ({"thing": "box"}, {"thing": "box"}),
        ('{"thing": "box"}', '{"thing": "box"}'),
        ({"pair": (1, 2)}, {"pair": [1, 2]}),
        ({"thing": {"box"}}, "<dict>"),
        (MappingProxyType({"thing": "box"}), "<mappingproxy>"),
        (UserDict(thing="box"), "<UserDict>"),
        (None, None),
    ],
)
def test_arguments_become_plain_values(arguments: Any, plain: Any) -> None:
    assert taken(given(RawCall("c", "look", arguments))).raw.calls[0].arguments == plain


def test_arguments_are_nobody_elses() -> None:
    """An adapter that fills one dict again and again changes nothing of what it gave before."""
    kept = {"thing": ["box"]}
    reply = taken(given(RawCall("c", "look", kept)))
    kept["thing"].append("bin")
    assert reply.raw.calls[0].arguments == {"thing": ["box"]}


def test_calls_without_end_are_cut() -> None:
    endless = Reply(RawReply(itertools.repeat(LOOK)), FREE, "m")  # type: ignore[arg-type]
    assert len(taken(endless).raw.calls) == MAX_CALLS + 1, "one too many, which is told"


def test_what_is_left_out_or_of_another_type_has_a_value() -> None:
    reply = taken(Reply(RawReply(None, stop_reason=7), FREE, None))  # type: ignore[arg-type]
    assert (reply.raw.calls, reply.raw.stop_reason, reply.model) == ((), None, "unnamed")


@pytest.mark.parametrize(
    ("spent", "counted"),
    [
        (Spent(-5, -1, Decimal(-3)), (0, 0, 0)),
        (Spent("many", None, "0.1"), (0, 0, 0)),  # type: ignore[arg-type]
        (Spent(float("nan"), float("inf"), Decimal("NaN")), (0, 0, 0)),  # type: ignore[arg-type]
        (Spent(10**30, 2, 0.1), (MOST, 2, Decimal("0.1"))),  # type: ignore[arg-type]
    ],
)
def test_usage_never_gives_budget_back(spent: Spent, counted: tuple[Any, ...]) -> None:
    found = taken(given(LOOK, spent=spent)).spent
    assert (found.input_tokens, found.output_tokens, found.cost_usd) == counted


class Once:
    """A model that does one thing, then gives up."""

    spec = "once"

    def __init__(self, first: Callable[[], object]) -> None:
        self.first = first

    async def decide(self, prompt: Prompt) -> Any:
        return self.first() if prompt.step == 1 else given(RawCall("z", "cannot_continue", {"reason": "enough"}))


def mute() -> object:
    raise Mute


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (mute, "the model raised Mute"),
        (lambda: None, "the model gave a NoneType: that is no reply"),
        (lambda: Reply(RawReply(Broken()), FREE, "m"), "the model's reply cannot be read: Mute"),  # type: ignore[arg-type]
    ],
    ids=["raises what cannot be told", "gives nothing", "gives what cannot be read"],
)
def test_a_failed_attempt_is_on_record_and_ends_the_task(
    tmp_path: Path, first: Callable[[], object], told: str
) -> None:
    environment = SimulatedEnvironment()

    async def main() -> Checkpoint:
        async with world(tmp_path, model=Once(first), environment=environment) as here:
            end = await here.run()
            rows = await here.rows(end, "decision")
            assert [(r["result"], r["feedback"]) for r in rows] == [("failed", told)]
            assert rows[0]["input_tokens"] > 0, "what it cost is not known: the prompt is booked"
            return end

    end = environment.run(main())
    assert (end.head.status, end.head.reason, end.head.output) == ("FAILED", "model_failed", told)


@pytest.mark.parametrize(
    "reply",
    [
        given(RawCall(None, "look", {"thing": "box"})),  # type: ignore[arg-type]
        given(RawCall("c", 7, {})),  # type: ignore[arg-type]
        given(RawCall("c", "look", {"thing": {"box"}})),
        given(RawCall("c", "look", None)),  # type: ignore[arg-type]
        given(LOOK, text=7),
        given(text=None),
    ],
)
def test_odd_types_within_a_reply_are_an_invalid_proposal_or_none_at_all(tmp_path: Path, reply: Reply) -> None:
    environment = SimulatedEnvironment()

    async def main() -> Checkpoint:
        async with world(tmp_path, model=Once(lambda: reply), environment=environment) as here:
            end = await here.run()
            assert [r["result"] for r in await here.rows(end, "decision")] in (
                ["invalid", "accepted"],
                ["accepted"] * 2,
            )
            return end

    assert environment.run(main()).head.reason == "no_action"


def test_a_tool_that_raises_what_cannot_be_told_leaves_its_effect_in_doubt(tmp_path: Path) -> None:
    """For a read it is a failure, for a write an unknown effect, which is asked for; the name of the exception is kept."""
    environment = SimulatedEnvironment()

    async def main() -> Checkpoint:
        plays = {"look": [Mute(), {"good": True}], "act": [Mute()], "find": [ONE]}
        steps = (LOOK_STEP, LOOK_STEP, act_step())
        async with world(tmp_path, *steps, environment=environment, **plays) as here:
            end = await here.run()
            rows = await here.rows(end, "call")
            assert [(r["tool"], r["outcome"], r["detail"]) for r in rows if r["detail"]] == [
                ("look", "failed", "Mute"),
                ("act", "unknown", "Mute"),
            ]
            return end

    end = environment.run(main())
    assert (end.head.status, [e.status for e in end.effects]) == ("SUCCEEDED", ["executed"])


class Text(str):
    """A text with manners of its own."""

    __slots__ = ()

    def __str__(self) -> str:
        raise ValueError("no")


def test_words_of_a_kind_of_their_own_become_plain_ones() -> None:
    """An id that is almost a text, and a model's name that no database could write."""
    given = Reply(RawReply((RawCall(Text("c1"), Text("look"), {}),)), Spent(1, 1), "m\ud800")
    found = taken(given)
    assert [(type(c.id), c.id, type(c.name)) for c in found.raw.calls] == [(str, "c1", str)]
    assert found.model.encode()


@pytest.mark.parametrize("seconds", ["5", "soon", object(), float("nan"), -3])
def test_a_wait_that_is_no_number_is_no_wait_for_ever(seconds: object) -> None:
    assert ModelUnavailableError("x", retry_after=seconds).retry_after in (0.0, 5.0)


def test_an_adapter_that_cancels_its_own_call_has_failed_an_attempt(tmp_path: Path) -> None:
    script, tries = ScriptedModel.of(LOOK_STEP, act_step()), []

    class Model:
        spec = "hasty"

        async def decide(self, prompt: Prompt) -> Reply:
            tries.append(prompt.step)
            if len(tries) == 1:
                raise asyncio.CancelledError
            return await script.decide(prompt)

    async def main() -> Checkpoint:
        async with world(tmp_path, model=Model()) as here:
            return await here.run()

    assert simulated(main).head.status == "SUCCEEDED"
    assert tries == [1, 1, 2]
