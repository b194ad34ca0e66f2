"""Machines that stand in others: what runs is the states of all of them, and each sees what is its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.chart.compile import checked_catalogue, compile_machine, compile_texts, texts_of
from statemachine_agent.records import Checkpoint
from support.world import ACT, BAD, FIND, GOOD, NONE, ONE, World, act_step, catalogue, world
from support.world import LOOK as LOOK_MANIFEST

#: asks, reads and answers; by itself it is started with `{item, floor}`
INSPECT = """
machine: inspect
version: 3
summary: Inspect an item.
input:
  item: {type: string}
  floor: {type: number, optional: true}
limits: {steps: 2}
at_most: {look: 2}
output:
  verdict: {enum: [keep, drop]}
guards:
  looked: has(evidence.look)
  good: evidence.look.good
  sound: [looked, good]
  bad: has(evidence.look) && !evidence.look.good
  of_this: call.args.answer.verdict == "keep" || input.item == "junk"
  low: has(input.floor) && input.floor < 1.5
  again: visits.LOOKING > 1
success: [looked]
initial: FIRST
states:
  FIRST:
    route:
      - {when: low, goto: DENIED, reason: too_low}
      - {goto: LOOKING}
  LOOKING:
    choose:
      look: {with: {thing: input.item}}
      finish:
        - {unless: looked, refuse: look first}
        - {unless: of_this, refuse: only junk is dropped}
        - {goto: SUCCEEDED}
      ask_user: NEEDS_INPUT
    then:
      - {when: again, goto: NEEDS_INPUT, reason: been_here}
      - {when: bad, goto: DENIED, reason: no_good}
"""

HOLDER = """
machine: tiny
version: 1
summary: Inspect twice, then act.
input:
  thing: {type: string}
limits: {steps: 9}
guards:
  keep: evidence.inspect.verdict == "keep"
  same: call.args.thing == input.thing
  acted: effects.exists(e, e.tool == "act" && e.status == "executed")
success: [acted]
initial: CHECK
states:
  CHECK:
    machine: inspect@3
    with: {item: input.thing, floor: 2}
    then:
      SUCCEEDED: [{when: keep, goto: PROPOSING}, {goto: CHECK}]
      NEEDS_INPUT: NEEDS_INPUT
      DENIED: DENIED
      FAILED: FAILED
  PROPOSING:
    choose:
      act: [{unless: same, refuse: not this one}, {goto: ACTING}]
  ACTING:
    call: act
    with: proposal
    then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: FINDING}
  FINDING:
    reconcile: act
    then: {found: SUCCEEDED, absent: ACTING, failed: FAILED}
