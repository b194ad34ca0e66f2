"""The policy service: full-text search in the written rules of the shop; must not know how they are applied."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence

from .exchange import Answer, Request
from .faults import WRITE_MODES
from .fields import ANY_STRING, take
from .seeds import seeds
from .service import Route, Service

MOST_PASSAGES = 5
MOST_WORDS = 64
# doc, version, section, text, keywords: what a passage is for counts more than how it happens to be worded.
WEIGHTS = "0, 0, 0, 1, 4"
# Without these a question about anything at all would find whatever passage also says "the".
COMMON_WORDS = frozenset(
    [
        "a",
        "about",
        "all",
        "also",
        "am",
        "an",
        "and",
        "any",
        "are",
        "as",
        "at",
        "be",
        "been",
        "but",
        "by",
        "can",
        "could",
        "did",
        "do",
        "does",
        "for",
        "from",
        "had",
        "has",
        "have",
        "how",
        "i",
        "if",
        "in",
        "is",
        "it",
        "its",
        "me",
        "my",
        "no",
        "not",
        "of",
        "on",
        "one",
        "or",
        "our",
        "shall",
        "should",
        "so",
        "some",
        "that",
        "the",
        "their",
        "them",
        "then",
        "there",
        "these",
        "they",
        "this",
        "to",
        "up",
        "was",
        "we",
        "were",
        "what",
        "when",
        "where",
        "which",
        "who",
        "why",
        "will",
        "with",
        "would",
        "you",
        "your",
    ]
)


class Policy(Service):
    """``POST /policy/search``."""

    name = "policy"
    schema = (
        "CREATE VIRTUAL TABLE passages USING fts5 (doc UNINDEXED, version UNINDEXED, section UNINDEXED, text,"
        " keywords, tokenize = 'porter unicode61')",
    )
    write_modes = WRITE_MODES - {"refuse", "commit_then_drop"}

    def routes(self) -> Sequence[Route]:
        """The search."""
        return (Route("POST", "/policy/search", self.search),)

    def seed(self, connection: sqlite3.Connection) -> None:
        """The passages of the seeds."""
        connection.executemany(
            "INSERT INTO passages (doc, version, section, text, keywords)"
            " VALUES (:doc, :version, :section, :text, :keywords)",
            seeds("passages"),
        )

    def search(self, request: Request) -> Answer:
        """``{"passages": [{"doc", "version", "section", "text"}]}``, the best first, at most 5, perhaps none.

        A passage is found when it has any of the first 64 words of the query worth looking for, in any form of it.
        """
        expression = to_expression(take(request.json(), {"query": ANY_STRING})["query"])
        if not expression:
            return Answer(200, {"passages": []})
        with self.database.transaction() as connection:
            rows = connection.execute(
                "SELECT doc, version, section, text FROM passages WHERE passages MATCH ?"
                f" ORDER BY bm25(passages, {WEIGHTS}), rowid LIMIT ?",
                (expression, MOST_PASSAGES),
            ).fetchall()
        return Answer(200, {"passages": [dict(row) for row in rows]})


def to_expression(query: str) -> str:
    """Any text as an FTS5 expression of quoted words joined by OR; empty when no word is worth looking for."""
    words = dict.fromkeys(word for word in re.findall(r"\w+", query.lower()) if word not in COMMON_WORDS)
    return " OR ".join(f'"{word}"' for word in list(words)[:MOST_WORDS])
