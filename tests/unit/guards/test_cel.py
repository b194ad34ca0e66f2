"""What an author reads of an expression that does not compile, and a person of one that has no value."""

from __future__ import annotations

from typing import Any

import pytest
from cel_expr_python import cel as library

from statemachine_agent.errors import GuardError
from statemachine_agent.guards import cel
from statemachine_agent.guards.evaluate import truth


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("n ? 1 : 2", "`? :` does not work on (int, int, int)"),
        ("n['a']", "`[ ]` does not work on (int, string)"),
        ("1 in n", "`in` does not work on (int, int)"),
        ("n + 'a'", "`+` does not work on (int, string)"),
        ("-'a' == n", "`-` does not work on (string)"),
        ("n.startsWith('a')", "`startsWith` does not work on (int, string)"),
    ],
)
def test_an_operator_is_called_what_the_author_wrote(text: str, words: str) -> None:
    """Not by the library's own name for it, `_?_:_` or `@in`."""
    with pytest.raises(cel.CompileError) as caught:
        cel.Environment({"n": library.Type.INT}).compile(text)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    ("text", "data", "words"),
    [
        ("input.a ? true : false", {"a": 1}, "`? :` does not work on that"),
        ("input.a in input.b", {"a": 1, "b": 2}, "`in` does not work on that"),
        ("!input.a", {"a": 1}, "`!` does not work on that"),
        ("-input.a == 1", {"a": "x"}, "`-` does not work on (string)"),
        ("input.a.size() == 1", {"a": 1}, "`size` does not work on (int)"),
        ("input.a.contains('x')", {"a": 1}, "`contains` does not work on (int, string)"),
        ("input.a + 1 == 1", {"a": "x"}, "`+` does not work on (string, int)"),
        ("input.l.all(x, input.l.all(y, x + y >= 0))", {"l": [*range(300)]}, "looks at too many things"),
    ],
)
def test_so_it_is_when_a_value_is_of_another_kind(text: str, data: dict[str, Any], words: str) -> None:
    """The kinds are said where they are known, that of what a method is called on too."""
    with pytest.raises(GuardError) as caught:
        truth("g", text, {"input": data})
    assert caught.value.problem == f"{words} (in `{text}`)"


def test_all_complaints_are_told_and_one_only_where_the_others_follow_from_it() -> None:
    """Two names that are not there are two mistakes; behind a text that cannot be read nothing is sure."""
    with pytest.raises(GuardError) as caught:
        truth("g", "nope || nada", {})
    assert caught.value.problem == "nothing is called `nope`; nothing is called `nada`"
    with pytest.raises(cel.CompileError) as unread:
        cel.evaluator("nope || (nada")
    assert [(p.message, p.syntax) for p in unread.value.problems] == [("`)` is missing here", True)]


def test_the_place_of_a_complaint_is_counted_from_the_beginning_of_the_text() -> None:
    """Also behind breaks of lines; so the mark stands below the right letter."""
    with pytest.raises(cel.CompileError) as caught:
        cel.evaluator("true ||\n\n  nope || nada")
    assert [p.offset for p in caught.value.problems] == [11, 19]
