"""A reply is recorded as it came, in a form that can always be written."""

from __future__ import annotations

import json

from statemachine_agent.canonical import canonical
from statemachine_agent.models.decision import InvalidDecision, RawCall, RawReply, decision_of

LOOKUP = RawCall("c1", "lookup_order", {"order_id": "8472"})


def test_a_reply_is_recorded_as_it_came_even_where_it_cannot_be_written() -> None:
    reply = RawReply(
        (RawCall("c\ud800", "t\x00", '{"a": "\ud800'), RawCall(None, 5, {"a": float("nan")})),  # type: ignore[arg-type]
        text="a\udc80b",
        stop_reason=["odd"],  # type: ignore[arg-type]
    )
    found = json.loads(canonical(reply.as_json()))
    assert found == {
        "text": "a\\udc80b",
        "calls": [
            {"id": "c\\ud800", "name": "t\x00", "arguments": '{"a": "\\ud800'},
            {"id": "", "name": "5", "arguments": "{'a': nan}"},
        ],
        "stop_reason": "['odd']",
    }


def test_what_can_be_written_is_recorded_unchanged() -> None:
    reply = RawReply((LOOKUP, RawCall("c2", "t", '{"broken": ')), "text \U0001f4b8", "stop")
    assert json.loads(canonical(reply.as_json())) == {
        "text": "text \U0001f4b8",
        "calls": [
            {"id": "c1", "name": "lookup_order", "arguments": {"order_id": "8472"}},
            {"id": "c2", "name": "t", "arguments": '{"broken": '},
        ],
        "stop_reason": "stop",
    }


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def test_an_object_that_cannot_say_what_it_is_is_still_recorded() -> None:
    reply = RawReply((RawCall("c", "t", {"a": Unspeakable()}),))
    assert isinstance(decision_of(reply), InvalidDecision)
    assert "cannot be shown" in canonical(reply.as_json()).decode()
