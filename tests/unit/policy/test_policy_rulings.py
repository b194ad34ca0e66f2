"""Rulings and actions: who may, who must be asked, and what exactly it is that they say yes to."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

import pytest
from unit.policy.making import ACTION, ACTOR, manifest, refund

from statemachine_agent.definition.template import TemplateError
from statemachine_agent.errors import GuardError
from statemachine_agent.policy.action import Action, action_of, policy_version
from statemachine_agent.policy.ruling import Allow, Deny, RequireApproval, rule, united

ARGS = {"order_id": "8472", "payment_id": "pay_5a2", "amount_inr": 2000}
LEAD, FINANCE = "POL-REF-004 v4 section 3.2", "POL-REF-004 v4 section 3.3"


def ruled(amount: int, **more: Any) -> Any:
    return rule(refund().tools["issue_refund"], ACTOR, {**ARGS, "amount_inr": amount}, **more)


@pytest.mark.parametrize("amount", [1, 999, 1000])
def test_up_to_the_first_threshold_nobody_is_asked(amount: int) -> None:
    assert ruled(amount) == Allow()


@pytest.mark.parametrize("amount", [1001, 2000, 20000])
def test_above_it_a_lead_is_asked(amount: int) -> None:
    assert ruled(amount) == RequireApproval(("support_lead",), (LEAD,))


@pytest.mark.parametrize("amount", [20001, 50000])
def test_above_the_second_a_lead_and_finance_are_asked(amount: int) -> None:
    assert ruled(amount) == RequireApproval(("finance", "support_lead"), (LEAD, FINANCE))


@pytest.mark.parametrize("amount", [1, 2000, 20001])
@pytest.mark.parametrize("raised", [False, True])
def test_without_the_scope_nothing_helps(amount: int, raised: bool) -> None:
    tool = refund().tools["issue_refund"]
    for scopes in ([], ["refunds:read"], ["refunds:write "], ["refunds:write:all"], ["REFUNDS:WRITE"]):
        found = rule(tool, {**ACTOR, "scopes": scopes}, {**ARGS, "amount_inr": amount}, raised=raised)
        assert found == Deny("missing_scope", "`cust-3391` lacks the scope refunds:write, which `issue_refund` needs")


def test_every_scope_of_the_manifest_is_needed() -> None:
    tool = manifest(scopes=["bank:pay", "bank:sign"])
    assert isinstance(rule(tool, {**ACTOR, "scopes": ["bank:pay"]}, {"amount": 1}), Deny)
    assert rule(tool, {**ACTOR, "scopes": ["bank:sign", "bank:pay", "x:y"]}, {"amount": 1}) == Allow()


def test_a_model_that_asks_for_approval_gets_more_checks_and_never_fewer() -> None:
    assert ruled(1, raised=True) == RequireApproval((), ("the model asked for it",))
    assert ruled(2000, raised=True) == ruled(2000)
    assert ruled(20001, raised=True) == ruled(20001)


def test_a_read_is_ruled_by_its_scopes_alone() -> None:
    tool = refund().tools["lookup_order"]
    assert rule(tool, {**ACTOR, "scopes": ["orders:read"]}, {"order_id": "8472"}) == Allow()
    assert isinstance(rule(tool, ACTOR, {"order_id": "8472"}), Deny)


def test_a_rule_without_a_condition_always_asks() -> None:
    tool = manifest(approval=[{"by": "finance", "because": "always"}])
    assert rule(tool, {**ACTOR, "scopes": ["bank:pay"]}, {"amount": 1}) == RequireApproval(("finance",), ("always",))


@pytest.mark.parametrize(
    "when",
    ["args.note.size() > 3", 'args.note == "x"', "args.amount / 0 > 1", "args.missing > 1", "args.amount", '"true"'],
)
@pytest.mark.parametrize("raised", [False, True])
def test_a_rule_that_has_no_answer_is_an_error_and_never_a_permission(when: str, raised: bool) -> None:
    rules = [{"when": "args.amount > 5", "by": "finance", "because": "a"}, {"when": when, "by": "lead", "because": "b"}]
    for amount in (1, 10):  # also where an earlier rule has asked already
        with pytest.raises(GuardError, match=r"guard `pay.approval\[1\]`: .+"):
            rule(manifest(approval=rules), {**ACTOR, "scopes": ["bank:pay"]}, {"amount": amount}, raised=raised)


def test_roles_that_two_rules_name_count_once_and_those_of_one_list_as_often_as_they_stand_there() -> None:
    assert united([]) == ()
    assert united([["lead"], ["lead"]]) == ("lead",)
    assert united([["lead", "lead"]]) == ("lead", "lead")
    assert united([["lead"], ["lead", "lead"], ["finance"]]) == ("finance", "lead", "lead")
    assert united([["lead", "lead"], ["lead"]]) == united([["lead"], ["lead", "lead"]])
    assert united([["b", "a"], ["a", "b"]]) == ("a", "b")
    assert united(iter([("a",), ["b"]])) == ("a", "b")


def test_two_rules_of_a_manifest_are_united_and_their_reasons_told_once() -> None:
    rules = [
        {"when": "args.amount > 1", "by": ["lead", "lead"], "because": "four eyes"},
        {"when": "args.amount > 2", "by": ["finance", "lead"], "because": "four eyes"},
        {"when": "args.amount > 99", "by": ["board"], "because": "huge"},
    ]
    found = rule(manifest(approval=rules), {**ACTOR, "scopes": ["bank:pay"]}, {"amount": 3})
    assert found == RequireApproval(("finance", "lead", "lead"), ("four eyes",))


# ---------------------------------------------------------------- the action


@pytest.mark.parametrize(
    "changed",
    [
        {"tool": "issue_refunds"}, {"version": 2}, {"key": "refund:order-8472:pay_5a2:v2"}, {"policy_version": "q" * 64},
        {"args": {**ACTION.args, "amount_inr": 30001}}, {"args": {**ACTION.args, "amount_inr": "30000"}},
        {"args": {**ACTION.args, "order_id": "08472"}}, {"args": {**ACTION.args, "more": None}},
        {"args": {"order_id": "8472"}}, {"args": {"Order_id": "8472", "amount_inr": 30000}},
        {"args": {**ACTION.args, "order_id": "8472\u200b"}}, {"args": {**ACTION.args, "amount_inr": True}},
        {"tool": "issue_refund1", "version": 1}, {"args": {**ACTION.args, "amount_inr": 30000.000001}},
    ],
)  # fmt: skip
def test_any_change_of_an_action_is_another_action(changed: dict[str, Any]) -> None:
    assert replace(ACTION, **changed).hash != ACTION.hash


def test_what_is_the_same_action_has_the_same_hash_in_every_process() -> None:
    same: Any = {"amount_inr": 30000.0, "order_id": "8472"}  # another order, another way to write the number
    assert replace(ACTION, args=same).hash == ACTION.hash
    assert replace(ACTION, args={"amount_inr": 3e4, "order_id": "8472"}).hash == ACTION.hash
    text = (
        '{"args":{"amount_inr":30000,"order_id":"8472"},"key":"refund:order-8472:pay_5a2:v1",'
        f'"policy":"{"p" * 64}","tool":"issue_refund","version":1}}'
    )
    assert ACTION.hash == hashlib.sha256(text.encode()).hexdigest()


def test_numbers_beyond_what_a_float_can_tell_apart_are_told_apart() -> None:
    hashes = {replace(ACTION, args={"n": n}).hash for n in (2**53, 2**53 + 1, 2**53 + 2)}
    assert len(hashes) == 3


def test_the_key_is_made_of_the_arguments_and_no_two_actions_share_one_by_accident() -> None:
    machine, tool = refund(), refund().tools["issue_refund"]
    assert action_of(machine, tool, ARGS).key == "refund:order-8472:pay_5a2:v1"
    one = action_of(machine, tool, {**ARGS, "order_id": "1:pay", "payment_id": "x"})
    two = action_of(machine, tool, {**ARGS, "order_id": "1", "payment_id": "pay:x"})
    assert one.key != two.key
    with pytest.raises(TemplateError, match="the argument is missing"):
        action_of(machine, tool, {"order_id": "8472"})
    assert action_of(machine, refund().tools["lookup_order"], {"order_id": "8472"}).key == ""


def test_changing_the_rules_changes_every_action_under_them() -> None:
    machine, tool = refund(), refund().tools["issue_refund"]
    before = policy_version(machine, tool)
    assert action_of(machine, tool, ARGS).policy_version == before
    rules = tool.approval or ()
    variants = [
        tool.model_copy(update={"scopes": ()}),
        tool.model_copy(update={"approval": rules[:1]}),
        tool.model_copy(
            update={"approval": (*rules[:1], rules[1].model_copy(update={"when": "args.amount_inr > 30000"}))}
        ),
        tool.model_copy(update={"approval": (rules[0].model_copy(update={"by": ("auditor",)}), rules[1])}),
    ]
    assert len({before, *(policy_version(machine, v) for v in variants)}) == 5
    renamed = tool.model_copy(update={"summary": "Other words", "timeout": tool.timeout * 2})
    assert policy_version(machine, renamed) == before  # what does not rule does not change the rules
    assert Action("t", 1, {}, "k", before).hash != Action("t", 1, {}, "k", policy_version(machine, variants[0])).hash
