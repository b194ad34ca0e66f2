"""What becomes of proposals and of calls that a machine makes by itself: refusals, reconciliations, limits and records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.canonical import digest
from statemachine_agent.loop.context import Event
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.outcome import LostError, NotSentError, RefusedByServiceError
from support.playing import play, swap, to_its_end
from support.world import ACT, BOB, DONE, FIND, GOOD, LOOK, LOOK_STEP, MACHINE, NONE, ONE, World, act_step

LOST = LostError("the line went dead", reason="timeout")
GIVE_UP = {"call": "cannot_continue", "with": {"reason": "enough"}}
#: the model may also say that it is time to look for the effect
LOOK_FOR = swap(
    MACHINE,
    ("        - {goto: PROPOSED}", "        - {when: sent, goto: FINDING}\n        - {goto: PROPOSED}"),
    ("success:", '  sent: effects.exists(e, e.status != "proposed")\nsuccess:'),
    ("then: {ok: SUCCEEDED, failed", "then: {ok: LOOKING, failed"),
)


def ending(task: Checkpoint) -> tuple[str, str | None]:
    return str(task.head.status), task.head.reason


async def with_told(here: World) -> tuple[Checkpoint, list[str]]:
    end = await here.run()
    return end, await here.told(end)


# ---------------------------------------------------------------- proposals


def test_a_guard_on_what_is_proposed_may_err(tmp_path: Path) -> None:
    """It reads an argument that the model left out: the task ends, naming guard and field, and nothing is proposed."""
    act = swap(ACT, ("args:\n", "args:\n  note: {type: string, optional: true}\n"))
    machine = swap(MACHINE, ("same_thing: call.args.thing == input.thing", 'same_thing: call.args.note == "x"'))
    end = play(tmp_path, to_its_end, LOOK_STEP, act_step(), machine=machine, texts=(LOOK, act, FIND))
    assert ending(end) == ("FAILED", "guard_error")
    assert "`same_thing`" in (end.head.output or "") and "`call.args.note`" in (end.head.output or "")
    assert end.effects == ()


def test_a_pinned_argument_that_is_not_there_yet(tmp_path: Path) -> None:
    """The model is told what is missing, and its step is spent."""
    rows = MACHINE[MACHINE.index("      act:\n") : MACHINE.index("      finish:")]
    pinned = "      act: {with: {thing: evidence.look.note}, rows: [{goto: PROPOSED}]}\n"
    machine = swap(MACHINE, (rows, pinned))
    step = {"call": "act", "with": {"amount": 5}}
    end, told = play(tmp_path, with_told, LOOK_STEP, step, GIVE_UP, machine=machine)
    missing = "`evidence.look.note` is not there (`note` was not found)"
    assert told == [f"refused: {missing}. Allowed now: look, act, ask_user, cannot_continue"]
    assert (ending(end), end.effects) == (("FAILED", "no_action"), ())


def test_a_pinned_argument_is_not_the_models_to_fill(tmp_path: Path) -> None:
    """It is named as what the machine fills in, and the call is not made with either value."""
    machine = swap(MACHINE, ("      look: stay", "      look: {with: {thing: input.thing}}"))
    _, told = play(tmp_path, with_told, {"call": "look", "with": {"thing": "bag"}}, GIVE_UP, machine=machine)
    (text,) = told
    assert text.startswith("invalid proposal (pinned_argument): `thing` of `look` is filled in by the machine. Allowed")


def test_what_the_machine_fills_in_is_what_is_called(tmp_path: Path) -> None:
    """The input's own thing, whatever the model might think of."""
    machine = swap(MACHINE, ("      look: stay", "      look: {with: {thing: input.thing}}"))

    async def body(here: World) -> list[Any]:
        await here.run()
        return [c.args for c in here.tools["look"].calls]

    assert play(tmp_path, body, {"call": "look"}, GIVE_UP, machine=machine) == [{"thing": "box"}]


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (
            {"call": "request_approval", "with": {"tool": "look", "args": {"thing": "box"}, "reason": "x"}},
            "invalid proposal (no_approval_state): no approval of `look` can follow here",
        ),
        (
            {"call": "request_approval", "with": {"tool": "x" * 100, "args": {}, "reason": "x"}},
            f"invalid proposal (no_approval_state): no approval of `{'x' * 59}…` can follow here",
        ),
        (
            {"call": "ask_user", "with": {"question": "Which?"}},
            "invalid proposal (illegal_tool): `ask_user` is not allowed here",
        ),
        ({"call": "find", "with": {"key": "k"}}, "invalid proposal (illegal_tool): `find` is not allowed here"),
        ({"call": "fond", "with": {}}, "invalid proposal (illegal_tool): `fond` is no tool"),
        (
            {"call": "look", "with": {"thing": 7, "more": 1}},
            "invalid proposal (invalid_arguments): arguments of `look`: ",
        ),
        (act_step(), "refused: look first"),
    ],
    ids=lambda v: v["call"] if isinstance(v, dict) else "",
)
def test_what_is_not_admitted_is_told_with_what_is(tmp_path: Path, step: dict[str, Any], said: str) -> None:
    """Why, and what may be proposed instead: a model can only do better if it is told."""
    machine = swap(MACHINE, ("      ask_user: NEEDS_INPUT\n", ""))

    async def body(here: World) -> list[Any]:
        return await here.rows(await here.run(), "decision")

    row, _ = play(tmp_path, body, step, GIVE_UP, machine=machine)
    text = row["feedback"]
    assert text.startswith(said)
    kind, _, rest = said.removesuffix(":").partition(": ")
    refused = kind == "refused" and rest
    assert (row["result"], row["error_class"]) == (("refused", "refused") if refused else ("invalid", kind[18:-1]))
    assert text.endswith(". Allowed now: look, cannot_continue")


