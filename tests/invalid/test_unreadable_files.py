"""Files that cannot be kept in this folder: too large, too deep, not text, not there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.source import MAX_BYTES, MAX_NODES, Source, read, read_text


def messages(catalogue: Catalogue) -> list[str]:
    """Messages with their places, without the folder."""
    return [str(replace(f, file=Path(f.file).name)).splitlines()[0] for f in catalogue.report.faults]


def loaded(path: Path) -> list[str]:
    return messages(Catalogue.read([path], []))


def test_a_file_over_the_limit_is_not_even_read(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    path.write_bytes(b"machine: m\n" + b"- x\n" * 1_250_000)
    assert loaded(path) == [f"big.yaml: is too large ({path.stat().st_size:,} bytes)"]


def test_a_text_over_the_limit_is_not_parsed() -> None:
    document = read(Source("big.yaml", "x" * (MAX_BYTES + 1)))
    assert [f.message for f in document.faults] == ["is too large"]
    assert document.data is None


def test_text_that_is_not_utf_8_is_shown_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes("machine: m\nsummary: ü caf".encode() + b"\xe9\nversion: 1\n")
    _, (fault,) = read_text(path)
    assert (fault.message, fault.mark.line, fault.mark.column) == ("is not UTF-8 text", 1, 14)
    assert "2 | summary: ü caf�" in str(fault)


def test_a_byte_order_mark_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_bytes(b"\xef\xbb\xbfmachine: m\n")
    source, faults = read_text(path)
    assert faults == [] and read(source).data == {"machine": "m"}


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert loaded(tmp_path / "m.yaml") == ["m.yaml: is not there"]
    _, (fault,) = read_text(tmp_path / "m.yaml")
    assert fault.message == "cannot be read: No such file or directory"


def test_a_file_that_is_a_folder_of_nothing(tmp_path: Path) -> None:
    assert loaded(tmp_path) == []


def test_too_many_values() -> None:
    document = read(Source("flat.yaml", "[" + "1, " * (MAX_NODES + 1) + "]"))
    assert [f.message for f in document.faults] == [f"has more than {MAX_NODES:,} values"]


def test_keys_are_counted_too() -> None:
    document = read(Source("flat.yaml", "".join(f"k{i}:\n" for i in range(MAX_NODES))))
    assert [f.message for f in document.faults] == [f"has more than {MAX_NODES:,} values"]


def test_many_times_the_same_key() -> None:
    document = read(Source("same.yaml", "k:\n" * 20_000))
    assert document.data == {"k": None}
    assert len(document.faults) == 19_999


def test_an_alias_bomb_stays_small() -> None:
    """Ten levels of ten: ten thousand million values for a reader that follows aliases."""
    levels = [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 11)]
    document = read(Source("bomb.yaml", "\n".join(["l0: &l0 [x]", *levels])))
    assert len([f for f in document.faults if f.message.startswith("refers to the alias")]) == 100
    assert document.at(("l10",)) == [None] * 10


def test_an_alias_to_what_holds_it_ends() -> None:
    document = read(Source("loop.yaml", "a: &a [*a, &b {c: *b}]\n"))
    assert [f.message for f in document.faults] == [
        "has the anchor `&a`", "refers to the alias `*a`", "has the anchor `&b`", "refers to the alias `*b`",
    ]  # fmt: skip


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
def test_depth_is_bounded_whatever_it_is_made_of(opening: str) -> None:
    document = read(Source("deep.yaml", opening * 5000))
    assert any("is nested deeper than" in f.message for f in document.faults)


def test_a_folder_stands_for_its_yaml_files_and_a_file_named_twice_is_one(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "m.yaml").write_text("machine: [\n")
    (tmp_path / "n.yml").write_text("machine: [\n")
    (tmp_path / "notes.txt").write_text("machine: [\n")
    catalogue = Catalogue.read([tmp_path, tmp_path / "a" / "m.yaml"], [])
    assert messages(catalogue) == [
        "m.yaml:1:11: the file ends in the middle", "n.yml:1:11: the file ends in the middle",
    ]  # fmt: skip
