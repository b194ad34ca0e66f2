"""People, actions and requests for tests of policy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from statemachine_agent.chart.compile import CompiledMachine, checked_catalogue, compile_machine
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.people import People
from statemachine_agent.policy import approvals
from statemachine_agent.policy.action import Action
from statemachine_agent.policy.identity import Identity
from statemachine_agent.records import Approval
from support.refund import catalogue

NOW = datetime(2026, 10, 28, 11, 17, 43, tzinfo=UTC)
STARTER = "cust-3391"
ACTION = Action("issue_refund", 1, {"order_id": "8472", "amount_inr": 30000}, "refund:order-8472:pay_5a2:v1", "p" * 64)
ACTOR: Mapping[str, Any] = {"id": STARTER, "tenant": "shop", "roles": ["customer"], "scopes": ["refunds:write"]}


@cache
def refund() -> CompiledMachine:
    return compile_machine(checked_catalogue(catalogue()), "refund")


def manifest(**changes: Any) -> ToolManifest:
    """A write with these values, written as in a file."""
    given = {
        "tool": "pay", "version": 1, "summary": "Pays.", "effect": "write", "source": "bank", "scopes": ["bank:pay"],
        "binding": {"python": "bank.tools:pay"},
        "args": {"amount": {"type": "integer"}, "note": {"type": "string", "optional": True}},
        "returns": {}, "idempotency": {"key": "pay:{amount}", "replay": True}, "approval": [],
    }  # fmt: skip
    return ToolManifest.model_validate({**given, **changes})


def people(**roles: Sequence[str]) -> People:
    """People by name, each with these roles."""
    return People.model_validate({"people": {name: {"roles": list(held)} for name, held in roles.items()}})


TEAM = people(
    lead=["support_lead"],
    second=["support_lead"],
    money=["finance"],
    both=["support_lead", "finance"],
    guest=["auditor"],
)


def asked(*roles: str, action: Action = ACTION, lasts: timedelta = timedelta(hours=2)) -> Approval:
    return approvals.request("apr-1", "AWAITING_APPROVAL", action, roles, {"args": action.args}, NOW, lasts)


def who(name: str) -> Identity:
    return Identity(name, "os")


def answered(approval: Approval, *names: str, team: People = TEAM) -> Approval:
    """The request after these people said yes."""
    for name in names:
        approval = approvals.approve(approval, who(name), team, STARTER, NOW)
    return approval