"""

LOOK = {"call": "look", "with": {}}


def answer(verdict: str) -> dict[str, Any]:
    return {"call": "finish", "with": {"answer": {"verdict": verdict}}}


def tell(
    folder: Path, body: Callable[[World], Awaitable[Any]], *steps: Any, held: tuple[str, ...] = (INSPECT,), **how: Any
) -> Any:
    environment = SimulatedEnvironment()

    async def main() -> Any:
        how.setdefault("machine", HOLDER)
        async with world(folder, *steps, held=held, environment=environment, **how) as here:
            return await body(here)

    return environment.run(main())


def run(folder: Path, *steps: Any, **how: Any) -> tuple[Checkpoint, list[str]]:
    """How the task ended, and what the model was told on the way."""
    inputs = how.pop("inputs", {"thing": "box"})

    async def body(here: World) -> Any:
        end = await here.run(**inputs)
        return end, await here.told(end)

    end, told = tell(folder, body, *steps, **how)
    return end, told


def test_from_its_first_state_to_what_follows_its_end(tmp_path: Path) -> None:
    end, told = run(tmp_path, LOOK, answer("keep"), act_step())
    assert (end.head.status, told) == ("SUCCEEDED", [])
    assert end.head.visits == {
        "CHECK": 1, "CHECK__FIRST": 1, "CHECK__LOOKING": 1, "CHECK__SUCCEEDED": 1, "PROPOSING": 1, "ACTING": 1,
    }  # fmt: skip


def test_its_answer_is_evidence_of_its_name_and_nobody_vouches_for_it(tmp_path: Path) -> None:
    end, _ = run(tmp_path, LOOK, answer("keep"), act_step())
    (found,) = [e for e in end.evidence if e.tool == "inspect"]
    assert (found.payload, found.source, found.trust, found.purpose) == (
        {"verdict": "keep"},
        "model",
        "mixed",
        "answer",
    )


def test_its_success_is_asked_where_it_ends_and_the_holders_where_that_ends(tmp_path: Path) -> None:
    end, told = run(
        tmp_path, answer("keep"), LOOK, answer("keep"), {"call": "cannot_continue", "with": {"reason": "-"}}
    )
    assert told == ["refused: look first. Allowed now: look, ask_user, cannot_continue"]
    assert (end.head.status, end.head.reason) == ("FAILED", "no_action")


@pytest.mark.parametrize(
    ("steps", "how", "ended"),
    [
        ((LOOK,), {"look": [BAD]}, ("DENIED", "no_good")),
        (({"call": "ask_user", "with": {"question": "Which?"}},), {}, ("NEEDS_INPUT", "ask_user")),
        (({"call": "cannot_continue", "with": {"reason": "no"}},), {}, ("FAILED", "no_action")),
    ],
)
def test_an_end_of_its_own_is_what_the_holder_makes_of_it_with_the_reason_that_it_had(
    tmp_path: Path, steps: Any, how: Any, ended: tuple[str, str]
) -> None:
    end, _ = run(tmp_path, *steps, **how)
    assert (end.head.status, end.head.reason) == ended


def test_its_input_is_what_the_holder_fills_in_and_a_literal_counts(tmp_path: Path) -> None:
    """`input.item` is the holder's `thing`, in `with` and in guards; `input.floor` the number that is written there."""
    end, told = run(tmp_path, LOOK, answer("drop"), answer("keep"), act_step())
    assert [text.partition(".")[0] for text in told] == ["refused: only junk is dropped"]
    assert next(e for e in end.evidence if e.tool == "look").asked == {"thing": "box"}
    end, told = run(tmp_path / "junk", LOOK, answer("drop"), LOOK, machine=HOLDER, inputs={"thing": "junk"})
    assert (end.head.status, end.head.reason, told) == ("NEEDS_INPUT", "been_here", [])
    low, _ = run(tmp_path / "low", machine=HOLDER.replace("floor: 2", "floor: 1"))
    assert (low.head.status, low.head.reason) == ("DENIED", "too_low")


def test_what_it_counts_of_its_own_states_is_counted_under_their_names_there(tmp_path: Path) -> None:
    """The second time round, `visits.LOOKING` of the machine is 2: its states are states of the task."""
    end, _ = run(tmp_path, LOOK, answer("drop"), LOOK, machine=HOLDER, inputs={"thing": "junk"})
    assert end.head.visits["CHECK__LOOKING"] == 2


def test_the_tightest_limit_of_a_tool_counts_and_the_holders_steps(tmp_path: Path) -> None:
    """By itself `inspect` has two steps; here the holder's nine count, and its two calls of `look` at most."""
    end, told = run(tmp_path, LOOK, LOOK, LOOK, answer("keep"), act_step(), look=[GOOD, {"good": True, "note": "n"}])
    assert end.head.status == "SUCCEEDED"
    assert [text.partition(".")[0] for text in told] == ["refused: it may be called 2 times in a task, and was"]


