"""DOT source → SVG or PNG, by a program that is there: the same bytes each time on one machine and version.

It must not know what is drawn.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from statemachine_agent.diagrams.dot import FONT
from statemachine_agent.errors import SmaError
from statemachine_agent.text import one_line

_PURE = "graphviz-pure"
_SECONDS = 60
#: beside an SVG the program tells how wide each text is, after the SVG and in the same run
_OUTPUT = {"svg": ("-Tsvg", "-Tjson"), "png": ("-Tpng", "-Gdpi=120", "-Gsize=50,50")}


class DrawingError(SmaError):
    """The picture could not be drawn."""

    reason = "not_drawn"


def draw(source: str, form: str, program: str | None = None) -> bytes:
    """The picture of a DOT source as `svg` or `png`, drawn by `program` or by what `find_program` finds."""
    command = [find_program(program), "-Kdot", *_OUTPUT[form]]
    try:
        done = subprocess.run(  # noqa: S603  no shell; the source goes in as data
            command, input=source.encode(), capture_output=True, timeout=_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        hint = "ask for mmd or md, or split the machine"
        raise DrawingError(f"drawing took longer than {_SECONDS} seconds", hint=hint, reason="too_large") from None
    except OSError as problem:
        raise DrawingError(f"{command[0]} does not run: {problem.strerror}", hint=_HINT) from None
    if done.returncode != 0 or not done.stdout:
        said = one_line(done.stderr.decode(errors="replace")) or f"it ended with {done.returncode}"
        raise DrawingError(f"{Path(command[0]).name} did not draw: {said}", hint="ask for dot, and look at the source")
    if form != "svg":
        return done.stdout
    svg, end, layout = done.stdout.decode().partition("</svg>\n")
    return _settled(svg + end, json.loads(layout, strict=False)).encode()


_HINT = f"run `pip install {_PURE}` or install Graphviz; dot, mmd and md need neither"


def find_program(program: str | None = None) -> str:
    """What draws: `program` if named, else graphviz-pure of this installation, else `dot` of the PATH.

    graphviz-pure comes first: a committed picture is the same on every computer that has this version of it.
    """
    if program is not None:
        found = shutil.which(program)
        if found is None:
            raise DrawingError(f"there is no program `{program}`", hint=_HINT, reason="no_dot")
        return found
    for place in _places():
        if place.is_file():
            return str(place)
    found = shutil.which(_PURE) or shutil.which("dot")
    if found is None:
        raise DrawingError("there is no program that draws", hint=_HINT, reason="no_dot")
    return found


def _places() -> Iterator[Path]:
    """Where graphviz-pure may be: where its distribution says, and beside the interpreter."""
    try:
        files = metadata.files(_PURE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.stem == _PURE and file.suffix in ("", ".exe"):
            yield Path(str(file.locate()))
    for folder in (sysconfig.get_path("scripts"), str(Path(sys.executable).parent)):
        yield Path(folder) / _PURE
        yield Path(folder) / f"{_PURE}.exe"


def _settled(svg: str, layout: object) -> str:
    """An SVG without what differs between programs, and whose texts keep their widths in whatever font a reader has."""
    widths = dict(_widths(layout))

    def fit(found: re.Match[str]) -> str:
        width = widths.get((float(found["x"]), -float(found["y"])), 0)
        return f'{found[0]} textLength="{width:.2f}" lengthAdjust="spacingAndGlyphs"' if width > 0 else found[0]

    svg = re.sub(r"<!--.*?-->\n?", "", svg, flags=re.DOTALL)  # who made it; a `-->` of a text is escaped
    svg = re.sub(r"<!DOCTYPE[^>]*>\n?", "", svg)
    svg = re.sub(rf'font-family="{FONT}[^"]*"', f'font-family="{FONT},Arial,sans-serif"', svg)
    return re.sub(r'<text [^>]*?\bx="(?P<x>[^"]*)" y="(?P<y>[^"]*)"', fit, svg)


def _widths(layout: object) -> Iterator[tuple[tuple[float, float], float]]:
    """Where each text of a layout stands, and its width."""
    if isinstance(layout, list):
        for one in layout:
            yield from _widths(one)
    elif isinstance(layout, dict):
        if layout.get("op") == "T":
            x, y = layout["pt"]
            yield (float(x), float(y)), float(layout["width"])
        for one in layout.values():
            yield from _widths(one)