# ---------------------------------------------------------------- reconciliation


def test_what_the_ledger_knows_is_not_asked_of_the_service(tmp_path: Path) -> None:
    """The effect is executed: its receipt answers, and the look-up is not called."""

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert (len(here.tools["act"].calls), len(here.tools["find"].calls)) == (1, 0)
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(), act_step(), machine=LOOK_FOR)
    assert ending(end) == ("SUCCEEDED", "completed")
    assert [(e.key, e.status, e.receipt) for e in end.effects] == [("act:box:10", "executed", DONE)]


def test_where_there_is_nothing_to_look_for(tmp_path: Path) -> None:
    """A machine that goes looking before anything was sent ends in doubt, and asks nobody."""
    machine = swap(MACHINE, ("      look: stay", "      look: {rows: [{goto: FINDING}]}"))

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert not here.tools["act"].calls and not here.tools["find"].calls
        return end

    end = play(tmp_path, body, LOOK_STEP, machine=machine)
    assert (ending(end), end.head.output) == (("FAILED", "in_doubt"), "there is no effect of `act` to look for")


@pytest.mark.parametrize(
    ("find", "old", "new", "said"),
    [
        ([ONE], "result.items.size() == 1", 'result.note == "x"', "there is no `result.note`"),
        ([NONE], "result.items.size() == 0", 'result.note == "x"', "there is no `result.note`"),
        ([ONE], "result: result.items[0]", "result: result.items[1]", "`act.reconcile.result`"),
        ([{"items": [{"id": "a"}, {"id": "b"}]}], "items[0]", "items[0]", "`find` answered neither found nor absent"),
    ],
    ids=["found errs", "absent errs", "its result errs", "neither"],
)
def test_a_look_up_without_a_clear_answer_stays_in_doubt(
    tmp_path: Path, find: list[Any], old: str, new: str, said: str
) -> None:
    """Neither found nor absent: the effect stays open, and it is not sent again."""
    act = swap(ACT, (old, f"'{new}'" if '"' in new else new))
    looked_up = swap(FIND, ("returns:\n", "returns:\n  note: {type: string, optional: true}\n"))

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert len(here.tools["act"].calls) == 1
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(), act=[LOST], find=find, texts=(LOOK, act, looked_up))
    assert (ending(end), [e.status for e in end.effects]) == (("FAILED", "in_doubt"), ["unknown"])
    assert said in (end.head.output or "")


def test_a_look_up_that_cannot_be_asked_stays_in_doubt(tmp_path: Path) -> None:
    """The look-up takes no such key."""
    find = swap(FIND, ("key: {type: string}", "key: {type: string, maxLength: 3}"))

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert (len(here.tools["act"].calls), len(here.tools["find"].calls)) == (1, 0)
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(), act=[LOST], texts=(LOOK, ACT, find))
    assert ending(end) == ("FAILED", "in_doubt")
    assert (end.head.output or "").startswith("`find`: ")


@pytest.mark.parametrize(
    ("answer", "reason", "said"),
    [
        (LOST, "timeout", "`find` gave no answer: the line went dead"),
        (NotSentError("no route", reason="unavailable"), "unavailable", "`find` gave no answer: no route"),
        (RefusedByServiceError("closed", reason="closed"), "closed", "`find` gave no answer: closed"),
    ],
    ids=["lost", "not sent", "refused"],
)
def test_a_look_up_that_is_not_answered_says_why(tmp_path: Path, answer: Any, reason: str, said: str) -> None:
    """Its own error class is the reason of the end; the effect stays open."""
    end = play(tmp_path, to_its_end, LOOK_STEP, act_step(), act=[LOST], find=[answer])
    assert (ending(end), end.head.output) == (("FAILED", reason), said)
    assert [e.status for e in end.effects] == ["unknown"]