TWICE = """
machine: tiny
version: 1
summary: The same machine in two places, one of them in a machine in between.
input:
  thing: {type: string}
limits: {steps: 9}
success: []
initial: OUTER
states:
  OUTER:
    machine: between@1
    with: {what: {text: input.thing}}
    then: {SUCCEEDED: AGAIN, NEEDS_INPUT: NEEDS_INPUT, DENIED: DENIED, FAILED: FAILED}
  AGAIN:
    machine: inspect@3
    with: {item: input.thing}
    then: {SUCCEEDED: SUCCEEDED, NEEDS_INPUT: NEEDS_INPUT, DENIED: DENIED, FAILED: FAILED}
"""
BETWEEN = """
machine: between
version: 1
summary: One around another.
input:
  what: {type: string}
limits: {steps: 3}
guards:
  kept: evidence.inspect.verdict == "keep"
success: [kept]
initial: IN
states:
  IN:
    machine: inspect@3
    with: {item: input.what}
    then: {SUCCEEDED: SUCCEEDED, NEEDS_INPUT: NEEDS_INPUT, DENIED: DENIED, FAILED: FAILED}
"""


def test_a_machine_in_a_machine_in_a_machine(tmp_path: Path) -> None:
    steps = (LOOK, answer("keep"), LOOK, answer("keep"))
    end, told = run(tmp_path, *steps, machine=TWICE, held=(BETWEEN, INSPECT))
    assert (end.head.status, told) == ("SUCCEEDED", [])
    assert [e.asked for e in end.evidence if e.tool == "look"] == [{"thing": "input.thing"}, {"thing": "box"}]
    assert end.head.visits["OUTER__IN__LOOKING"] == 1


def test_the_success_of_the_one_in_between_is_asked_too(tmp_path: Path) -> None:
    dropping = INSPECT.replace('input.item == "junk"', "true")
    end, _ = run(tmp_path, LOOK, answer("drop"), machine=TWICE, held=(BETWEEN, dropping))
    assert (end.head.status, end.head.reason) == ("FAILED", "not_verified")


WRITER = """
machine: writer
version: 1
summary: Propose, decide, act.
input:
  thing: {type: string}
limits: {steps: 3}
guards:
  small: proposal.args.amount < 100
success: []
initial: PROPOSING
states:
  PROPOSING:
    choose: {act: DECIDING}
  DECIDING:
    route:
      - {when: small, goto: ACTING}
      - {goto: DENIED, reason: too_much}
  ACTING:
    call: act
    with: proposal
    then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: FINDING}
  FINDING:
    reconcile: act
    then: {found: SUCCEEDED, absent: ACTING, failed: FAILED}
"""
AROUND = """
machine: tiny
version: 1
summary: Act in one machine, and go on when it did not.
input:
  thing: {type: string}
limits: {steps: 4}
success: []
initial: WRITING
states:
  WRITING:
    machine: writer@1
    with: {thing: input.thing}
    then: {SUCCEEDED: SUCCEEDED, DENIED: PAUSE, FAILED: FAILED}
  PAUSE:
    wait: {for: 1h}
    then: {elapsed: DECIDING}
  DECIDING:
    route:
      - {when: approval_required, goto: FAILED, reason: still_pending}
      - {when: approval_not_required, goto: FAILED, reason: still_pending}
      - {goto: NEEDS_INPUT, reason: nothing_pending}
"""


def test_what_was_proposed_in_it_is_not_pending_behind_it(tmp_path: Path) -> None:
    async def body(here: World) -> Any:
        paused = await here.run()
        here.environment.advance(7200)
        return paused, await here.runtime.resume(paused.task.id)

    paused, end = tell(tmp_path, body, act_step(700), machine=AROUND, held=(WRITER,))
    assert paused.head.proposal is None
    assert [(str(e.status), e.reason) for e in paused.effects] == [("abandoned", "too_much")]
    assert (end.head.status, end.head.reason) == ("NEEDS_INPUT", "nothing_pending")


def test_a_write_in_it_is_settled_as_anywhere(tmp_path: Path) -> None:
    end, _ = run(tmp_path, act_step(), machine=AROUND, held=(WRITER,), act=[TimeoutError()], find=[ONE])
    assert end.head.status == "SUCCEEDED"
    lost, _ = run(tmp_path / "2", act_step(), machine=AROUND, held=(WRITER,), act=[TimeoutError()], find=[{"items": 3}])
    assert (lost.head.status, lost.effects[0].status) == ("FAILED", "unknown")
    again, _ = run(
        tmp_path / "3", act_step(), machine=AROUND, held=(WRITER,), act=[TimeoutError(), {"id": "1"}], find=[NONE]
    )
    assert again.head.status == "SUCCEEDED"


