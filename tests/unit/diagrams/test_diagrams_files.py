"""Files that diagrams become: the committed picture, the same bytes each time, and programs that are not there."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from importlib import metadata
from pathlib import Path

import pytest
from unit.diagrams.making import MACHINES, ROOT, SHIPPED, large, refund, shipped

from statemachine_agent.diagrams import FORMATS, DrawingError, Trail, diagram, render
from statemachine_agent.errors import UsageError


@pytest.mark.parametrize("name", SHIPPED)
def test_the_committed_picture_is_that_of_the_machine(name: str) -> None:
    """Drawn as `make diagrams` draws it: the machine of a file is called like the file."""
    picture = ROOT / "diagrams" / f"{name}.svg"
    stale = f"diagrams/{name}.svg is not that of machines/{name}.yaml: run `make diagrams` and commit it"
    assert picture.is_file(), stale
    assert picture.read_bytes() == diagram(shipped(name), "svg"), stale


def test_no_committed_picture_is_of_a_machine_that_is_gone() -> None:
    assert {path.stem for path in (ROOT / "diagrams").glob("*.svg")} <= set(SHIPPED)


@pytest.mark.parametrize("form", FORMATS)
def test_a_picture_is_the_same_each_time(form: str) -> None:
    assert diagram(refund(), form) == diagram(refund(), form)


@pytest.mark.parametrize("name", MACHINES)
def test_an_svg_says_nothing_about_when_where_and_by_what_it_was_made(name: str) -> None:
    svg = diagram(MACHINES[name](), "svg").decode()
    for word in ("Generated", "graphviz", "<!--", "<!DOCTYPE", str(ROOT), str(Path.home())):
        assert word not in svg
    assert svg.count("<text ") == svg.count(" textLength=")
    assert 'font-family="Helvetica,Arial,sans-serif"' in svg


def test_a_png_is_a_png() -> None:
    assert diagram(refund(), "png").startswith(b"\x89PNG\r\n\x1a\n")


def test_a_large_machine_is_drawn_in_time() -> None:
    machine = large()
    assert len(machine.definition.states) == 60
    assert len([t for t in machine.chart.transitions if not t.implied]) == 300
    for form in ("svg", "mmd", "md"):
        start = time.process_time()  # its own work, whatever else this computer does
        found = diagram(machine, form, Trail(("S3",), {("S0", "S3"): 1}))
        assert time.process_time() - start < 5
        assert found


@pytest.mark.parametrize("form", ["jpeg", "", "SVG", "\x1b[1m"])
def test_an_unknown_format_is_named_with_those_that_are_known(form: str) -> None:
    with pytest.raises(UsageError, match="no format of a diagram") as caught:
        diagram(refund(), form)
    assert caught.value.hint
    assert "\x1b" not in str(caught.value)


# ---------------------------------------------------------------- programs


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def without_pure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A computer on which graphviz-pure is not installed; the folder is its PATH."""

    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "files", missing)
    monkeypatch.setattr(render.sysconfig, "get_path", lambda _: str(tmp_path / "scripts"))
    monkeypatch.setattr(render.sys, "executable", str(tmp_path / "bin" / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_graphviz_pure_of_this_installation_comes_before_the_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script(tmp_path / "dot", "echo wrong")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(render.find_program()).stem == "graphviz-pure"


def test_without_it_dot_of_the_path_draws(without_pure: Path) -> None:
    dot = script(without_pure / "dot", "cat > /dev/null; echo '<svg></svg>'; echo '{}'")
    assert render.find_program() == dot
    os.environ["PATH"] += os.pathsep + os.defpath
    assert diagram(refund(), "svg") == b"<svg></svg>\n"


def test_beside_the_interpreter_it_is_found_too(without_pure: Path) -> None:
    (without_pure / "bin").mkdir()
    pure = script(without_pure / "bin" / "graphviz-pure", "true")
    assert render.find_program() == pure


def test_without_any_program_the_error_says_what_to_install(without_pure: Path) -> None:
    with pytest.raises(DrawingError) as caught:
        diagram(refund(), "svg")
    assert caught.value.reason == "no_dot"
    assert "pip install graphviz-pure" in str(caught.value)
    for form in ("dot", "mmd", "md"):
        assert diagram(refund(), form)


def test_a_named_program_is_taken_or_missed() -> None:
    with pytest.raises(DrawingError, match="no program `no-such-program`"):
        diagram(refund(), "svg", program="no-such-program")


def test_what_the_program_complains_about_is_passed_on(tmp_path: Path) -> None:
    broken = script(tmp_path / "dot", "echo 'syntax error' >&2; exit 3")
    with pytest.raises(DrawingError, match="syntax error") as caught:
        diagram(refund(), "png", program=broken)
    assert str(tmp_path) not in str(caught.value)


def test_a_program_that_does_not_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(command: list[str], **_: object) -> None:
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(render.subprocess, "run", hang)
    with pytest.raises(DrawingError, match="longer than"):
        diagram(refund(), "svg")