# ---------------------------------------------------------------- limits, and what is written down


def test_a_read_of_the_machine_itself_has_its_limit_too(tmp_path: Path) -> None:
    """The third reading of a tool that may be called twice is not made."""
    read = "{call: look, with: {thing: input.thing}, then: {ok: %s, failed: FAILED}}\n"
    machine = swap(
        MACHINE, ("initial:", "at_most: {look: 2}\ninitial:"), ("then: {ok: SUCCEEDED", "then: {ok: READING")
    )
    machine += f"  READING: {read % 'AGAIN'}  AGAIN: {read % 'SUCCEEDED'}"

    async def body(here: World) -> Checkpoint:
        end = await here.run()
        assert len(here.tools["look"].calls) == 2
        return end

    end = play(tmp_path, body, LOOK_STEP, act_step(), machine=machine)
    assert ending(end) == ("FAILED", "at_most")
    assert end.head.output == "`look` was called as often as a task may"
    assert end.head.calls == {"look": 2, "act": 1}


def test_a_tool_at_its_limit_is_hidden_with_the_number(tmp_path: Path) -> None:
    """The model is told how often it may be called, and that it was."""
    machine = swap(MACHINE, ("initial:", "at_most: {look: 1}\ninitial:"))
    _, told = play(tmp_path, with_told, LOOK_STEP, LOOK_STEP, GIVE_UP, machine=machine)
    assert told == ["refused: it may be called 1 times in a task, and was. Allowed now: act, ask_user, cannot_continue"]


def test_who_looks_on_is_told_each_request(tmp_path: Path) -> None:
    """Before and after: tool, arguments, key, number of the attempt and what became of it."""
    events: list[Event] = []

    async def body(here: World) -> Checkpoint:
        here.runtime.watch(events.append)
        return await here.run()

    end = play(tmp_path, body, LOOK_STEP, act_step(), look=[NotSentError("no", reason="unavailable"), GOOD])
    assert {e.task_id for e in events} == {end.task.id}
    calling = [e.data for e in events if e.kind == "calling"]
    assert [(d["tool"], d["args"], d["key"], d["attempt"]) for d in calling] == [
        ("look", {"thing": "box"}, None, 1),
        ("look", {"thing": "box"}, None, 2),
        ("act", {"thing": "box", "amount": 10}, "act:box:10", 1),
    ]
    called = [e.data for e in events if e.kind == "called"]
    assert [(d["tool"], d["attempt"].number, d["attempt"].request_id) for d in called] == [
        (c["tool"], c["attempt"], c["request_id"]) for c in calling
    ]
    committed = [e.data for e in events if e.kind == "committed"]
    assert [d["transaction"].cause for d in committed] == ["start", "step", "step", "intent", "outcome"]
    assert [d["checkpoint"].head.version for d in committed] == [0, 1, 2, 3, 4]


def test_a_receipt_from_the_ledger_is_evidence_like_any_other(tmp_path: Path) -> None:
    """The same action in a second task: the receipt of the first answers, with its source and the task that it is from."""

    async def body(here: World) -> tuple[Checkpoint, Checkpoint, list[Any]]:
        first = await here.run()
        second = await here.run()
        assert len(here.tools["act"].calls) == 1
        return first, second, [r for r in await here.rows(second, "effect_event") if r["status"] == "executed"]

    first, second, rows = play(tmp_path, body, LOOK_STEP, act_step())
    assert ending(second) == ("SUCCEEDED", "completed")
    found = second.evidence[-1]
    assert (found.tool, found.purpose, found.request_id, found.source, found.payload, found.asked) == (
        "act", "reconcile", "ledger", "things", DONE, {"thing": "box", "amount": 10},
    )  # fmt: skip
    (effect,) = second.effects
    assert found.payload_hash == digest(DONE)
    assert (effect.status, effect.inherited, effect.reason, effect.receipt) == ("executed", True, "done_before", DONE)
    assert [r["by"] for r in rows] == [first.task.id]


