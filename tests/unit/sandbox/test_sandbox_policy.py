"""The policy search: the right passage first, and no text that can hurt it."""

from __future__ import annotations

from typing import Any

import pytest

DUPLICATES = {
    "doc": "POL-REF-004",
    "version": "v4",
    "section": "3.2",
    "text": "A duplicate capture on one order is refundable in full for the later payment."
    " Refunds above INR 1,000 require approval by a support lead.",
}


def search(urls: dict[str, str], call: Any, query: str) -> list[dict[str, str]]:
    reply = call("POST", f"{urls['POLICY_URL']}/policy/search", {"query": query})
    assert reply.status == 200
    passages: list[dict[str, str]] = reply.json()["passages"]
    assert len(passages) <= 5
    return passages


@pytest.mark.parametrize(
    "query",
    [
        "duplicate card capture refund approval threshold",
        "duplicate refund",
        "refund",
        "refund approval",
        "refund approval threshold",
        "refund amount limit",
        "double charge",
        "customer charged twice, wants refund",
        "order 8472 was charged twice",
        "What does the policy say about refunding an order that was captured two times?",
        "duplicate payment INR 2000 refund, approval by a support lead?",
        "DUPLICATED charges; refund of 25000 INR",
        "card billed twice money back",
    ],
)
def test_the_rule_on_duplicates_comes_first(urls: dict[str, str], call: Any, query: str) -> None:
    passages = search(urls, call, query)
    assert passages[0] == DUPLICATES
    assert passages.count(DUPLICATES) == 1


@pytest.mark.parametrize(
    ("query", "doc", "section"),
    [
        ("finance approval for large refunds", "POL-REF-004", "3.3"),
        ("chargeback evidence deadline", "POL-CHB-003", "1.3"),
        ("lost parcel", "POL-SHP-001", "2.4"),
        ("return of goods within thirty days", "POL-RET-002", "1.2"),
    ],
)
def test_other_questions_find_other_rules(urls: dict[str, str], call: Any, query: str, doc: str, section: str) -> None:
    first = search(urls, call, query)[0]
    assert (first["doc"], first["section"]) == (doc, section)


@pytest.mark.parametrize("query", ["", "   ", "zxqv blorf", "what is the", "!?*", "\u0000", "\ud800", "🦄", "返金"])
def test_a_query_without_a_known_word_finds_nothing(urls: dict[str, str], call: Any, query: str) -> None:
    assert search(urls, call, query) == []


@pytest.mark.parametrize(
    "query",
    [
        'refund"',
        '"refund',
        'refund" OR doc:*',
        "refund AND",
        "NOT refund",
        "NEAR(refund, 2)",
        "text : refund",
        "- refund",
        "^refund*",
        "refund'; DROP TABLE passages; --",
        "{keywords} : refund",
        "refund\u0000capture",
        "refund \ud800",
        "réfund refund 返金",
        "refund " * 50_000,
    ],
)
def test_hostile_text_is_only_words(urls: dict[str, str], call: Any, query: str) -> None:
    assert DUPLICATES in search(urls, call, query)


def test_a_thousand_different_words_are_no_trouble(urls: dict[str, str], call: Any) -> None:
    assert DUPLICATES in search(urls, call, "refund " + " ".join(f"word{turn}" for turn in range(1000)))


@pytest.mark.parametrize("body", [{}, {"query": 5}, {"query": None}, {"query": "refund", "limit": 100}, ["refund"]])
def test_a_body_that_is_no_query_is_invalid(urls: dict[str, str], call: Any, body: object) -> None:
    reply = call("POST", f"{urls['POLICY_URL']}/policy/search", body)
    assert (reply.status, reply.json()["error"]) == (422, "invalid")
