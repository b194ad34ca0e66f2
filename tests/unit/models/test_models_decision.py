"""What a model replies is one decision of a closed union, or says what is wrong with it; it is never an exception."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statemachine_agent.canonical import canonical
from statemachine_agent.models import decision
from statemachine_agent.models.decision import (
    AskUser,
    CannotContinue,
    Finish,
    InvalidDecision,
    RawCall,
    RawReply,
    RequestApproval,
    ToolCall,
    ToolCalls,
    decision_of,
)

LOOKUP = RawCall("c1", "lookup_order", {"order_id": "8472"})


def one(name: Any, arguments: Any = "{}", call_id: Any = "c1", **more: Any) -> Any:
    reply = RawReply((RawCall(call_id, name, arguments),), **more)
    canonical(reply.as_json())  # it can always be written
    return decision_of(reply)


def error(found: Any) -> str:
    assert isinstance(found, InvalidDecision), found
    assert found.message and len(found.message) < 500 and "\n" not in found.message
    assert found.message.isprintable()
    return found.error_class


# ---------------------------------------------------------------- what is good


def test_calls_become_proposals_with_their_arguments_as_they_were_meant() -> None:
    found = decision_of(RawReply((LOOKUP, RawCall("c2", "search_policy", '{"query": "refund", "n": 2.0}'))))
    assert found == ToolCalls(
        (
            ToolCall("c1", "lookup_order", {"order_id": "8472"}),
            ToolCall("c2", "search_policy", {"query": "refund", "n": 2}),
        )
    )
    assert one("get_status", "") == ToolCalls((ToolCall("c1", "get_status", {}),))  # some providers send nothing for {}


def test_control_choices_are_members_of_their_own() -> None:
    assert one("finish", {"answer": "done"}) == Finish("done")
    assert one("ask_user", '{"question": "which order?"}') == AskUser("which order?")
    assert one("cannot_continue", {"reason": "nothing to do"}) == CannotContinue("nothing to do")
    wanted = {"tool": "issue_refund", "args": {"amount_inr": 5}, "reason": "unusual"}
    assert one("request_approval", wanted) == RequestApproval(
        ToolCall("c1", "issue_refund", {"amount_inr": 5}), "unusual"
    )


def test_a_text_beside_a_call_decides_nothing() -> None:
    found = decision_of(RawReply((LOOKUP,), text="I hereby approve the refund and call finish()"))
    assert found == ToolCalls((ToolCall("c1", "lookup_order", {"order_id": "8472"}),))


@pytest.mark.parametrize(
    "name", ["Finish", "FINISH", "finish ", " finish", "finish\n", "finish()", "fınish", "finish\u200b"]
)
def test_a_name_that_only_looks_like_a_control_choice_is_a_tool_that_nobody_knows(name: str) -> None:
    """Whether a tool is allowed is asked elsewhere; here it must only not be taken for another."""
    assert one(name, {"answer": "done"}) == ToolCalls((ToolCall("c1", name, {"answer": "done"}),))


@pytest.mark.parametrize(
    "name", ["refund_order_now", "lookup_order ", "Lookup_Order", "../etc/passwd", "a\x00b", "' OR 1=1"]
)
def test_an_unknown_tool_keeps_its_name_for_whoever_knows_the_list(name: str) -> None:
    assert one(name) == ToolCalls((ToolCall("c1", name, {}),))


# ---------------------------------------------------------------- what is not


@pytest.mark.parametrize(
    "arguments",
    [
        '{"order_id": "8472"', '{"order_id": 84', "{", "}", "{'a': 1}", "{a: 1}", '{"a": 1,}', '{"a": 1} {"b": 2}',
        'Sure! {"a": 1}', '```json\n{"a": 1}\n```', '{"a": NaN}', '{"a": Infinity}', '{"a": -Infinity}', '{"a": 1e999}',
        '{"a": 1, "a": 2}', '{"x": {"a": 1, "a": 1}}', '{"a": "\\ud800"}', '{"a": "\n"}', "\x00", "null", "[]", "5",
        '"text"', "true", '[{"order_id": "8472"}]', '{"a": ' + "9" * 5000 + "}", '{"a":' * 10_000, "[" * 100_000,
        '{"a":' * 100 + "1" + "}" * 100,
    ],
)  # fmt: skip
def test_arguments_that_are_no_json_object_are_refused(arguments: str) -> None:
    assert error(one("lookup_order", arguments)) == "malformed_arguments"


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": [value]}
    return value


@pytest.mark.parametrize(
    "arguments",
    [
        deep(100), deep(10_000), {"a": float("nan")}, {"a": float("inf")}, {"a": "\ud800"}, {"\ud800": 1}, {1: 2}, {None: 1},
        {"a": b"x"}, {"a": object()}, {"a": {1, 2}}, [], ["a"], 5, None, True, 1.5, b"{}", object(), {"a": 1j},
    ],
)  # fmt: skip
def test_arguments_that_a_provider_parsed_are_looked_at_all_the_same(arguments: Any) -> None:
    assert error(one("lookup_order", arguments)) == "malformed_arguments"


def test_a_mapping_that_holds_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = [loop]
    assert error(one("lookup_order", loop)) == "malformed_arguments"


@pytest.mark.parametrize(
    "arguments", ['{"a": "' + "x" * 1_000_000 + '"}', {"a": "x" * 1_000_000}, {"a": list(range(50_000))}]
)
def test_arguments_without_end_are_refused_and_cut_in_the_record(arguments: Any) -> None:
    assert error(one("lookup_order", arguments)) == "too_large"
    recorded = canonical(RawReply((RawCall("c", "t", arguments),), text="y" * 10**6).as_json())
    assert len(recorded) < 4 * decision.MAX_ARGUMENTS


@pytest.mark.parametrize("call_id", ["", None, 5, "x" * 201, "\ud800", [], {}])
def test_a_call_without_a_usable_id_is_refused(call_id: Any) -> None:
    assert error(one("lookup_order", "{}", call_id)) == "malformed_call"


@pytest.mark.parametrize("name", ["", None, 5, "x" * 201, "\udfff", [], {"name": "finish"}])
def test_a_call_without_a_usable_name_is_refused(name: Any) -> None:
    assert error(one(name)) == "malformed_call"


def test_two_calls_of_one_id_are_refused() -> None:
    assert error(decision_of(RawReply((LOOKUP, LOOKUP)))) == "duplicate_call_id"


def test_one_bad_call_makes_all_of_them_bad() -> None:
    for bad in (RawCall("c2", "t", "{"), RawCall("", "t", {}), RawCall("c2", "", {})):
        assert isinstance(decision_of(RawReply((LOOKUP, bad))), InvalidDecision)
        assert isinstance(decision_of(RawReply((bad, LOOKUP))), InvalidDecision)


def test_a_control_choice_stands_alone() -> None:
    finish = RawCall("c2", "finish", {"answer": "done"})
    for calls in ((LOOKUP, finish), (finish, LOOKUP), (finish, RawCall("c3", "finish", {"answer": "again"}))):
        assert error(decision_of(RawReply(calls))) == "mixed"


def test_more_calls_than_anybody_allows_are_refused_and_cut_in_the_record() -> None:
    reply = RawReply(tuple(RawCall(f"c{n}", "lookup_order", {"n": "x" * 50_000}) for n in range(500)))
    assert error(decision_of(reply)) == "too_many_calls"
    assert len(canonical(reply.as_json())) < 2_000_000


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\u200a"])
def test_nothing_is_no_decision(text: str) -> None:
    assert error(decision_of(RawReply(text=text))) == "empty"
    assert error(decision_of(RawReply(text=text, stop_reason="stop"))) == "empty"


@pytest.mark.parametrize(
    "text", ["The refund is approved.", "finish", '{"call": "finish", "answer": "done"}', "\x00", "\ud800"]
)
def test_a_text_is_no_decision(text: str) -> None:
    assert error(decision_of(RawReply(text=text))) == "text_without_call"
    assert error(decision_of(RawReply(text=text, stop_reason="length"))) == "text_without_call"


@pytest.mark.parametrize("stop", ["length", "max_tokens", "content_filter", "error"])
def test_a_reply_that_was_cut_off_is_never_run_however_whole_it_looks(stop: str) -> None:
    assert error(decision_of(RawReply((LOOKUP,), stop_reason=stop))) == "truncated"
    assert error(one("issue_refund", '{"amount_inr": 20', stop_reason=stop)) == "truncated"
    assert error(one("issue_refund", '{"amount_inr": 20')) == "malformed_arguments"  # cut off, and nobody said so


@pytest.mark.parametrize("control", ["finish", "ask_user", "cannot_continue"])
def test_a_control_choice_has_its_one_text_and_nothing_else(control: str) -> None:
    field = {"finish": "answer", "ask_user": "question", "cannot_continue": "reason"}[control]
    good = "x" * decision.MAX_TEXT
    assert not isinstance(one(control, {field: good}), InvalidDecision)
    for arguments in (
        {}, {field: ""}, {field: "  \n"}, {field: None}, {field: 5}, {field: ["x"]}, {field: good + "x"},
        {field: "x", "more": 1}, {field.upper(): "x"}, {"text": "x"},
    ):  # fmt: skip
        assert error(one(control, arguments)) == "malformed_arguments"
    formed = one(control, {field: {"x": "y"}})  # only an answer can have a form, and the machine says which
    assert formed == Finish({"x": "y"}) if control == "finish" else error(formed) == "malformed_arguments"


def test_a_request_for_approval_names_tool_arguments_and_reason() -> None:
    good = {"tool": "t", "args": {}, "reason": "r"}
    for wrong in (
        {}, {"tool": "t"}, {**good, "more": 1}, {**good, "tool": 5}, {**good, "args": "{}"}, {**good, "args": []},
        {**good, "reason": ""}, {**good, "reason": " "}, {**good, "reason": None}, {**good, "reason": "x" * 9000},
    ):  # fmt: skip
        assert error(one("request_approval", wrong)) == "malformed_arguments"


def test_an_integer_that_no_float_can_hold_keeps_every_digit() -> None:
    for number in (2**53 + 1, 2**63, 10**40, -(2**53) - 1):
        found = one("t", json.dumps({"n": number}))
        assert isinstance(found, ToolCalls) and found.calls[0].args["n"] == number


# ---------------------------------------------------------------- anything at all

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.characters(categories=["Cs"])
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=5) | st.integers() | st.none(), inner, max_size=4)
    ),
    max_leaves=10,
)
names = st.sampled_from(["finish", "ask_user", "cannot_continue", "request_approval", "lookup_order", "Finish"])
arguments_ = (
    anything
    | anything.map(lambda v: json.dumps(v, default=repr, skipkeys=True))
    | st.fixed_dictionaries({}, optional=dict.fromkeys(("answer", "question", "reason", "tool", "args"), anything))
)
raw_calls = st.builds(RawCall, id=anything | st.text(max_size=3), name=names | anything, arguments=arguments_)
KNOWN = {
    "truncated", "text_without_call", "empty", "duplicate_call_id", "mixed", "malformed_call", "malformed_arguments",
    "too_large", "too_many_calls",
}  # fmt: skip


@settings(max_examples=250, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    calls=st.lists(raw_calls, max_size=4),
    text=anything,
    stop=st.sampled_from([None, "stop", "length", "tool_calls"]) | anything,
)
def test_any_garbage_is_a_decision_or_says_what_is_wrong(calls: list[RawCall], text: Any, stop: Any) -> None:
    reply = RawReply(tuple(calls), text, stop)
    found = decision_of(reply)
    canonical(reply.as_json())
    if isinstance(found, InvalidDecision):
        assert found.error_class in KNOWN
        assert found.message.isprintable()
    else:
        made = (
            found.calls if isinstance(found, ToolCalls) else [found.call] if isinstance(found, RequestApproval) else []
        )
        for call in made:
            canonical({"id": call.id, "tool": call.tool, "args": call.args})
        assert calls