def test_a_task_is_finished_on_the_texts_that_it_began_with(tmp_path: Path) -> None:
    """A later version of the machine that stands in it is nothing to a task that is on its way."""

    async def begin(here: World) -> Any:
        return (await here.run()).task.id

    async def finish(here: World) -> Any:
        here.environment.advance(7200)
        return await here.runtime.resume(task_id)

    task_id = tell(tmp_path, begin, act_step(700), machine=AROUND, held=(WRITER,))
    other = WRITER.replace("version: 1", "version: 2").replace("too_much", "other")
    end = tell(tmp_path, finish, machine=AROUND.replace("writer@1", "writer@2"), held=(other,))
    assert (end.head.status, end.head.reason) == ("NEEDS_INPUT", "nothing_pending")


def test_the_hash_of_a_machine_changes_with_what_stands_in_it() -> None:
    def hash_of(held: str) -> str:
        return compile_machine(checked_catalogue(catalogue(HOLDER, held=(held,))), "tiny").hash

    assert hash_of(INSPECT) != hash_of(INSPECT.replace("look first", "look before"))
    compiled = compile_machine(checked_catalogue(catalogue(HOLDER, held=(INSPECT,))), "tiny")
    assert compile_texts(texts_of(compiled)).hash == compiled.hash


def test_faults_of_what_stands_in_it_are_told_where_they_are_and_the_holder_says_so() -> None:
    report = checked_catalogue(catalogue(HOLDER, held=(INSPECT.replace("goto: LOOKING", "goto: LOKING"),))).report
    assert [(f.file, f.message) for f in report.errors] == [
        ("machine.yaml", "the machine `inspect` has faults of its own"),
        ("machine1.yaml", "there is no state `LOKING`"),
    ]


def test_a_machine_with_a_guard_of_the_wrong_type_is_told_of_once() -> None:
    report = checked_catalogue(
        catalogue(HOLDER, held=(INSPECT.replace("evidence.look.good\n", "evidence.look\n"),))
    ).report
    assert {f.file for f in report.errors} == {"machine1.yaml"}


def test_circles_of_machines_are_refused() -> None:
    one = (
        BETWEEN.replace("inspect@3", "other@1")
        .replace("{item: input.what}", "{what: input.what}")
        .replace(
            '  kept: evidence.inspect.verdict == "keep"\nsuccess: [kept]', '  kept: input.what == ""\nsuccess: [kept]'
        )
    )
    other = one.replace("machine: between", "machine: other").replace("other@1", "between@1")
    report = checked_catalogue(catalogue(one, held=(other,))).report
    assert {f.message for f in report.errors} == {"`between` is made of itself", "`other` is made of itself"}


def test_untrusted_text_does_not_come_to_be_trusted_on_its_way_through() -> None:
    """The machine by itself may take its input for trusted; filled from free text of a tool it does not load."""
    label = """
        tool: label
        version: 1
        summary: Label.
        effect: read
        source: things
        binding: {python: "nowhere:label"}
        args: {text: {type: string, trusted: true}}
        returns: {done: {type: boolean}}
    """
    holder = """
        machine: tiny
        version: 1
        summary: Label what was found.
        input: {thing: {type: string}}
        limits: {steps: 3}
        success: []
        initial: A
        states:
          A:
            choose: {look: B}
          B:
            machine: labels@1
            with: {text: evidence.look.note}
            then: {SUCCEEDED: SUCCEEDED, FAILED: FAILED}
    """
    labels = """
        machine: labels
        version: 1
        summary: Label.
        input: {text: {type: string}}
        limits: {steps: 3}
        success: []
        initial: A
        states:
          A:
            call: label
            with: {text: input.text}
            then: {ok: SUCCEEDED, failed: FAILED}
    """
    found = checked_catalogue(catalogue(holder, LOOK_MANIFEST, ACT, FIND, label, held=(labels,)))
    assert [f.message for f in found.report.errors] == [
        "`evidence.look.note` is untrusted, and `text` takes only what is trusted"
    ]


