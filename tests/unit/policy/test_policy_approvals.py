"""Approvals: every way to be refused, who can be placed in which role, and when a yes no longer counts."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.policy.making import ACTION, NOW, STARTER, TEAM, answered, asked, people, who

from statemachine_agent.errors import RefusedError
from statemachine_agent.policy import approvals
from statemachine_agent.policy.approvals import approve, has_expired, reject, uncovered
from statemachine_agent.records import ApprovalStatus

SOON = timedelta(microseconds=1)
APPROVED = ApprovalStatus.APPROVED


def refusal(approval: Any, name: str, *, now: datetime = NOW, answer: Any = approve, team: Any = TEAM) -> str:
    """The reason for which this answer is refused, by the same rule for yes and no."""
    with pytest.raises(RefusedError) as caught:
        answer(approval, who(name), team, STARTER, now)
    assert caught.value.hint and caught.value.exit_code == 1
    return caught.value.reason


def test_one_yes_of_the_right_person_approves() -> None:
    found = answered(asked("support_lead"), "lead")
    assert found.status is APPROVED
    assert found.answers == (
        {"by": "lead", "role": "support_lead", "established": "os", "at": "2026-10-28T11:17:43.000000Z"},
    )
    assert uncovered(found, ACTION, TEAM, STARTER, NOW) is None


def test_two_roles_need_two_people_and_until_then_it_is_open() -> None:
    half = answered(asked("finance", "support_lead"), "lead")
    assert half.status is ApprovalStatus.OPEN
    assert uncovered(half, ACTION, TEAM, STARTER, NOW) == "approval_required"
    assert answered(half, "money").status is APPROVED


@pytest.mark.parametrize("answer", [approve, reject])
def test_every_refusal_says_why(answer: Any) -> None:
    lead, two = asked("support_lead"), asked("finance", "support_lead")
    assert refusal(lead, "nobody", answer=answer) == "unknown_person"
    assert refusal(lead, "", answer=answer) == "unknown_person"
    assert refusal(lead, "Lead", answer=answer) == "unknown_person"
    assert refusal(lead, "lead ", answer=answer) == "unknown_person"
    assert refusal(lead, "guest", answer=answer) == "wrong_role"
    assert refusal(lead, "money", answer=answer) == "wrong_role"
    assert refusal(asked(), "lead", answer=answer) == "wrong_role"
    assert refusal(answered(two, "lead"), "lead", answer=answer) == "already_answered"
    team = people(**{STARTER: ["support_lead"], "lead": ["support_lead"]})
    assert refusal(lead, STARTER, answer=answer, team=team) == "own_task"
    assert refusal(lead, "lead", now=NOW + timedelta(hours=2), answer=answer) == "too_late"
    for status in (APPROVED, ApprovalStatus.REJECTED, ApprovalStatus.CONSUMED, ApprovalStatus.VOID):
        assert refusal(replace(lead, status=status), "lead", answer=answer) == "already_answered"
    assert refusal(replace(lead, status=ApprovalStatus.EXPIRED), "lead", answer=answer) == "too_late"


def test_a_role_is_filled_once_and_another_person_cannot_fill_it_again() -> None:
    half = answered(asked("finance", "support_lead"), "lead")
    assert refusal(half, "second") == "role_filled"
    assert answered(half, "both").status is APPROVED  # finance is free, and they have that too


def test_a_no_counts_also_of_somebody_whose_role_is_filled() -> None:
    half = answered(asked("finance", "support_lead"), "lead")
    assert reject(half, who("second"), TEAM, STARTER, NOW).status is ApprovalStatus.REJECTED


def test_one_no_ends_it_whatever_was_said_before() -> None:
    half = answered(asked("finance", "support_lead"), "lead")
    found = reject(half, who("money"), TEAM, STARTER, NOW)
    assert found.status is ApprovalStatus.REJECTED
    assert uncovered(found, ACTION, TEAM, STARTER, NOW, again=True) == "approval_required"
    assert refusal(found, "second") == "already_answered"


def test_who_lost_the_role_after_a_yes_no_longer_covers_and_is_told_apart() -> None:
    found = answered(asked("finance", "support_lead"), "lead", "money")
    demoted = people(lead=["auditor"], money=["finance"], second=["support_lead"])
    gone = people(money=["finance"], second=["support_lead"])
    for team in (demoted, gone):
        assert uncovered(found, ACTION, team, STARTER, NOW) == "approver_not_entitled"
        half = answered(asked("finance", "support_lead"), "lead")
        assert refusal(half, "money", team=team) == "approver_not_entitled"
        assert reject(half, who("money"), team, STARTER, NOW).status is ApprovalStatus.REJECTED


def test_who_changed_to_another_fitting_role_still_covers() -> None:
    found = answered(asked("finance", "support_lead"), "lead", "money")
    swapped = people(lead=["finance"], money=["support_lead"])
    assert uncovered(found, ACTION, swapped, STARTER, NOW) is None


# ---------------------------------------------------------------- time


def test_an_approval_ends_at_its_instant_and_not_before() -> None:
    request = asked("support_lead")
    end = NOW + timedelta(hours=2)
    assert not has_expired(request, end - SOON)
    assert has_expired(request, end) and has_expired(request, end + SOON)
    found = answered(request, "lead")
    assert uncovered(found, ACTION, TEAM, STARTER, end - SOON) is None
    assert uncovered(found, ACTION, TEAM, STARTER, end) == "approval_expired"
    assert approve(request, who("lead"), TEAM, STARTER, end - SOON).status is APPROVED
    elsewhere = end.astimezone(timezone(timedelta(hours=-11)))  # the same instant on another clock
    assert has_expired(request, elsewhere) and not has_expired(request, elsewhere - SOON)


@pytest.mark.parametrize("amount_is_small", [True, False])
@pytest.mark.parametrize(
    "expiry",
    ["", "tomorrow", "2099-01-01", "2099-01-01T00:00:00", "2099-13-01T00:00:00Z", "∞", "0", "2099-01-01T00:00:00Zulu",
     "9" * 5000, None],
)  # fmt: skip
def test_an_expiry_that_is_no_instant_has_passed(expiry: Any, amount_is_small: bool) -> None:
    action = replace(ACTION, args={"amount_inr": 1}) if amount_is_small else ACTION
    request = replace(asked("support_lead", action=action), expires_at=expiry)
    assert has_expired(request, NOW)
    assert refusal(request, "lead") == "too_late"
    found = replace(answered(asked("support_lead", action=action), "lead"), expires_at=expiry)
    assert uncovered(found, action, TEAM, STARTER, NOW) == "approval_expired"


def test_an_expiry_in_another_zone_is_read_as_the_instant_it_names() -> None:
    request = replace(asked("support_lead"), expires_at="2026-10-28T18:47:43+05:30")
    assert not has_expired(request, datetime(2026, 10, 28, 13, 17, 42, tzinfo=UTC))
    assert has_expired(request, datetime(2026, 10, 28, 13, 17, 43, tzinfo=UTC))


# ---------------------------------------------------------------- what it covers


def test_it_covers_exactly_the_action_that_was_shown() -> None:
    found = answered(asked("support_lead"), "lead")
    assert uncovered(None, ACTION, TEAM, STARTER, NOW) == "approval_required"
    for changed in (
        {"args": {**ACTION.args, "amount_inr": 30001}}, {"version": 2}, {"tool": "t"}, {"key": "k"}, {"policy_version": "q"},
    ):  # fmt: skip
        assert uncovered(found, replace(ACTION, **changed), TEAM, STARTER, NOW) == "action_changed"
    assert uncovered(replace(found, effect_key="other"), ACTION, TEAM, STARTER, NOW) == "action_changed"


def test_a_consumed_approval_covers_its_own_effect_again_and_nothing_else() -> None:
    """Again: the effect for which it was used is confirmed not to have happened."""
    consumed = replace(answered(asked("support_lead"), "lead"), status=ApprovalStatus.CONSUMED)
    assert uncovered(consumed, ACTION, TEAM, STARTER, NOW) == "approval_required"
    assert uncovered(consumed, ACTION, TEAM, STARTER, NOW, again=True) is None
    assert uncovered(consumed, ACTION, TEAM, STARTER, NOW + timedelta(hours=2), again=True) == "approval_expired"


@pytest.mark.parametrize("status", [s for s in ApprovalStatus if s not in (APPROVED, ApprovalStatus.CONSUMED)])
def test_no_other_status_covers_anything(status: ApprovalStatus) -> None:
    found = replace(answered(asked("support_lead"), "lead"), status=status)
    assert uncovered(found, ACTION, TEAM, STARTER, NOW) == "approval_required"


def test_what_nobody_could_have_answered_covers_nothing() -> None:
    """Whatever stands in the store: the people behind a yes are looked at again."""
    good = answered(asked("finance", "support_lead"), "lead", "money")
    forged = [
        replace(good, roles=()),
        replace(good, answers=()),
        replace(good, roles=(), answers=()),
        replace(good, answers=good.answers[:1]),
        replace(good, answers=(good.answers[0], good.answers[0])),
        replace(good, answers=(*good.answers, good.answers[0])),
        replace(good, answers=(*good.answers, {"by": "second"})),
        replace(good, answers=(good.answers[0], {"by": "guest"})),
        replace(good, answers=(good.answers[0], {"by": "nobody"})),
        replace(good, roles=("finance",)),
        replace(good, roles=("finance", "board")),
    ]
    for approval in forged:
        assert uncovered(approval, ACTION, TEAM, STARTER, NOW) == "approver_not_entitled", approval
    own = people(lead=["support_lead"], money=["finance"])
    assert uncovered(good, ACTION, own, "money", NOW) == "approver_not_entitled"  # the starter among them


# ---------------------------------------------------------------- matching, against every possibility

ROLES = ("a", "b", "c")
NAMES = ("p", "q", "r", "s")
teams = st.fixed_dictionaries({name: st.sets(st.sampled_from(ROLES)) for name in NAMES})
needs = st.lists(st.sampled_from(ROLES), min_size=1, max_size=4)
orders = st.permutations(NAMES)


def can_all_be_placed(names: list[str], needed: list[str], held: dict[str, set[str]]) -> bool:
    """By trying every way: a place of its own for each of `names`."""
    return any(
        all(needed[place] in held[name] for name, place in zip(names, places, strict=True))
        for places in itertools.permutations(range(len(needed)), len(names))
    )


@settings(max_examples=300, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(held=teams, needed=needs, order=orders)
def test_whoever_can_be_placed_may_answer_in_whatever_order(
    held: dict[str, set[str]], needed: list[str], order: list[str]
) -> None:
    team, request, said = people(**{n: sorted(r) for n, r in held.items()}), asked(*needed), []
    for name in order:
        if len(said) == len(needed):
            assert refusal(request, name, team=team) == "already_answered"
            continue
        if not can_all_be_placed([*said, name], needed, held):
            wanted = "role_filled" if held[name] & set(needed) else "wrong_role"
            assert refusal(request, name, team=team) == wanted
            continue
        request = approve(request, who(name), team, STARTER, NOW)
        said.append(name)
        roles = [a["role"] for a in request.answers]
        assert [a["by"] for a in request.answers] == said
        assert all(role in held[name] for role, name in zip(roles, said, strict=True))
        assert not any(roles.count(r) > needed.count(r) for r in roles)  # no place twice
        complete = len(said) == len(needed)
        assert (request.status is APPROVED) is complete
        assert (uncovered(request, ACTION, team, STARTER, NOW) is None) is complete


@settings(max_examples=300, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(held=teams, needed=needs, by=st.lists(st.sampled_from(NAMES), max_size=4))
def test_a_stored_yes_covers_only_where_its_people_can_be_placed(
    held: dict[str, set[str]], needed: list[str], by: list[str]
) -> None:
    team = people(**{n: sorted(r) for n, r in held.items()})
    stored = replace(asked(*needed), status=APPROVED, answers=tuple({"by": name} for name in by))
    good = len(by) == len(set(by)) == len(needed) and can_all_be_placed(by, needed, held)
    assert (uncovered(stored, ACTION, team, STARTER, NOW) is None) is good


def test_more_people_than_a_person_could_try_are_matched_at_once() -> None:
    """Each of forty has two roles of forty; only one way of placing them works."""
    team = people(**{f"p{n}": [f"r{n}", f"r{n + 1}"] for n in range(39)}, last=["r0"])
    request = asked(*(f"r{n}" for n in range(40)))
    for name in [*(f"p{n}" for n in range(39)), "last"]:
        request = approve(request, who(name), team, STARTER, NOW)
    assert request.status is APPROVED
    assert {a["by"]: a["role"] for a in request.answers} == {"last": "r0", **{f"p{n}": f"r{n + 1}" for n in range(39)}}


def test_a_request_says_until_when_and_to_what_it_binds() -> None:
    found = approvals.request("apr-9", "S", ACTION, ("finance",), {"x": 1}, NOW, timedelta(minutes=90))
    assert (found.action_hash, found.effect_key, found.policy_version) == (ACTION.hash, ACTION.key, "p" * 64)
    assert found.expires_at == "2026-10-28T12:47:43.000000Z"
    assert (found.status, found.answers, found.requested_at) == (ApprovalStatus.OPEN, (), NOW)