def test_calls_are_counted_by_tool_and_in_all(tmp_path: Path) -> None:
    """Looks on behalf of a write are not the model's: they are counted nowhere."""
    act = ACT + "precondition: {tool: look, with: {thing: args.thing}, holds: result.good, reason: gone}\n"
    end = play(tmp_path, to_its_end, LOOK_STEP, act_step(), texts=(LOOK, act, FIND), act=[LOST], find=[ONE])
    assert (end.head.calls, end.head.usage.tool_calls) == ({"look": 1, "act": 1}, 2)
    assert [(e.tool, e.purpose) for e in end.evidence] == [
        ("look", "step"), ("look", "precondition"), ("find", "reconcile"), ("act", "reconcile"),
    ]  # fmt: skip


# ---------------------------------------------------------------- sending again, confirming, asking


REPLAYED = ACT[: ACT.index("  reconcile:")] + "  replay: true\n" + ACT[ACT.index("approval:") :]


@pytest.mark.parametrize(
    ("again", "said"),
    [
        (LOST, "the replay was not answered: the line went dead"),
        (RefusedByServiceError("no such thing", reason="gone"), "the replay was not answered: no such thing"),
        (NotSentError("no route", reason="unavailable"), "the replay was not answered: no route"),
    ],
    ids=["lost", "refused", "not sent"],
)
def test_a_replay_that_is_not_answered_stays_in_doubt(tmp_path: Path, again: Exception, said: str) -> None:
    """Even a no to the second request says nothing of the first: the effect stays open, with two attempts on record."""

    async def body(here: World) -> tuple[Checkpoint, list[Any]]:
        end = await here.run()
        rows = [r for r in await here.rows(end, "call") if r["tool"] == "act"]
        return end, [(r["purpose"], r["effect_key"]) for r in rows]

    end, rows = play(tmp_path, body, LOOK_STEP, act_step(), act=[LOST, again], texts=(LOOK, REPLAYED, FIND))
    assert (ending(end), end.head.output) == (("FAILED", "in_doubt"), said)
    assert [e.status for e in end.effects] == ["unknown"]
    assert rows == [("call", "act:box:10"), ("reconcile", "act:box:10")]


def test_only_what_was_executed_is_verified(tmp_path: Path) -> None:
    """A row that confirms an effect of which nobody knows whether it happened confirms nothing."""
    machine = swap(
        MACHINE,
        ("absent: ACTING, failed: FAILED}", "absent: ACTING, failed: READING}"),
        ("then: {ok: SUCCEEDED", "then: {ok: READING"),
    )
    row = "{goto: FAILED, reason: seen, confirms: act}"
    machine += f"  READING: {{call: look, with: {{thing: input.thing}}, then: {{ok: [{row}], failed: FAILED}}}}\n"
    for name, act, status in (("a", [DONE], "verified"), ("b", [LOST], "unknown")):
        (tmp_path / name).mkdir()
        end = play(
            tmp_path / name, to_its_end, LOOK_STEP, act_step(), machine=machine, act=act, find=[{"items": [DONE, DONE]}]
        )
        assert (ending(end), [e.status for e in end.effects]) == (("FAILED", "seen"), [status])


def test_a_look_up_may_ask_by_key_and_by_tool(tmp_path: Path) -> None:
    """Both are known to a precondition and to a reconciliation: one look-up may serve several writes."""
    find = swap(FIND, ("args:\n", "args:\n  tool: {type: string, optional: true}\n"))
    act = swap(ACT, ("with: {key: effect.key}", "with: {key: effect.key, tool: effect.tool}"))
    given = "{key: effect.key, tool: effect.tool}"
    act += f"precondition: {{tool: find, with: {given}, holds: result.items.size() == 0, reason: done}}\n"

    async def body(here: World) -> list[Any]:
        await here.run()
        return [c.args for c in here.tools["find"].calls]

    asked = play(tmp_path, body, LOOK_STEP, act_step(), texts=(LOOK, act, find), act=[LOST], find=[NONE, ONE])
    assert asked == [{"key": "act:box:10", "tool": "act"}] * 2


def test_a_machine_may_ask_where_no_rule_does(tmp_path: Path) -> None:
    """The yes that it asked for is needed, is enough, and is used up by the effect."""
    route = MACHINE[MACHINE.index("    route:") : MACHINE.index("  ASKING:")]
    machine = swap(MACHINE, (route, "    route: ASKING\n"))

    async def body(here: World) -> Checkpoint:
        waiting = await here.run()
        assert (waiting.head.status, waiting.approvals[0].roles) == ("AWAITING_APPROVAL", ("boss",))
        await here.runtime.approve(waiting.approvals[0].id, BOB)
        return await here.runtime.resume(waiting.task.id)

    end = play(tmp_path, body, LOOK_STEP, act_step(5), machine=machine)
    assert (ending(end), [a.status for a in end.approvals]) == (("SUCCEEDED", "completed"), ["consumed"])


