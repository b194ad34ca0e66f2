"""What is found wrong with each call of a proposal, on values alone: why, in which words, and that nothing else is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from unit.loop.making import act, compiled, standing

from statemachine_agent.loop.call import Finding
from statemachine_agent.loop.observe import observe
from statemachine_agent.loop.phases import CheckedCall, Observation, Planned, Proposal
from statemachine_agent.loop.validate import validate
from statemachine_agent.models.decision import AskUser, CannotContinue, Finish, RawCall, RawReply
from statemachine_agent.models.port import Reply, Spent
from statemachine_agent.records import Checkpoint
from support.playing import swap
from support.world import ACT, FIND, LOOK, MACHINE

#: two arguments of a read are filled in, one of them from a result
PINNED = swap(
    MACHINE,
    (
        "      look: stay",
        "      look: {with: {thing: input.thing, where: here}}\n      find: {with: {key: evidence.look.note}}",
    ),
)
WHERE = swap(
    LOOK, ("args:\n", "args:\n  where: {type: string, optional: true}\n  pin: {type: string, optional: true}\n")
)
HIDING = WHERE + "redact: [args.pin]\n"
#: what is asked for, and why it gives up, is read by the rows
READING = swap(
    MACHINE,
    ("      finish: SUCCEEDED\n", ""),
    ("ask_user: NEEDS_INPUT", "ask_user: [{unless: polite, refuse: say please}, {goto: NEEDS_INPUT}]"),
    ("guards:\n", 'guards:\n  polite: call.args.question == "please?"\n'),
)
FORMED = swap(MACHINE, ("guards:\n", "output: {title: {type: string}, price: {type: number}}\nguards:\n"))


def checked(
    *calls: RawCall, text: str = "", machine: str = MACHINE, texts: tuple[str, ...] = (), **how: Any
) -> CheckedCall:
    """These calls of a model, in a task that has just started."""
    observation = observe(*standing(machine=machine, texts=texts, **how))
    return validate(Proposal(observation, 1, Reply(RawReply(calls, text), Spent(7, 3), "m")))


def wrong(found: CheckedCall) -> list[tuple[Any, ...]]:
    """Of each call what stands in a record, and what is wrong with it."""
    return [(c.id, c.tool, c.args, c.finding) for c in found.calls]


def asking(tool: str, args: Any) -> RawCall:
    return RawCall("c1", "request_approval", {"tool": tool, "args": args, "reason": "x"})


BOX = {"thing": "box"}
LONG = "y" * 100
CUT = f"`{'y' * 59}…`"


@pytest.mark.parametrize(
    ("call", "how", "kind", "error_class", "said"),
    [
        (RawCall("c1", LONG, {}), {}, "invalid", "illegal_tool", f"{CUT} is no tool"),
        (RawCall("c1", "find", {"key": "k"}), {}, "invalid", "illegal_tool", "`find` is not allowed here"),
        (
            RawCall("c1", "look", {"thing": "bag", "where": "there"}),
            {"machine": PINNED, "texts": (WHERE, ACT, FIND)},
            "invalid",
            "pinned_argument",
            "`thing`, `where` of `look` is filled in by the machine",
        ),
        (
            RawCall("c1", "find", {}),
            {"machine": PINNED, "texts": (WHERE, ACT, FIND)},
            "refused",
            "unresolved",
            "`evidence.look.note` is not there (`look` was not found)",
        ),
        (
            RawCall("c1", "look", {"thing": 7, "where": 8}),
            {"texts": (WHERE, ACT, FIND)},
            "invalid",
            "invalid_arguments",
            'arguments of `look`: thing: 7 is not of type "string"; where: 8 is not of type "string"',
        ),
        (
            RawCall("c1", "look", {"thing": 7, "pin": 8, "x": 9}),
            {"texts": (HIDING, ACT, FIND)},
            "invalid",
            "invalid_arguments",
            "arguments of `look`: pin; thing; not just where, pin, thing",
        ),
        (RawCall("c1", "act", {**BOX, "amount": 1}), {}, "refused", "refused", "look first"),
    ],
    ids=["no tool", "not here", "filled in", "not there yet", "two faults", "two that are not told", "refused"],
)
def test_what_is_wrong_with_a_call(call: RawCall, how: Any, kind: str, error_class: str, said: str) -> None:
    """The call stays what the model proposed; the finding says why it is not made."""
    found = checked(call, **how)
    (one,) = found.calls
    assert (one.id, one.tool, one.finding) == ("c1", call.name, Finding(kind, error_class, said))
    assert one.args == {**call.arguments, **one.args}  # type: ignore[dict-item]
    assert (found.fault, one.action) == (None, None)


def test_a_request_that_cannot_follow_is_the_call_that_it_is_about() -> None:
    """With its arguments and the id that the model gave it."""
    found = checked(asking("look", BOX))
    text = "no approval of `look` can follow here"
    assert wrong(found) == [("c1", "look", BOX, Finding("invalid", "no_approval_state", text))]


def test_what_is_no_decision_is_a_fault_of_the_whole() -> None:
    """There is no call then; what may be proposed is told beside it."""
    found = checked(text="I would rather not.")
    text = (
        "invalid proposal (text_without_call): a text decides nothing: propose one of the allowed calls. Allowed now: "
    )
    assert found.fault == Finding("invalid", "text_without_call", text + "look, ask_user, cannot_continue")
    assert (found.decision, found.calls, found.finding) == (None, (), found.fault)


def test_of_several_each_has_what_is_wrong_with_it() -> None:
    """One is none, one is no tool, one has nothing wrong: none is made, and each is named."""
    found = checked(RawCall("c1", "look", BOX), RawCall("c1", "look", "{"), RawCall("c3", "fond", {}))
    (first, second, third) = wrong(found)
    assert first == ("c1", "look", BOX, None)
    assert second[:3] == ("c1", "look", {}) and second[3].kind == "invalid"
    assert third == ("c3", "fond", {}, Finding("invalid", "illegal_tool", "`fond` is no tool"))
    assert found.decision is None


@pytest.mark.parametrize(
    ("answer", "machine", "said"),
    [
        ({"title": 1, "price": "x"}, FORMED, 'price: "x" is not of type "number"; title: 1 is not of type "string"'),
        ({"title": "Emma"}, MACHINE, "it is a text here"),
    ],
    ids=["another form", "no text"],
)
def test_an_answer_that_is_none_is_told_whole(answer: Any, machine: str, said: str) -> None:
    """What is wrong with it, part by part, before anybody asks whether it may be given."""
    found = checked(RawCall("c1", "finish", {"answer": answer}), machine=machine)
    finding = Finding("invalid", "invalid_arguments", f"`answer` of `finish`: {said}")
    assert wrong(found) == [("", "finish", {}, finding)]
    assert found.decision == Finish(answer)


def test_rows_of_a_control_choice_read_what_was_said() -> None:
    """A question is refused for its words, in the words of its row."""
    rude = checked(RawCall("c1", "ask_user", {"question": "well?"}), machine=READING)
    assert wrong(rude) == [("", "ask_user", {"question": "well?"}, Finding("refused", "refused", "say please"))]
    polite = checked(RawCall("c1", "ask_user", {"question": "please?"}), machine=READING)
    assert (wrong(polite), polite.decision) == ([("", "ask_user", {"question": "please?"}, None)], AskUser("please?"))
    over = checked(RawCall("c1", "cannot_continue", {"reason": "enough"}))
    assert wrong(over) == [("", "cannot_continue", {"reason": "enough"}, None)]
    assert (
        over.decision == CannotContinue("enough")
        and over.move is not None
        and over.move.event == "call.cannot_continue"
    )
    not_here = checked(RawCall("c1", "finish", {"answer": "done"}), machine=READING)
    assert wrong(not_here)[0][3] == Finding("invalid", "illegal_tool", "`finish` is not allowed here")


# ---------------------------------------------------------------- what a state plans


def planned(tool: str, args: Any, *, checkpoint: Any = None, **how: Any) -> CheckedCall:
    """A call that the state ACTING makes by itself."""
    context, started = standing("ACTING", machine=how.pop("machine", MACHINE), texts=how.pop("texts", ()))
    known: Checkpoint = checkpoint(context, started) if checkpoint else started
    how.setdefault("purpose", "call")
    return validate(Proposal(Observation(context, known, "ACTING"), 1, planned=Planned(tool, args, **how)))


@pytest.mark.parametrize(
    ("tool", "args", "how", "error_class", "said"),
    [
        (
            "look",
            {},
            {"fault": "there is\n nothing " + LONG * 4},
            "unresolved",
            f"there is nothing {LONG * 4}"[:299] + "…",
        ),
        ("look", {"thing": 7, "x": 1}, {}, "invalid_arguments", None),
        ("act", {"thing": "[redacted]", "amount": 1}, {}, "masked_argument", None),
    ],
    ids=["not there", "two faults", "a mask"],
)
def test_what_a_state_cannot_call(tool: str, args: Any, how: Any, error_class: str, said: str | None) -> None:
    """It stands in the way, in one line, and names the tool; a mask is never sent for the text that it hides."""
    found = planned(tool, args, **how)
    (call,) = found.calls
    assert call.finding is not None and call.tool == tool and call.manifest is not None and call.action is None
    assert (call.finding.kind, call.finding.error_class) == ("blocked", error_class)
    assert said is None or call.finding.text == said


def test_what_a_state_can_call() -> None:
    """A read needs no action; a write has the one that is sent."""
    read, write = planned("look", BOX), planned("act", {**BOX, "amount": 10})
    assert (read.finding, read.calls[0].args, read.calls[0].action) == (None, BOX, None)
    assert (write.finding, write.calls[0].action) == (None, act(compiled()))


def keyless(context: Any) -> Any:
    """A manifest whose key needs what nobody gave: an older build took it."""
    machine = context.machine
    tool = machine.tools["act"]
    ill = tool.model_copy(update={"idempotency": tool.idempotency.model_copy(update={"key": "act:{note}"})})
    return replace(context, machine=replace(machine, tools={**machine.tools, "act": ill}))


def test_a_key_that_cannot_be_filled_is_no_action() -> None:
    """Whether a model proposes it or a state calls it: without a key nothing is sent."""
    said = "the key `act:{note}` needs `note` (the argument is missing)"
    context, started = standing(
        machine=swap(MACHINE, ("unless: looked", "when: bad"), ("unless: [good, same_thing]", "when: bad"))
    )
    observation = observe(keyless(context), started)
    reply = Reply(RawReply((RawCall("c1", "act", {**BOX, "amount": 1}),)), Spent(7, 3), "m")
    (proposed,) = validate(Proposal(observation, 1, reply)).calls
    acting = replace(
        observation, checkpoint=replace(started, head=replace(started.head, configuration=("ACTING",))), state="ACTING"
    )
    (runs,) = validate(Proposal(acting, 1, planned=Planned("act", {**BOX, "amount": 1}, "call"))).calls
    assert (proposed.finding, runs.finding) == (
        Finding("invalid", "invalid_arguments", said), Finding("blocked", "invalid_arguments", said),
    )  # fmt: skip
    assert (proposed.id, proposed.action, runs.action) == ("c1", None, None)


# ---------------------------------------------------------------- what was accepted before


#: the row that accepts an act looks at how often people were asked, and then at a note that is not there
ONCE = swap(
    MACHINE,
    ("unless: looked", "when: bad"),
    ("unless: [good, same_thing], refuse: not this thing", "unless: first, refuse: only once"),
    ("guards:\n", 'guards:\n  first: visits.ASKING == 0 || (visits.ASKING > 1 && evidence.look.note == "x")\n'),
)
ROW = 5


def accepted(asked: int = 0, **change: Any) -> CheckedCall:
    """The call of a proposal that was accepted before people were asked so often."""
    action = act(compiled(ONCE))
    proposal = {"tool": "act", "args": action.args, "key": action.key, "version": 1, "state": "LOOKING", "row": ROW}

    def pending(_: Any, started: Checkpoint) -> Checkpoint:
        return replace(started, head=replace(started.head, proposal={**proposal, **change}, visits={"ASKING": asked}))

    return planned("act", action.args, machine=ONCE, checkpoint=pending)


@pytest.mark.parametrize(
    "change",
    [{"args": {**BOX, "amount": 11}}, {"key": "act:box:11"}, {"version": 2}],
    ids=["arguments", "key", "version"],
)
def test_what_is_called_is_what_was_accepted(change: dict[str, Any]) -> None:
    """To the last part of it; anything else stands in the way."""
    assert (accepted().finding, accepted(tool="find", **change).finding) == (None, None)
    finding = Finding("blocked", "action_changed", "the stored proposal is not the one that was accepted")
    assert accepted(**change).finding == finding


def test_what_was_accepted_is_judged_again() -> None:
    """By the rows of its state: refused by now, accepted by another one, or by a guard that has no answer."""
    assert accepted(asked=1).finding == Finding("blocked", "stale_proposal", "only once")
    other = "another row than the one that accepted it holds now"
    assert accepted(row=ROW + 1).finding == Finding("blocked", "stale_proposal", other)
    found = accepted(asked=2)
    (call,) = found.calls
    assert call.finding is not None and found.proposal.planned is not None and found.decision is None
    assert (call.tool, call.finding.kind, call.finding.error_class) == ("act", "blocked", "guard_error")
    assert "`first`" in call.finding.text and "`evidence.look" in call.finding.text


def test_looking_for_an_effect_asks_nothing_of_what_was_sent() -> None:
    """It has happened or has not: whether it would be accepted now, or is masked, says nothing about that."""
    args = {"thing": "[redacted]", "amount": 2_000}
    found = planned("act", args, purpose="reconcile")
    (call,) = found.calls
    assert (call.tool, call.args, call.action, found.finding) == ("act", args, None, None)


def test_a_tool_is_offered_until_it_was_called_as_often_as_it_may() -> None:
    """The last time too; after that it is refused with the number."""
    twice = swap(MACHINE, ("initial:", "at_most: {look: 2}\ninitial:"))
    assert checked(RawCall("c1", "look", BOX), machine=twice, calls={"look": 1}).finding is None
    (call,) = checked(RawCall("c1", "look", BOX), machine=twice, calls={"look": 2}).calls
    assert call.finding == Finding("refused", "refused", "it may be called 2 times in a task, and was")
