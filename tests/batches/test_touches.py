"""What a tool touches: which results a write makes old, for whom, and what the checks know of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.analysis.lint import lint
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.definition.manifest import ToolManifest, commute
from statemachine_agent.models.port import Prompt
from statemachine_agent.records import Checkpoint
from statemachine_agent.store import codec
from statemachine_agent.tools.outcome import LostError
from support.playing import play, swap
from support.world import ACT, BOB, FIND, GOOD, LOOK, NONE, ONE, World, catalogue

PEEK = swap(LOOK, ("tool: look", "tool: peek"))
TOUCHING = (
    f"{LOOK}touches: {{reads: [boxes]}}\n",
    f"{PEEK}touches: {{reads: [shelves]}}\n",
    f"{ACT}touches: {{writes: [boxes]}}\n",
    f"{FIND}touches: {{reads: [boxes]}}\n",
)
#: look and peek, act, and come back; the end depends on what is known then
MACHINE = """
machine: again
version: 1
summary: Look, act, and see what is known.
input:
  thing: {type: string}
limits: {steps: 6}
guards:
  looked: has(evidence.look)
  asked_for: has(asked.look)
  once: has(results.look)
  peeked: has(evidence.peek)
  found: has(evidence.find)
success: []
initial: LOOKING
states:
  LOOKING:
    choose:
      look: stay
      peek: stay
      act: PROPOSED
  PROPOSED:
    route:
      - {when: approval_required, goto: ASKING}
      - {when: approval_not_required, goto: ACTING}
      - {goto: DENIED}
  ASKING:
    approval: {of: act, by: boss, expires: 1h}
    then: {approved: ACTING, rejected: DENIED, expired: DENIED}
  ACTING:
    call: act
    with: proposal
    then: {ok: KNOWN, failed: KNOWN, blocked: KNOWN, unknown: FINDING}
  FINDING:
    reconcile: act
    then: {found: KNOWN, absent: KNOWN, failed: FAILED}
  KNOWN:
    route:
      - {when: [looked, asked_for, once, peeked], goto: SUCCEEDED, reason: all}
      - {when: found, goto: SUCCEEDED, reason: found}
      - {when: looked, goto: SUCCEEDED, reason: only_look}
      - {when: asked_for, goto: FAILED, reason: asked_for_without_look}
      - {when: once, goto: FAILED, reason: results_without_look}
      - {when: peeked, goto: SUCCEEDED, reason: only_peek}
      - {goto: SUCCEEDED, reason: nothing}
"""
BOTH = {"calls": [{"call": "look", "with": {"thing": "a"}}, {"call": "peek", "with": {"thing": "a"}}]}


def act(amount: int = 10) -> dict[str, Any]:
    return {"call": "act", "with": {"thing": "a", "amount": amount}}


async def once(here: World) -> Checkpoint:
    return await here.run(machine="again")


def ends(
    folder: Path, *steps: Any, texts: tuple[str, ...] = TOUCHING, machine: str = MACHINE, **how: Any
) -> Checkpoint:
    how.setdefault("peek", [GOOD])
    found: Checkpoint = play(folder, once, *steps, machine=machine, texts=texts, **how)
    return found


# ---------------------------------------------------------------- what becomes old


def test_an_executed_write_makes_old_what_looks_at_the_same(tmp_path: Path) -> None:
    """Guards see it no more, under any root; what looks at something else stays; the record keeps and marks it."""
    end = ends(tmp_path, BOTH, act())
    assert end.head.reason == "only_peek"
    assert [(e.name, e.tool, e.old) for e in end.evidence] == [
        ("ev-1", "look", True),
        ("ev-2", "peek", False),
        ("ev-3", "act", False),
    ]
    assert [e.payload for e in end.evidence[:2]] == [GOOD, GOOD]


@pytest.mark.parametrize("part", ["reads", "writes"])
def test_where_nothing_is_said_nothing_becomes_old(tmp_path: Path, part: str) -> None:
    texts = tuple(t if f"{{{part}:" not in t else t[: t.index("touches:")] for t in TOUCHING)
    assert ends(tmp_path, BOTH, act(), texts=texts).head.reason == "all"


@pytest.mark.parametrize("play_of_act", [LostError("?", reason="timeout")])
def test_an_effect_that_did_not_happen_makes_nothing_old(tmp_path: Path, play_of_act: Any) -> None:
    """It was lost, looked for, and surely absent."""
    end = ends(tmp_path, BOTH, act(), act=[play_of_act], find=[NONE])
    assert end.head.reason == "all" and not any(e.old for e in end.evidence)


def test_what_found_the_effect_is_newer_than_it(tmp_path: Path) -> None:
    """The look was before; the look-up came after, though it looks at the same thing."""
    end = ends(tmp_path, BOTH, act(), act=[LostError("?", reason="timeout")], find=[ONE])
    assert end.head.reason == "found"
    assert [(e.tool, e.old) for e in end.evidence] == [("look", True), ("peek", False), ("find", False), ("act", False)]


def test_the_read_of_a_precondition_is_older_than_the_effect(tmp_path: Path) -> None:
    guarded = swap(
        TOUCHING[2],
        (
            "approval:",
            "precondition:\n  tool: look\n  with: {thing: args.thing}\n  holds: result.good\n  reason: bad\napproval:",
        ),
    )
    end = ends(tmp_path, act(), texts=(*TOUCHING[:2], guarded, TOUCHING[3]))
    assert end.head.reason == "nothing"
    assert [(e.tool, e.purpose, e.old) for e in end.evidence] == [
        ("look", "precondition", True),
        ("act", "call", False),
    ]


def test_a_receipt_of_another_task_counts_as_the_effect(tmp_path: Path) -> None:
    """Nothing is sent, and when it happened is not known: what was read before is not relied on."""

    async def body(here: World) -> Checkpoint:
        await here.run(machine="again")
        end = await here.run(machine="again")
        assert len(here.tools["act"].calls) == 1
        return end

    end = play(tmp_path, body, BOTH, act(), machine=MACHINE, texts=TOUCHING, peek=[GOOD])
    assert end.head.reason == "only_peek"


def test_what_is_read_anew_is_there_again(tmp_path: Path) -> None:
    """Old is what came before; a result that came after is seen, and the next write makes that old too."""
    machine = swap(MACHINE, ("then: {ok: KNOWN", "then: {ok: AFTER"), ("  KNOWN:\n", _AFTER))
    end = ends(tmp_path, BOTH, act(), {"call": "look", "with": {"thing": "b"}}, machine=machine)
    assert [(e.tool, e.old) for e in end.evidence] == [("look", True), ("peek", False), ("act", False), ("look", False)]
    assert end.head.reason == "all"
    (tmp_path / "twice").mkdir()
    steps = (BOTH, act(), {"call": "look", "with": {"thing": "b"}}, act(11), {"call": "peek", "with": {"thing": "b"}})
    machine = machine.replace("- {when: looked, goto: KNOWN}", "- {when: twice, goto: KNOWN}").replace(
        "guards:\n", "guards:\n  twice: effects.size() == 2 && results.peek.size() == 2\n"
    )
    end = ends(tmp_path / "twice", *steps, machine=machine)
    assert [e.old for e in end.evidence if e.tool == "look"] == [True, True]
    assert end.head.old == {"look": 5, "find": 5}


_AFTER = """  AFTER:
    choose:
      look: stay
      peek: stay
      act: PROPOSED
    then:
      - {when: looked, goto: KNOWN}
  KNOWN:
"""


def test_the_model_sees_it_no_more(tmp_path: Path) -> None:
    """The prompt after the write holds what is still so."""
    prompts: list[Prompt] = []
    machine = swap(MACHINE, ("then: {ok: KNOWN", "then: {ok: AFTER"), ("  KNOWN:\n", _AFTER))

    class Watching:
        spec = "test"

        def __init__(self) -> None:
            from statemachine_agent import ScriptedModel  # noqa: PLC0415

            self.inner = ScriptedModel.of(BOTH, act(), {"call": "cannot_continue", "with": {"reason": "x"}})

        async def decide(self, prompt: Prompt) -> Any:
            prompts.append(prompt)
            return await self.inner.decide(prompt)

    ends(tmp_path, machine=machine, model=Watching())
    assert [[q.id for q in p.quoted] for p in prompts] == [
        ["input"],
        ["input", "ev-1", "ev-2"],
        ["input", "ev-2", "ev-3"],
    ]


def test_it_is_still_old_for_another_process(tmp_path: Path) -> None:
    """The mark is in the store, within the hash of the head."""
    end = ends(tmp_path, BOTH, act())

    async def body(here: World) -> Checkpoint:
        return await here.runtime.status(end.task.id)

    again: Checkpoint = play(tmp_path, body, machine=MACHINE, texts=TOUCHING)
    assert [e.old for e in again.evidence] == [True, False, False]
    assert again.head == end.head and codec.head_document(again.head) == codec.head_document(end.head)


def test_who_approves_is_not_shown_what_is_old(tmp_path: Path) -> None:
    """The second request lists what is still so."""
    machine = swap(MACHINE, ("then: {ok: KNOWN", "then: {ok: LOOKING"))

    async def body(here: World) -> list[str]:
        waiting = await here.run(machine="again")
        (request,) = [a for a in waiting.approvals if a.status == "open"]
        await here.runtime.approve(request.id, BOB)
        waiting = await here.runtime.resume(waiting.task.id)
        (request,) = [a for a in waiting.approvals if a.status == "open"]
        return [e["tool"] for e in request.shown["evidence"]]

    shown = play(tmp_path, body, BOTH, act(200), act(201), machine=machine, texts=TOUCHING, peek=[GOOD])
    assert shown == ["peek", "act"]


# ---------------------------------------------------------------- what commutes


def manifest(**touches: Any) -> ToolManifest:
    return ToolManifest.model_validate(
        {
            "tool": "t", "version": 1, "summary": "-", "effect": "write" if "writes" in touches else "read",
            "source": "x", "binding": {"python": "x:y"}, "returns": {}, **({"touches": touches} if touches else {}),
        }
    )  # fmt: skip


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ({}, {}, True),
        ({"reads": ["a"]}, {"reads": ["a"]}, True),
        ({"reads": ["a"]}, {}, True),
        ({"reads": ["a"]}, {"writes": ["b"]}, True),
        ({"reads": ["a", "b"]}, {"writes": ["b", "c"]}, False),
        ({"writes": ["a"]}, {"writes": ["a"]}, False),
        ({"reads": ["a"], "writes": ["b"]}, {"reads": ["b"], "writes": ["c"]}, False),
        ({"reads": ["a"], "writes": ["b"]}, {"reads": ["a"], "writes": ["c"]}, True),
    ],
)
def test_two_calls_commute_unless_one_writes_what_the_other_touches(one: Any, other: Any, wanted: bool) -> None:
    assert commute(manifest(**one), manifest(**other)) is commute(manifest(**other), manifest(**one)) is wanted


def test_a_pair_that_does_not_commute_is_named_with_its_order(tmp_path: Path) -> None:
    """A write beside a read of the same thing."""

    async def body(here: World) -> list[str]:
        return await here.told(await here.run(machine="again"))

    two = {
        "calls": [
            {"call": "look", "with": {"thing": "a"}, "id": "c1"},
            {"call": "act", "with": {"thing": "a", "amount": 1}, "id": "c2"},
        ]
    }
    (text,) = play(
        tmp_path, body, two, {"call": "cannot_continue", "with": {"reason": "x"}}, machine=MACHINE, texts=TOUCHING
    )
    assert "c2 (`act`): it changes something" in text
    assert "it and c1 (`look`) touch the same thing: propose one after the other" in text


# ---------------------------------------------------------------- what the checks know


def warnings(machine: str, *texts: str) -> list[str]:
    found = checked_catalogue(catalogue(machine, *texts))
    assert not found.report.errors, str(found.report)
    return [f.message for f in lint(found) if f.level == "warning"]


READING = swap(
    MACHINE,
    ("  looked: has(evidence.look)\n", "  looked: has(evidence.look)\n  good: evidence.look.good\n"),
    ("      act: PROPOSED\n", "      act: [{unless: looked, refuse: look first}, {goto: PROPOSED}]\n"),
    ("      - {when: [looked, asked_for", "      - {when: good, goto: SUCCEEDED}\n      - {when: [looked, asked_for"),
)  # fmt: skip
MISSING = "`good` reads `evidence.look`, which may not be there yet in `KNOWN`"


@pytest.mark.parametrize("outcome", ["ok", "found"])
def test_a_guard_that_reads_what_may_be_old_is_warned_of(outcome: str) -> None:
    """After `ok`, and after `found`, what had surely been read is surely gone."""
    other = ("ok: KNOWN", "ok: FAILED") if outcome == "found" else ("found: KNOWN", "found: FAILED")
    machine = swap(
        READING,
        other,
        ("failed: KNOWN, blocked: KNOWN", "failed: FAILED, blocked: FAILED"),
        ("absent: KNOWN", "absent: FAILED"),
    )
    assert MISSING in warnings(machine, *TOUCHING)
    assert MISSING not in warnings(machine, LOOK, PEEK, ACT, FIND)


def test_after_a_failure_nothing_is_old() -> None:
    machine = swap(READING, ("ok: KNOWN", "ok: FAILED"), ("found: KNOWN", "found: FAILED"))
    assert MISSING not in warnings(machine, *TOUCHING)


def test_a_write_in_a_region_makes_old_what_the_region_beside_it_read() -> None:
    """At any time, so the other region never knows that it is there."""
    assert any("`good` reads `evidence.look`" in w for w in warnings(REGIONS, *TOUCHING))
    assert not any("`good` reads `evidence.look`" in w for w in warnings(REGIONS, LOOK, PEEK, ACT, FIND))


REGIONS = """
machine: again
version: 1
summary: Look in one region, act in the other.
input:
  thing: {type: string}
limits: {steps: 6}
guards:
  good: evidence.look.good
success: []
initial: BOTH
states:
  BOTH:
    parallel: true
    states:
      LEFT:
        initial: SEEING
        states:
          SEEING:
            call: look
            with: {thing: input.thing}
            then: {ok: JUDGING, failed: done}
          JUDGING:
            route:
              - {when: good, goto: done}
              - {goto: done}
      RIGHT:
        initial: PROPOSING
        states:
          PROPOSING: {choose: {act: ACTING}}
          ACTING:
            call: act
            with: proposal
            then: {ok: done, failed: done, blocked: done, unknown: FINDING}
          FINDING:
            reconcile: act
            then: {found: done, absent: done, failed: done}
    then: {done: SUCCEEDED}
"""


def test_a_name_that_no_write_has_and_one_nearly_has() -> None:
    """`box` for `boxes` would make nothing old, and nobody would notice."""
    look = f"{LOOK}touches: {{reads: [boxs]}}\n"
    text = "no write touches `boxs`, so results of `look` never become old by it"
    assert text in warnings(MACHINE, look, *TOUCHING[1:])
    assert not [w for w in warnings(MACHINE, *TOUCHING) if "no write touches" in w]
