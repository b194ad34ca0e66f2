"""All that a guard, a reference or the policy may see of a task, as one value; nothing more, and nothing that is too old."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from unit.loop.making import act, standing

from statemachine_agent.definition.people import People
from statemachine_agent.loop.context import Context
from statemachine_agent.loop.view import answers, current, data_of, live_actor, reference_data, ruling_on_proposal
from statemachine_agent.policy.ruling import Allow, Deny, RequireApproval
from statemachine_agent.records import Approval, ApprovalStatus, Checkpoint, Effect, EffectStatus, Evidence, Usage
from support.playing import swap
from support.world import ACT, FIND, LOOK, MACHINE, PEOPLE

#: a number where a whole number stands, and results that count for ten minutes
TEXTS = (
    swap(LOOK, ("returns:\n", "returns:\n  left: {type: number, optional: true}\n")) + "fresh_for: 10m\n",
    ACT,
    FIND,
)
MACHINE_TEXT = swap(MACHINE, ("input:\n", "input:\n  share: {type: number, optional: true}\n"),
                    ("guards:\n", "output: {price: {type: number}}\nguards:\n  two: results.look.size() == 2\n"))  # fmt: skip
AT = "2026-10-28T11:17:43.000000Z"


def stand(**head: Any) -> tuple[Context, Checkpoint]:
    """A task in the middle of its way: two looks, one of them old by now, an effect that is asked about."""
    context, started = standing("ASKING", texts=TEXTS, machine=MACHINE_TEXT, **{
        "steps": 3, "usage": Usage(30, 20, Decimal("0.5"), 4, 1500), "visits": {"LOOKING": 2, "ASKING": 1},
        "proposal": {"tool": "act", "args": {"thing": "box", "amount": 200}, "raised": False}, **head,
    })  # fmt: skip
    now = context.environment.now()

    def result(number: int, tool: str, payload: Any, asked: Any, minutes: int = 0, *, old: bool = False) -> Evidence:
        at = now - timedelta(minutes=minutes)
        return Evidence(f"ev-{number}", tool, "step", "c", "r", 1, "things", at, "system", payload, "h", asked, old)

    action = act(context.machine, 200)
    asked = Approval(
        "apr-1", "ASKING", "act", "h", action.key, "p", ("boss",), "2026-10-28T12:17:43Z", ApprovalStatus.OPEN
    )
    return context, replace(
        started,
        task=replace(started.task, input={"thing": "box", "share": 2}),
        evidence=(
            result(1, "look", {"good": False}, {"thing": "hat"}, 10, old=True),
            result(2, "look", {"good": False, "left": 1}, {"thing": "bag"}, 11),
            result(3, "look", {"good": True, "left": 2}, {"thing": "box"}, 10),
            result(4, "find", {"items": []}, {"key": "k"}, 600),
        ),
        effects=(
            Effect("act:bag:1", "act", EffectStatus.EXECUTED, "h", {}),
            Effect(action.key, "act", EffectStatus.PROPOSED, "h", {}),
        ),
        approvals=(replace(asked, id="apr-0", state="BEFORE"), asked),
    )


LOOK_3 = {"asked": {"thing": "box"}, "result": {"good": True, "left": 2.0}, "at": "2026-10-28T11:07:43.000000Z"}
LOOK_2 = {"asked": {"thing": "bag"}, "result": {"good": False, "left": 1.0}, "at": "2026-10-28T11:06:43.000000Z"}
FIND_4 = {"asked": {"key": "k"}, "result": {"items": []}, "at": "2026-10-28T01:17:43.000000Z"}
PROPOSED = {"tool": "act", "args": {"thing": "box", "amount": 200}}


def expected(context: Context) -> dict[str, Any]:
    return {
        "input": {"thing": "box", "share": 2.0},
        "actor": {"id": "ann", "tenant": "default", "roles": [], "scopes": ["things:read", "things:write"]},
        "evidence": {"look": LOOK_3["result"], "find": FIND_4["result"]},
        "asked": {"look": LOOK_3["asked"], "find": FIND_4["asked"]},
        "results": {"look": [LOOK_3], "find": [FIND_4]},
        "effects": [
            {"tool": "act", "key": "act:bag:1", "status": "executed"},
            {"tool": "act", "key": "act:box:200", "status": "proposed"},
        ],
        "approval": {"id": "apr-1", "tool": "act", "status": "open", "expires_at": "2026-10-28T12:17:43Z"},
        "usage": {"steps": 3, "tokens": 50, "tool_calls": 4, "active_seconds": 1.5, "cost_usd": 0.5},
        "visits": {**dict.fromkeys(context.machine.definition.all_states, 0), "LOOKING": 2, "ASKING": 1},
        "now": context.environment.now(),
        "proposal": PROPOSED,
    }


def test_what_a_guard_may_see() -> None:
    """Numbers are numbers, what is old or no longer fresh is not there, and who vouches for a name is nobody's business."""
    context, here = stand()
    assert data_of(context, here) == expected(context)
    assert (str(data_of(context, here)["input"]["share"]), str(data_of(context, here)["evidence"]["look"]["left"])) == (
        "2.0",
        "2.0",
    )
    assert [e.name for e in current(context, here)] == ["ev-3", "ev-4"]


