"""A machine made ready to run, and made ready again from the texts that a task pinned."""

from __future__ import annotations

import pytest
from unit.chart.charts import machine, refund

from statemachine_agent.chart.compile import compile_texts, texts_of
from statemachine_agent.definition.faults import FaultyDefinitionError


def test_the_pinned_texts_give_the_same_machine_again() -> None:
    compiled = compile_texts(texts_of(refund()))
    assert compiled.hash == refund().hash
    assert compiled.chart.transitions == refund().chart.transitions
    assert set(compiled.tools) == set(refund().tools)
    assert compile_texts(texts_of(refund())) is compiled


def test_texts_that_were_altered_give_another_hash() -> None:
    texts = texts_of(refund())
    texts["tools"]["issue_refund"]["text"] += "# altered\n"
    assert compile_texts(texts).hash != refund().hash


def test_texts_that_do_not_load_any_more_are_refused() -> None:
    texts = texts_of(refund())
    texts["machine"]["text"] = texts["machine"]["text"].replace("refund_read:", "refund_red:")
    with pytest.raises(FaultyDefinitionError, match="there is no guard `refund_read`"):
        compile_texts(texts)
    texts["machine"]["text"] = "machine: refund\n"
    with pytest.raises(FaultyDefinitionError, match="lacks the key `states`"):
        compile_texts(texts)


def test_the_tools_are_all_that_can_be_called() -> None:
    assert set(refund().tools) == {
        "lookup_order", "get_refund_status", "search_policy", "issue_refund", "notify_customer", "get_refund",
        "find_refund_by_key", "find_refund_for_payment", "find_message_by_key",
    }  # fmt: skip


def test_guards_that_read_the_proposal_are_known() -> None:
    assert refund().call_guards == {"later_capture", "cites_refund"}
    assert machine("  A: {route: SUCCEEDED}\n").call_guards == {"proposed", "mixed"}


def test_the_tightest_limit_of_calls_holds() -> None:
    assert refund().at_most("issue_refund") == 2
    assert refund().at_most("lookup_order") is None
    states = "  A: {choose: {look: stay, finish: SUCCEEDED}}\n"
    assert machine(states, more="at_most: {look: 1}\n").at_most("look") == 1


def test_what_a_state_is_for() -> None:
    compiled = refund()
    assert compiled.choosing(("INVESTIGATING",)) == ["INVESTIGATING"]
    assert compiled.choosing(("EXECUTING",)) == []
    assert [s.approval.of for s in compiled.approvals_of("issue_refund")] == ["issue_refund"]
    assert compiled.approvals_of("notify_customer") == []