DONE_BY = """
machine: tiny
version: 1
summary: Machines whose ends are what their holder is done by, one at a time and side by side.
input:
  thing: {type: string}
limits: {steps: 9}
success: []
initial: OUT
states:
  OUT:
    initial: IN
    states:
      IN:
        machine: inspect@3
        with: {item: input.thing}
        then: {SUCCEEDED: done, NEEDS_INPUT: NEEDS_INPUT, DENIED: done, FAILED: FAILED}
    then: {done: BOTH}
  BOTH:
    parallel: true
    states:
      LEFT:
        initial: WAITING
        states:
          WAITING: {wait: {for: 1s}, then: {elapsed: FOUND}}
          FOUND:
            machine: finder@1
            with: {item: input.thing}
            then: {SUCCEEDED: done, FAILED: done}
      RIGHT:
        initial: RESTING
        states:
          RESTING: {wait: {for: 2s}, then: {elapsed: done}}
    then: {done: SUCCEEDED}
"""
FINDER = """
machine: finder
version: 1
summary: Look without a model.
input: {item: {type: string}}
limits: {steps: 1}
success: []
initial: CALLING
states:
  CALLING: {call: find, with: {key: input.item}, then: {ok: SUCCEEDED, failed: FAILED}}
"""


def test_what_holds_it_may_be_done_by_its_end(tmp_path: Path) -> None:
    """Also a region, while the one beside it goes on."""

    async def body(here: World) -> Any:
        waits = await here.run()
        here.environment.advance(1.5)
        half = await here.runtime.resume(waits.task.id)
        here.environment.advance(1)
        return waits, half, await here.runtime.resume(waits.task.id)

    waits, half, end = tell(tmp_path, body, LOOK, answer("keep"), machine=DONE_BY, held=(INSPECT, FINDER))
    assert set(waits.head.configuration) == {"WAITING", "RESTING"}
    assert set(half.head.configuration) == {"LEFT_done", "RESTING"}
    assert end.head.status == "SUCCEEDED"


def test_no_guard_takes_the_place_of_another() -> None:
    """`A` with a guard `b__good` and `A__B` with a guard `good` would both be `a__b__good`."""
    inner = (
        INSPECT.replace("machine: inspect", "machine: other")
        .replace("  good:", "  b__good:")
        .replace("[looked, good]", "[looked, b__good]")
    )
    holder = (
        HOLDER.replace("  CHECK:", "  A__B:")
        .replace("initial: CHECK", "initial: A__B")
        .replace("goto: CHECK", "goto: A")
    )
    holder += """
  A:
    machine: other@3
    with: {item: input.thing}
    then: {SUCCEEDED: PROPOSING, NEEDS_INPUT: NEEDS_INPUT, DENIED: DENIED, FAILED: FAILED}
"""
    report = checked_catalogue(catalogue(holder, held=(INSPECT, inner))).report
    assert [f.message for f in report.errors] == [
        "something of `other` would be called `a__b__good` here, and there is one"
    ]


def test_a_masked_field_is_not_read_by_what_stands_in_it() -> None:
    """By its guards and by its waits."""
    resting = "\n  RESTING: {wait: {until: timestamp(evidence.look.note)}, then: {elapsed: DENIED}}"
    inner = INSPECT.replace("initial: FIRST\nstates:", f"initial: FIRST\nstates:{resting}")
    inner = inner.replace("goto: DENIED, reason: no_good", "goto: RESTING")
    assert checked_catalogue(catalogue(HOLDER, held=(inner,))).report.errors == []
    masked = HOLDER.replace("initial: CHECK", "redact: [evidence.look.note]\ninitial: CHECK")
    report = checked_catalogue(catalogue(masked, held=(inner,))).report
    assert [f.message for f in report.errors] == ["`CHECK__RESTING` reads `note` of `look`, which is masked"]
