"""YAML text → marked data: scalars by YAML 1.2, places, and what characters of a text stand where."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from statemachine_agent.definition import source as source_module
from statemachine_agent.definition.document import Document
from statemachine_agent.definition.source import Source, read


def document(text: str) -> Document:
    found = read(Source("f.yaml", text))
    assert found.faults == []
    return found


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("on", "on"), ("off", "off"), ("yes", "yes"), ("no", "no"), ("NO", "NO"), ("y", "y"), ("Yes", "Yes"),
        ("true", True), ("True", True), ("FALSE", False), ("tRue", "tRue"),
        ("12:30", "12:30"), ("12:30:45", "12:30:45"), ("2026-10-28", "2026-10-28"), ("0777", "0777"), ("0o17", "0o17"),
        ("0x1F", "0x1F"), ("1_000", "1_000"), ("1e3", 1000.0), ("1.5", 1.5), (".5", 0.5), ("5.", 5.0), ("-0", 0),
        ("+5", 5), ("-17", -17), ("0", 0), ("1e999", "1e999"), (".inf", ".inf"), (".nan", ".nan"), ("1.2.3", "1.2.3"),
        ("null", None), ("~", None), ("", None), ("NULL", None), ("nUll", "nUll"), ("none", "none"),
        ('"5"', "5"), ("'true'", "true"), ('""', ""), ("v4", "v4"), ("=", "="), ("<<", "<<"),
    ],
)  # fmt: skip
def test_scalars_are_those_of_yaml_1_2(written: str, value: object) -> None:
    found = document(f"a: {written}\n").data
    assert found == {"a": value}
    assert type(found["a"]) is type(value)


def test_keys_are_always_text() -> None:
    assert document("on: 1\n422: 2\ntrue: 3\nnull: 4\n").data == {"on": 1, "422": 2, "true": 3, "null": 4}


def test_every_value_knows_its_line_and_column() -> None:
    found = document("a: 1\nb:\n  - x\n  - {c: d}\n")
    assert (found.place(("a",)).value.line, found.place(("a",)).value.column) == (0, 3)
    inner = found.place(("b", 1, "c"))
    assert (inner.value.line, inner.value.column) == (3, 8)
    assert inner.key is not None
    assert (inner.key.line, inner.key.column, inner.flow) == (3, 5, True)
    assert not found.place(("b", 0)).flow


def test_the_place_of_what_is_not_there_is_that_of_what_is_around_it() -> None:
    found = document("a:\n  b: 1\n")
    assert found.place(("a", "c", 3)) == found.place(("a",))
    assert found.at(("a", "c")) is None


@pytest.mark.parametrize(
    "text",
    [
        "a: x == y && zz\n",
        'a: "x == y && zz"\n',
        "a: 'x == y && zz'\n",
        "a: >-\n  x ==\n    y\n\n  && zz\n",
        "a: |\n  x == y\n  && zz\n",
        "a: > # a comment\n  x == y && zz\n",
        "a: x ==\n   y\n   && zz\n",
        'a: "x == y \\\n   && zz"\n',
        'a: "x\\u0020== y\\t&& zz"\n',
        "a: {b: 1, c: x == y && zz}\n",
    ],
)
def test_a_character_of_a_text_is_found_however_the_text_is_written(text: str) -> None:
    found = document(text)
    path = ("a", "c") if "c:" in text else ("a",)
    value = found.at(path)
    assert isinstance(value, str)
    mark = found.fault(path, "", "", offset=value.index("zz")).mark
    assert text.splitlines()[mark.line][mark.column :].startswith("zz")


@given(st.text(st.sampled_from("ab\"'\\é😀 \n\t"), min_size=1, max_size=30), st.data())
def test_characters_are_found_in_any_quoted_text(value: str, data: st.DataObject) -> None:
    """The dumper chooses escapes and line breaks; the place found holds the character, or the escape of it."""
    text = yaml.safe_dump({"a": value}, default_style='"', width=20, allow_unicode=data.draw(st.booleans()))
    found = document(text)
    offset = data.draw(st.sampled_from([i for i, c in enumerate(value) if not c.isspace()] or [0]))
    mark = found.fault(("a",), "", "", offset=offset).mark
    rest = text.splitlines()[mark.line][mark.column :]
    if not value[offset].isspace():
        assert rest.startswith((value[offset], "\\"))


def test_the_end_of_a_text_is_behind_its_last_character() -> None:
    found = document("a: x ==\nb: y\n")
    fault = found.fault(("a",), "", "", offset=4)
    assert (fault.mark.line, fault.mark.column) == (0, 7)


FAULTY = [
    "a:\n\tb: 1\n", "a: {b: 1\n", "a: [1, 2\nb: 3\n", 'a: "x\n', "a: b: c\n", "é: ok\nb: \x07x\n", "a: !!str 1\n",
    "a: &x 1\nb: *x\n", "? [1,2]\n: 3\n", "a: 1\na: 2\n", "a: @b\n", "a: 1\n b: 2\n", 'a: "x" y\n', '"\\q"\n',
    "a: {\n", "a: - b\n", "a: 1\n---\nb: 2\n", "[" * 40 + "\n", "a: >-\n  x\n y\n",
]  # fmt: skip


@pytest.mark.parametrize("text", FAULTY)
def test_the_faults_are_the_same_without_libyaml(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyYAML may come without its C part; places and words do not depend on it."""
    with_c = read(Source("f.yaml", text)).faults
    monkeypatch.setattr(source_module, "_Loader", yaml.SafeLoader)
    assert [str(f) for f in read(Source("f.yaml", text)).faults] == [str(f) for f in with_c]
    assert with_c
