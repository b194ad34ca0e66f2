"""A machine made ready to run, and made ready again from the texts that a task pinned."""

from __future__ import annotations

import pytest
from invalid.texts import TOOLS
from unit.chart.charts import machine, refund

from statemachine_agent.chart.compile import compile_texts, texts_of
from statemachine_agent.definition.faults import FaultyDefinitionError
from support.playing import swap


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


def test_what_is_not_written_of_a_call_and_of_a_result() -> None:
    """A manifest masks for every machine that uses the tool; a machine masks more, for itself."""
    look = swap(
        TOOLS["look"],
        ("args: {", "redact: [args.id, note]\nargs: {"),
        ("returns: {", "returns: {note: {type: string}, "),
    )
    compiled = machine(
        "  A: {choose: {look: stay, make: [{unless: proposed, refuse: no}, {goto: B}], finish: SUCCEEDED}}\n"
        "  B: {call: make, with: proposal, then: {ok: A, failed: FAILED, blocked: FAILED, unknown: C}}\n"
        "  C: {reconcile: make, then: {found: A, absent: B, failed: FAILED}}\n",
        more="at_most: {make: 2}\nredact: [evidence.look.id]\n",
        look=look,
    )
    assert compiled.recorded("look", {"id": "4711"}) == {"id": "[redacted]"}
    assert compiled.recorded("make", {"id": "4711"}) is None
    assert compiled.recorded("guessed", {"id": "4711"}) is None
    assert [compiled.masks_arguments(tool) for tool in ("look", "find", "make", "guessed")] == [
        True,
        False,
        False,
        False,
    ]
    assert compiled.recorded("request_approval", {"tool": "look", "args": {"id": "4711"}, "reason": "r"}) == {
        "tool": "look",
        "args": {"id": "[redacted]"},
        "reason": "r",
    }
    heard = [compiled.may_be_heard(tool, "A") for tool in ("look", "find", "loo", "", "finish", "request_approval")]
    assert heard == [False, True, False, False, True, False]
    assert compiled.tools["look"].redact == ("args.id", "note", "result.id")
    assert compiled.tools["make"].redact == ()
    assert dict(compiled.masks.evidence) == {"look": ("id",)}


def test_tools_with_numbers_are_known_whichever_side_has_them() -> None:
    """Their values are compared as what they are: 2 and 2.0 are one number."""
    wide = TOOLS["find"].replace("made_id: {type: string}", "made_id: {type: string}, cost: {type: number}")
    given = TOOLS["find"].replace(
        "{key: {type: string}}", "{key: {type: string}, least: {type: number, optional: true}}"
    )
    states = "  A: {choose: {look: stay, find: stay, finish: SUCCEEDED}}\n"
    assert [machine(states, find=one).with_numbers for one in (wide, given, TOOLS["find"])] == [
        {"find"},
        {"find"},
        set(),
    ]