def test_a_look_up_before_a_replay_knows_the_same(tmp_path: Path) -> None:
    """The precondition is read again for the effect that was sent: by its key, and its tool."""
    find = swap(FIND, ("args:\n", "args:\n  tool: {type: string, optional: true}\n"))
    given = "{key: effect.key, tool: effect.tool}"
    act = REPLAYED + f"precondition: {{tool: find, with: {given}, holds: result.items.size() == 0, reason: done}}\n"

    async def body(here: World) -> tuple[Checkpoint, list[Any]]:
        end = await here.run()
        return end, [c.args for c in here.tools["find"].calls]

    end, asked = play(tmp_path, body, LOOK_STEP, act_step(), texts=(LOOK, act, find), act=[LOST, DONE])
    assert asked == [{"key": "act:box:10", "tool": "act"}] * 2
    assert (ending(end), end.effects[0].attempt) == (("SUCCEEDED", "completed"), 1)


@pytest.mark.parametrize(("amount", "again"), [(10, "proposed"), (200, "approved")], ids=["by itself", "with a yes"])
def test_what_is_found_absent_stands_where_it_stood_before_it_was_sent(tmp_path: Path, amount: int, again: str) -> None:
    """A yes that was given still stands; the ledger tells each step."""

    async def body(here: World) -> list[str]:
        task = await here.run()
        if task.approvals:
            await here.runtime.approve(task.approvals[0].id, BOB)
            task = await here.runtime.resume(task.task.id)
        assert ending(task) == ("SUCCEEDED", "completed")
        return [r["status"] for r in await here.rows(task, "effect_event")]

    rows = play(tmp_path, body, LOOK_STEP, act_step(amount), act=[LOST, DONE], find=[NONE])
    before = ["proposed"] if again == "proposed" else ["proposed", "approved"]
    assert rows == [*before, "intended", "unknown", again, "intended", "executed"]


def test_the_ledger_holds_what_was_sent_last_under_a_key(tmp_path: Path) -> None:
    """Refused, and sent again with another amount under the same key: the record is of the second one."""
    look = swap(LOOK, ("returns:\n", "returns:\n  size: {type: integer}\n"))
    act = swap(ACT, ("act:{thing}:{amount}", "act:{thing}"))
    machine = swap(
        MACHINE,
        ("      look: stay\n", "      look: {rows: [{goto: ACTING}]}\n"),
        ("with: proposal", "with: {thing: input.thing, amount: evidence.look.size}"),
        ("then: {ok: SUCCEEDED, failed: FAILED,", "then: {ok: SUCCEEDED, failed: LOOKING,"),
    )
    sizes = [{"good": True, "size": 10}, {"good": True, "size": 20}]
    refused = RefusedByServiceError("too small", reason="too_small")
    end = play(
        tmp_path,
        to_its_end,
        LOOK_STEP,
        LOOK_STEP,
        machine=machine,
        texts=(look, act, FIND),
        look=sizes,
        act=[refused, DONE],
    )
    assert ending(end) == ("SUCCEEDED", "completed")
    assert [(e.key, e.args["amount"], e.attempt, e.receipt) for e in end.effects] == [("act:box", 20, 2, DONE)]


@pytest.mark.parametrize(("part", "value"), [("key", "act:box:10"), ("tool", "act"), ("status", "executed")])
def test_a_state_may_refer_to_what_the_ledger_says(tmp_path: Path, part: str, value: str) -> None:
    """`effects.act.key` in a `with` is the newest effect of that tool."""
    machine = swap(MACHINE, ("then: {ok: SUCCEEDED", "then: {ok: READING"))
    machine += (
        f"  READING: {{call: look, with: {{thing: effects.act.{part}}}, then: {{ok: SUCCEEDED, failed: FAILED}}}}\n"
    )

    async def body(here: World) -> tuple[Checkpoint, Any, list[Any]]:
        end = await here.run()
        return end, here.tools["look"].calls[-1].args, await here.rows(end, "call")

    end, args, rows = play(tmp_path, body, LOOK_STEP, act_step(), machine=machine)
    assert (ending(end), args) == (("SUCCEEDED", "completed"), {"thing": value})
    assert [(r["tool"], r["purpose"], r["args"]) for r in rows][1:] == [
        ("act", "call", {"thing": "box", "amount": 10}),
        ("look", "call", {"thing": value}),
    ]
    ids = [r["call_id"] for r in rows]
    assert len(set(ids)) == 3 and all(i.startswith("call-") and len(i) > 10 for i in ids[1:])
