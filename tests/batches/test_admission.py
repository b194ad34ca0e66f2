"""A batch is admitted whole or not at all, before anything runs; one observation names all that is wrong, by call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.models.decision import RawCall, RawReply
from support.peeks import GIVE_UP, PEEKS, TEXTS, Raw, batch, call, looks, told_and_called
from support.playing import play, swap

AHEAD = "all are made or none, and none was made: "


def refused(folder: Path, *steps: Any, machine: str = PEEKS, **how: Any) -> str:
    """What the model is told of the first of `steps`; nothing was called, and one step is spent."""
    end, told, called = play(folder, told_and_called, *steps, GIVE_UP, machine=machine, texts=TEXTS, **how)
    assert called == 0
    assert end.head.usage.tool_calls == 0 and end.evidence == () and end.effects == ()
    assert (end.head.reason, end.head.steps) == ("no_action", len(steps) + 1 if steps else 2)
    return told[0]


# ---------------------------------------------------------------- rule 1: two to `parallel_calls` calls, each with its id


@pytest.mark.parametrize("most", [1, 2, 4, 32])
@pytest.mark.parametrize("where", ["machine", "state"])
def test_so_many_calls_and_no_more(tmp_path: Path, most: int, where: str) -> None:
    """As the state says, else the machine, else four; one switches it off."""
    own = ("initial: LOOKING", f"parallel_calls: {most}\ninitial: LOOKING")
    state = ("  LOOKING:\n", f"  LOOKING:\n    parallel_calls: {most}\n")
    other = ("initial: LOOKING", "parallel_calls: 7\ninitial: LOOKING")
    pairs = [own] if where == "machine" else [other, state]
    machine = swap(PEEKS, ("tool_calls: 10", "tool_calls: 40"), *pairs)
    good = looks([f"t{n}" for n in range(most)])
    (tmp_path / "good").mkdir()
    end, told, called = play(tmp_path / "good", told_and_called, good, GIVE_UP, machine=machine, texts=TEXTS)
    assert (called, end.head.steps, end.head.usage.tool_calls, told) == (most, 2, most, [])
    if most < 32:
        text = refused(tmp_path, looks([f"t{n}" for n in range(most + 1)]), machine=machine)
        says = "one call at a time" if most == 1 else f"{most} calls at once"
        assert text.startswith("invalid proposal (several_calls): ")
        assert f"c{most + 1} (`look`): this state takes {says}" in text


def test_four_is_the_default(tmp_path: Path) -> None:
    assert "c5 (`look`): this state takes 4 calls at once" in refused(tmp_path, looks("abcde"))


def test_more_than_anybody_allows(tmp_path: Path) -> None:
    """They are not even read one by one."""
    assert refused(tmp_path, looks([f"t{n}" for n in range(33)])).startswith("invalid proposal (too_many_calls): ")


def test_each_has_an_id_of_its_own(tmp_path: Path) -> None:
    text = refused(tmp_path, batch(call("look", "c1", "a"), call("look", "c1", "b")))
    assert text.startswith("invalid proposal (duplicate_call_id): ")
    assert "c1 (`look`): another call has this id" in text


# ---------------------------------------------------------------- rule 2: all or nothing, and every fault by its call


def test_one_observation_names_every_fault(tmp_path: Path) -> None:
    """Whatever is wrong with each of them, found by whichever phase."""
    own = PEEKS.replace("initial:", "parallel_calls: 16\ninitial:")
    calls = (
        RawCall("c1", "look", {"thing": "box"}),
        RawCall("c2", "look", {"thing": 7}),
        RawCall("c3", "look", '{"thing": "bo'),
        RawCall("c4", "lok", {"thing": "box"}),
        RawCall("c5", "find", {"key": "k"}),
        RawCall("c6", "act", {"thing": "box", "amount": 10}),
        RawCall("c7", "glance", {"thing": "box"}),
        RawCall("c8", "finish", {"answer": "done"}),
        RawCall("c9", "look", {"thing": "dark"}),
        RawCall("c10", "look", '{ "thing" : "box" }'),
        RawCall("", "peek", {"thing": "box"}),
    )
    text = refused(tmp_path, machine=own, model=Raw(RawReply(calls)))
    assert text.startswith("invalid proposal (invalid_arguments): of 11 calls at once " + AHEAD)
    for part in (
        "c2 (`look`): arguments of `look`: ",
        "c3 (`look`): the arguments are not JSON",
        "c4 (`lok`): `lok` is no tool",
        "c5 (`find`): `find` is not allowed here",
        "c6 (`act`): it changes something: propose it alone",
        "c7 (`glance`): its result may lead to another state: propose it alone",
        "c8 (`finish`): a control choice stands alone",
        "c9 (`look`): nothing can be seen there",
        "c10 (`look`): it is the same call as c1 (`look`)",
        "number 11 (`peek`): a call has no usable id",
        "nothing is wrong with c1 (`look`)",
    ):
        assert part in text, part
    assert text.endswith(". Allowed now: look, peek, glance, act, cannot_continue")


def test_every_call_is_named_however_many(tmp_path: Path) -> None:
    """No call goes without an answer, also where long texts must be cut."""
    calls = tuple(RawCall(f"c{n}{'x' * 150}", f"tool_{n}_{'y' * 100}", {}) for n in range(32))
    text = refused(tmp_path, model=Raw(RawReply(calls)))
    assert all(f"c{n}x" in text for n in range(32))
    assert len(text) <= 2000


def test_a_mixed_batch_is_asked_for_one_after_another(tmp_path: Path) -> None:
    """A write beside the read that it depends on."""
    text = refused(tmp_path, batch(call("look", "c1"), call("act", "c2", amount=10)))
    assert text.startswith("invalid proposal (mixed): ")
    assert "c2 (`act`): it changes something: propose it alone, after what it depends on was read" in text


def test_writes_are_no_batch(tmp_path: Path) -> None:
    text = refused(tmp_path, batch(call("act", "c1", amount=1), call("act", "c2", amount=2)))
    assert text.count("it changes something") == 1 and "c1 (`act`), c2 (`act`): " in text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"thing": "box", "size": 10}', '{"size": 10, "thing": "box"}'),
        ('{"thing":"box","size":10}', ' { "thing" : "box" ,\n "size" : 10 } '),
        ('{"thing": "box", "size": 10}', '{"thing": "box", "size": 10.0}'),
        ('{"thing": "box", "size": 10}', '{"thing": "\\u0062ox", "size": 1e1}'),
    ],
    ids=["order", "spacing", "number", "escapes"],
)
def test_equal_calls_in_another_order_or_spacing(tmp_path: Path, one: str, other: str) -> None:
    """They are one call, however they were written."""
    look = swap(
        TEXTS[0], ("  thing: {type: string}\n", "  thing: {type: string}\n  size: {type: integer, optional: true}\n")
    )
    replies = RawReply((RawCall("c1", "look", one), RawCall("c2", "look", other)))
    end, told, called = play(
        tmp_path, told_and_called, model=Raw(replies), machine=PEEKS, texts=(look, *TEXTS[1:])
    )  # fmt: skip
    assert called == 0 and end.head.steps == 2
    assert told[0].startswith("invalid proposal (equal_calls): ")
    assert "c2 (`look`): it is the same call as c1 (`look`)" in told[0]


def test_what_the_machine_pins_makes_calls_equal_too(tmp_path: Path) -> None:
    machine = swap(PEEKS, ("      peek: stay\n      glance", "      peek: {with: {thing: input.thing}}\n      glance"))
    two = {"calls": [{"call": "peek", "id": "c1"}, {"call": "peek", "id": "c2"}]}
    assert "c2 (`peek`): it is the same call as c1 (`peek`)" in refused(tmp_path, two, machine=machine)


def test_the_limit_is_looked_at_before_the_first_begins(tmp_path: Path) -> None:
    """Six calls are left, eight are proposed: none runs, and the tool budget is named."""
    machine = swap(PEEKS, ("tool_calls: 10", "tool_calls: 6"), ("initial:", "parallel_calls: 8\ninitial:"))
    text = refused(tmp_path, looks("abcdefgh"), machine=machine)
    assert text.startswith("refused: of 8 calls at once " + AHEAD)
    assert "c7 (`look`), c8 (`look`): the tool budget is too small for it: 6 of 6 calls are left" in text


def test_just_within_the_limit(tmp_path: Path) -> None:
    """Six of six: all run, and nothing is left for another decision."""
    machine = swap(PEEKS, ("tool_calls: 10", "tool_calls: 6"), ("initial:", "parallel_calls: 8\ninitial:"))
    end, _, called = play(tmp_path, told_and_called, looks("abcdef"), machine=machine, texts=TEXTS)
    assert (called, end.head.usage.tool_calls, end.head.reason) == (6, 6, "max_tool_calls")


def test_what_a_tool_may_be_called_counts_each_of_them(tmp_path: Path) -> None:
    """Two of three looks are left; the peek beside them has no such limit."""
    machine = swap(PEEKS, ("initial:", "at_most: {look: 3}\ninitial:"))
    three = batch(call("look", "c1", "a"), call("peek", "c2"), call("look", "c3", "b"), call("look", "c4", "c"))
    one = {"call": "look", "with": {"thing": "z"}}
    end, told, called = play(tmp_path, told_and_called, one, three, GIVE_UP, machine=machine, texts=TEXTS)
    assert (called, end.head.calls) == (1, {"look": 1})
    assert told[0].startswith("refused: ")
    assert "c4 (`look`): calls of `look` that are left in this task: 2" in told[0]
    assert "nothing is wrong with c1 (`look`), c2 (`peek`), c3 (`look`)" in told[0]


def test_what_the_policy_denies_is_named_with_the_rest(tmp_path: Path) -> None:
    """Alone a denied read ends the task; in a batch it is one fault among others, and nothing runs."""
    secret = swap(TEXTS[1], ("scopes: [things:read]", "scopes: [secrets:read]"))
    texts = (TEXTS[0], secret, *TEXTS[2:])
    two = batch(call("look", "c1"), call("peek", "c2"), call("lok", "c3"))
    end, told, called = play(tmp_path, told_and_called, two, GIVE_UP, machine=PEEKS, texts=texts)
    assert (called, end.head.reason) == (0, "no_action")
    assert told[0].startswith("invalid proposal (missing_scope): ")
    assert "c2 (`peek`): " in told[0] and "secrets:read" in told[0] and "c3 (`lok`): `lok` is no tool" in told[0]
    (tmp_path / "alone").mkdir()
    one = {"call": "peek", "with": {"thing": "box"}}
    end, _, called = play(tmp_path / "alone", told_and_called, one, machine=PEEKS, texts=texts)
    assert (called, end.head.status, end.head.reason) == (0, "DENIED", "missing_scope")


# ---------------------------------------------------------------- rule 3: on the evidence before, and nobody moves


def test_each_is_judged_on_what_was_known_before(tmp_path: Path) -> None:
    """A look that needs a peek is refused beside it: what the peek brings is not there yet."""
    machine = swap(
        PEEKS,
        ("initial: LOOKING", "initial: SEEN"),
        ("      peek: stay\n  ACTING", "      peek: stay\n    then: [{when: both, goto: LOOKING}]\n  ACTING"),
    )
    two = batch(call("peek", "c1"), call("look", "c2"))
    end, told, called = play(tmp_path, told_and_called, two, GIVE_UP, machine=machine, texts=TEXTS)
    assert (called, end.evidence) == (0, ())
    assert told[0].startswith("refused: ")
    assert "c2 (`look`): peek first; nothing is wrong with c1 (`peek`)" in told[0]


def test_a_refusal_is_on_record_and_moves_nothing(tmp_path: Path) -> None:
    """The row that refused is; the call beside it was not accepted."""

    async def body(here: Any) -> Any:
        end = await here.run(machine="peeks")
        return [(r["event"], r["target"]) for r in await here.rows(end, "transition")]

    moves = play(tmp_path, body, looks(["box", "dark"]), GIVE_UP, machine=PEEKS, texts=TEXTS)
    assert moves == [("call.look", None), ("then.LOOKING", None), ("call.cannot_continue", "FAILED")]


# ---------------------------------------------------------------- what the model is shown


def shown(folder: Path, machine: str, *replies: RawReply, texts: tuple[str, ...] = TEXTS) -> list[Any]:
    model = Raw(*replies)
    play(folder, told_and_called, model=model, machine=machine, texts=texts)
    return model.prompts


def test_the_model_is_told_what_it_may_call_at_once(tmp_path: Path) -> None:
    """Reads that lead nowhere, and as many as the state and the budget allow."""
    (prompt, *_) = shown(tmp_path, PEEKS)
    assert (prompt.at_once, prompt.together) == (4, ("look", "peek"))
    assert "## What you may propose: one of these, or several reads at once\n" in prompt.text
    assert "Up to 4 different calls of look, peek may be proposed at once" in prompt.text


#: a state whose only read has nothing that the model could vary
ONE_PINNED = swap(
    PEEKS,
    ("      peek: stay\n      glance", "      glance"),
    (
        "      look:\n        - {when: dark",
        "      look:\n        with: {thing: input.thing}\n        rows:\n        - {when: dark",
    ),
)


@pytest.mark.parametrize(
    "machine",
    [
        swap(PEEKS, ("initial:", "parallel_calls: 1\ninitial:")),
        swap(PEEKS, ("tool_calls: 10", "tool_calls: 1")),
        ONE_PINNED,
    ],
    ids=["switched off", "one call left", "one read without arguments"],
)
def test_where_it_may_not_it_is_not_told_so(tmp_path: Path, machine: str) -> None:
    (prompt, *_) = shown(tmp_path, machine)
    assert prompt.at_once == 1
    assert "## What you may propose: exactly one of these\n" in prompt.text and "at once" not in prompt.text


def test_the_record_holds_what_was_proposed(tmp_path: Path) -> None:
    """All calls with their ids, also of a batch that was not admitted."""

    async def body(here: Any) -> Any:
        end = await here.run(machine="peeks")
        return await here.rows(end, "decision")

    rows = play(tmp_path, body, looks(["a", "dark"]), GIVE_UP, machine=PEEKS, texts=TEXTS)
    assert [c["id"] for c in rows[0]["response"]["calls"]] == ["c1", "c2"]
    assert (rows[0]["result"], rows[0]["error_class"]) == ("refused", "refused")
    assert json.dumps(rows[0]["response"])
