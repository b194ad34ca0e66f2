"""Approvals: asked for exactly one action, answered by different entitled people, good for a time, used once.

Functions from value to value; every refusal has its reason. What cannot be read counts as no. It must not know stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from statemachine_agent.definition.people import People
from statemachine_agent.errors import RefusedError
from statemachine_agent.policy.action import Action
from statemachine_agent.policy.identity import Identity
from statemachine_agent.records import Approval, ApprovalStatus
from statemachine_agent.text import one_line
from statemachine_agent.times import time_text


class NotEntitledError(RefusedError):
    """This person may not answer this request."""

    reason = "not_entitled"


def request(
    approval_id: str,
    state: str,
    action: Action,
    roles: tuple[str, ...],
    shown: Mapping[str, Any],
    now: datetime,
    lasts: timedelta,
) -> Approval:
    """A new request about `action`, open until `lasts` has passed."""
    return Approval(
        id=approval_id,
        state=state,
        tool=action.tool,
        action_hash=action.hash,
        effect_key=action.key,
        policy_version=action.policy_version,
        roles=roles,
        expires_at=time_text(now + lasts),
        status=ApprovalStatus.OPEN,
        shown=shown,
        requested_at=now,
    )


def has_expired(approval: Approval, now: datetime) -> bool:
    """True at and after its expiry, and where the expiry cannot be read or names no zone."""
    try:
        expires = datetime.fromisoformat(approval.expires_at)
        return expires.tzinfo is None or now >= expires
    except (ValueError, TypeError):
        return True


def check_answerable(approval: Approval, now: datetime) -> None:
    """RefusedError where the request takes no answer any more."""
    if approval.status is ApprovalStatus.EXPIRED or (
        approval.status is ApprovalStatus.OPEN and has_expired(approval, now)
    ):
        raise RefusedError(
            f"the request expired at {approval.expires_at}: too late",
            hint="resume the task; it goes its way",
            reason="too_late",
        )
    if approval.status is not ApprovalStatus.OPEN:
        raise RefusedError(
            f"the request was answered before: it is {approval.status}",
            hint="an answer is final",
            reason="already_answered",
        )


def check_entitled(approval: Approval, identity: Identity, people: People, starter: str) -> str:
    """The role that this person would fill; NotEntitledError where there is none."""
    check_may_answer(approval, identity, people, starter)
    earlier = [str(answer["by"]) for answer in approval.answers]
    needed = ", ".join(approval.roles)
    if _assignment(approval.roles, earlier, people) is None:
        raise NotEntitledError(
            "somebody who said yes before no longer may: another yes does not help",
            hint="reject the request, or let it expire",
            reason="approver_not_entitled",
        )
    roles = _assignment(approval.roles, [*earlier, identity.id], people)
    if roles is None:
        raise NotEntitledError(
            f"the role that `{one_line(identity.id, 60)}` could fill is filled",
            hint=f"needed: {needed}",
            reason="role_filled",
        )
    return roles[identity.id]


def check_may_answer(approval: Approval, identity: Identity, people: People, starter: str) -> None:
    """NotEntitledError unless this person has one of the roles, did not start the task, and has not answered yet."""
    person = people.people.get(identity.id)
    shown = one_line(identity.id, 60)
    if person is None:
        raise NotEntitledError(
            f"nobody is called `{shown}`", hint="approvers are listed in the people file", reason="unknown_person"
        )
    if identity.id == starter:
        raise NotEntitledError(
            f"`{shown}` started the task, and nobody approves for themselves",
            hint="ask somebody else",
            reason="own_task",
        )
    if any(answer["by"] == identity.id for answer in approval.answers):
        raise NotEntitledError(
            f"`{shown}` has said yes already; each role is filled by another person",
            hint="ask somebody else",
            reason="already_answered",
        )
    needed = ", ".join(approval.roles)
    if not set(person.roles) & set(approval.roles):
        raise NotEntitledError(
            f"`{shown}` has none of the roles {needed}", hint=f"ask somebody who is {needed}", reason="wrong_role"
        )


def approve(approval: Approval, identity: Identity, people: People, starter: str, now: datetime) -> Approval:
    """The request with this yes; `approved` when it was the last one that was needed."""
    check_answerable(approval, now)
    check_entitled(approval, identity, people, starter)
    by = [*(str(a["by"]) for a in approval.answers), identity.id]
    roles = _assignment(approval.roles, by, people) or {}
    answer = {"by": identity.id, "established": identity.established, "at": time_text(now)}
    answers = tuple({**a, "role": roles.get(str(a["by"]), "")} for a in (*approval.answers, answer))
    complete = len(answers) == len(approval.roles)
    return replace(approval, answers=answers, status=ApprovalStatus.APPROVED if complete else ApprovalStatus.OPEN)


def reject(approval: Approval, identity: Identity, people: People, starter: str, now: datetime) -> Approval:
    """The request with this no: one is enough, also of somebody whose role another one has filled."""
    check_answerable(approval, now)
    check_may_answer(approval, identity, people, starter)
    return replace(approval, status=ApprovalStatus.REJECTED)


def uncovered(
    approval: Approval | None, action: Action, people: People, starter: str, now: datetime, *, again: bool = False
) -> str | None:
    """Why `approval` does not cover `action` now, as a reason code; None where it does.

    It covers one effect once. `again`: that effect itself, of which it is not settled that it happened.
    """
    if approval is None:
        return "approval_required"
    if approval.action_hash != action.hash or approval.effect_key != action.key:
        return "action_changed"
    if approval.status is not ApprovalStatus.APPROVED and not (again and approval.status is ApprovalStatus.CONSUMED):
        return "approval_required"
    if has_expired(approval, now):
        return "approval_expired"
    by = [str(answer["by"]) for answer in approval.answers]
    everybody = bool(by) and len(by) == len(set(by)) == len(approval.roles)
    if not everybody or starter in by or _assignment(approval.roles, by, people) is None:
        return "approver_not_entitled"
    return None


def _assignment(roles: Sequence[str], by: Sequence[str], people: People) -> dict[str, str] | None:
    """A role for each person, each place filled by another; None where these people cannot all be placed."""
    places: dict[int, str] = {}

    def place(person: str, tried: set[int]) -> bool:
        held = people.people[person].roles if person in people.people else ()
        for index, role in enumerate(roles):
            if role in held and index not in tried:
                tried.add(index)
                if index not in places or place(places[index], tried):
                    places[index] = person
                    return True
        return False

    if not all(place(person, set()) for person in dict.fromkeys(by)):
        return None
    return {person: roles[index] for index, person in places.items()}