def test_what_a_row_of_a_call_may_see() -> None:
    """The call, and not what is pending; only where people are asked, or it gives up, that too."""
    context, here = stand()
    call = {"tool": "look", "args": {"thing": "x"}}
    without = {k: v for k, v in expected(context).items() if k != "proposal"}
    assert data_of(context, here, call) == {**without, "call": call}
    for tool in ("ask_user", "cannot_continue"):
        asked = {"tool": tool, "args": {"question": "?"}}
        assert data_of(context, here, asked) == {**without, "call": asked, "proposal": PROPOSED}
    nothing = replace(here, head=replace(here.head, proposal=None), approvals=())
    assert data_of(context, nothing) == {**without, "approval": {}}


def test_what_was_accepted_is_judged_on_what_it_was_accepted_on() -> None:
    """However old that is by now; but not on what an effect made old."""
    context, here = stand()
    found = data_of(context, here, again=True)
    assert found == {**expected(context), "results": {"look": [LOOK_2, LOOK_3], "find": [FIND_4]}}


def test_guards_are_asked_on_the_same() -> None:
    """On what counts now, or on what something was accepted on."""
    context, here = stand()
    assert [answers(context, here)("two"), answers(context, here, again=True)("two")] == [False, True]


def test_an_answer_with_numbers_is_read_as_numbers() -> None:
    """A row of `finish` compares a whole price with a half one."""
    context, here = stand()
    leaves = replace(here, head=replace(here.head, configuration=("LOOKING",)))
    found = data_of(context, leaves, {"tool": "finish", "args": {"answer": {"price": 9}}})
    assert repr(found["call"]) == "{'tool': 'finish', 'args': {'answer': {'price': 9.0}}}"


def test_a_result_is_made_ready_once() -> None:
    """Each step asks for all of them several times; another payload under its name is another result."""
    context, here = stand()
    first, second = (data_of(context, here)["results"]["look"][0] for _ in range(2))
    assert first is second
    other = replace(here.evidence[2], payload={"good": False})
    changed = replace(here, evidence=(*here.evidence[:2], other))
    assert data_of(context, changed)["results"]["look"][0]["result"] == {"good": False}


def test_what_a_state_may_refer_to() -> None:
    """The same, with the newest effect of each tool by its name, and the time as a text."""
    context, here = stand()
    effect = {"tool": "act", "key": "act:box:200", "status": "proposed"}
    assert reference_data(context, here) == {**expected(context), "effects": {"act": effect}, "now": AT}


@pytest.mark.parametrize(
    ("amount", "raised", "scopes", "kind", "given"),
    [
        (200, False, ["things:write"], RequireApproval, (True, False)),
        (10, False, ["things:write"], Allow, (False, True)),
        (10, True, ["things:write"], RequireApproval, (True, False)),
        (10, False, ["things:read"], Deny, (False, False)),
    ],
    ids=["a rule asks", "no rule asks", "the model asks", "no scope any more"],
)
def test_what_the_policy_says_of_what_is_pending(
    amount: int, raised: bool, scopes: list[str], kind: type, given: tuple[bool, bool]
) -> None:
    """With the scopes that somebody had at the start and still has; a guard reads yes or no."""
    proposal = {"tool": "act", "args": {"thing": "box", "amount": amount}, "raised": raised}
    context, here = stand(proposal=proposal)
    people = PEOPLE.model_dump(mode="json")
    people["people"]["ann"] = {"scopes": [*scopes, "more:things"]}
    context = replace(context, people=People.model_validate(people))
    assert isinstance(ruling_on_proposal(context, here), kind)
    asked = answers(context, here)
    assert (asked("approval_required"), asked("approval_not_required"), asked("effects_settled")) == (*given, True)
    assert live_actor(context, here) == {**here.task.actor, "scopes": scopes}
    nobody = replace(context, people=People.model_validate({"people": {"bob": {}}}))
    assert live_actor(nobody, here)["scopes"] == []


def test_where_nothing_is_pending_there_is_no_ruling() -> None:
    """Neither guard holds; and an effect of which nobody knows is not settled."""
    context, here = stand(proposal=None)
    here = replace(here, effects=(Effect("k", "act", EffectStatus.UNKNOWN, "h", {}),))
    asked = answers(context, here)
    assert ruling_on_proposal(context, here) is None
    assert (asked("approval_required"), asked("approval_not_required"), asked("effects_settled")) == (
        False,
        False,
        False,
    )


def test_what_is_pending_and_what_is_called_has_numbers_too() -> None:
    """A whole amount is compared with a half one, whichever way it came."""
    numbers = swap(ACT, ("{type: integer, minimum: 1, maximum: 1000}", "{type: number}"), (":{amount}", ""))
    proposal = {"tool": "act", "args": {"amount": 200}, "raised": False}
    context, here = standing("ASKING", texts=(LOOK, numbers, FIND), proposal=proposal)
    assert repr(data_of(context, here)["proposal"]["args"]) == "{'amount': 200.0}"
    assert repr(data_of(context, here, {"tool": "act", "args": {"amount": 2}})["call"]["args"]) == "{'amount': 2.0}"
