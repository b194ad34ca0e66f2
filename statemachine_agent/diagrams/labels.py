"""The HTML-like labels of Graphviz: what stands inside a state, beside an arrow, in the notes.

Every text passes `escape` on its way into a label. It must not know how a graph is laid out.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import replace

from statemachine_agent.diagrams import words
from statemachine_agent.diagrams.picture import Edge, End, Holder, Line, Node, Picture, Tool
from statemachine_agent.text import visible

INK = "#1f2328"
GREY = "#57606a"
#: fill and border by kind of state; every state says its kind in words too
KINDS = {
    "choose": ("#e3f0fc", "#0b5cad"),
    "route": ("#eeeafb", "#5a45a8"),
    "call": ("#ddf4f0", "#0b6b60"),
    "reconcile": ("#fff3d1", "#8a5a00"),
    "approval": ("#fde8dc", "#a8400f"),
    "wait": ("#eff1f3", "#57606a"),
}
#: fill, border and style of a cluster by kind of holder
HOLDERS = {
    "compound": ("#f6f8fa", "#57606a", "rounded,filled"),
    "parallel": ("#f1f3f6", "#424a53", "rounded,filled"),
    "region": ("#ffffff", "#57606a", "rounded,filled,dashed"),
    "machine": ("#f2f6fb", "#3d5a80", "rounded,filled"),
}
BAR = "#424a53"
ENDS = {"SUCCEEDED": ("#dcf5e1", "#1a7f37"), "FAILED": ("#fbe3e4", "#b3202c")}
OTHER_END = ("#ffffff", "#424a53")
EFFECTS = {"read": "#0b5cad", "write": "#b0400f", "irreversible": "#8c1a7d", "control": INK}

_WIDTH = 60  # characters of a line inside a state
_NARROW = 34  # and beside an arrow
_NOTE = 44
_GAP = "    "
_NOW = "● now"
_TABLE = 'BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2"'
_LINES = 'BORDER="0" CELLBORDER="0" CELLSPACING="1" CELLPADDING="0"'
_WIDE = 'ALIGN="LEFT" COLSPAN="3"'


def escape(text: str) -> str:
    r"""`text` as the content of a label, where a single backslash would begin an escape (`\N` is the node's name)."""
    return html.escape(visible(text)).replace("\\", "\\\\")


def font(content: str, *, color: str = INK, size: int | None = None, bold: bool = False, italic: bool = False) -> str:
    """Escaped `content` in a font of its own."""
    if not content:
        return ""
    content = f"<I>{content}</I>" if italic else content
    content = f"<B>{content}</B>" if bold else content
    points = f' POINT-SIZE="{size}"' if size else ""
    return f'<FONT COLOR="{color}"{points}>{content}</FONT>'


def cell(content: str, attributes: str = 'ALIGN="LEFT"') -> str:
    """One cell of a table."""
    return f"<TD {attributes}>{content}</TD>"


def row(*cells: str) -> str:
    """One row of a table."""
    return f"<TR>{''.join(cells)}</TR>"


def table(rows: Iterable[str], attributes: str = _TABLE) -> str:
    """A table; Graphviz takes no empty one."""
    return f"<TABLE {attributes}>{''.join(rows) or row(cell(''))}</TABLE>"


def lines(parts: Iterable[str], align: str = "LEFT") -> str:
    """Lines below each other: as rows, since Graphviz would leave no room between the lines of one text."""
    return table((row(cell(part, f'ALIGN="{align}"')) for part in parts), _LINES)


def wrapped(text: str, width: int = _WIDTH) -> list[str]:
    """`text` escaped, in lines of at most `width` characters."""
    return [escape(line) for line in textwrap.wrap(text, width)]


# ---------------------------------------------------------------- states and ends


def of_node(node: Node, leaving: Iterable[Edge] = ()) -> str:
    """The inside of a state: name and kind, all that stays in it, and the rows of arrows whose own place is too small."""
    border = KINDS[node.kind][1]
    start = font(f"{escape(node.mark)} ► ", color=border, bold=True) if node.mark else ""
    now = font(f"{_GAP}{_NOW}", color=border, bold=True) if node.current else ""
    name = start + font(escape(node.name), bold=True, size=13) + now
    word = font(escape(node.word), color=border, bold=True)
    rows = [row(cell(name), cell("", 'WIDTH="12"'), cell(word, 'ALIGN="RIGHT"'))]
    if node.brief:
        rows.append(row(cell(lines(font(part, italic=True) for part in wrapped(node.brief)), _WIDE)))
    for tool in node.tools:
        rows += _tool(tool)
    if node.facts:
        rows.append(row(cell(lines(font(part) for fact in node.facts for part in wrapped(fact)), _WIDE)))
    told = [(line, words.told(line)) for line in node.lines]
    if parts := _told([*told, *_led(leaving)]):
        rows.append(row(cell(lines(parts), _WIDE)))
    return table(rows)


def _led(leaving: Iterable[Edge]) -> list[tuple[Line, str]]:
    return [(line, words.led(_leaving(line))) for edge in leaving for line in edge.lines]


def _leaving(line: Line) -> Line:
    """A row as it stands where it leaves: what stands for a holder being done says so already."""
    return replace(line, on="") if line.transition.event.startswith("done.") else line


def _told(rows: Iterable[tuple[Line, str]]) -> list[str]:
    """Rows with their texts, in the order in which they are tried."""
    ordered = sorted(rows, key=lambda one: one[0].transition.index)
    return [part for line, text in ordered for part in _inside(text, line)]


def _tool(tool: Tool) -> Iterator[str]:
    color = EFFECTS[tool.effect]
    kind = "" if tool.effect == "control" else font(f"  {tool.effect}", color=color)
    name = font(escape(tool.name), color=color, bold=True) + kind
    pinned = [font(f"{_GAP}{escape(name)} ← {escape(value)}") for name, value in tool.pinned]
    use = font(escape(tool.use), color=GREY, size=10)
    yield row(cell(lines([name, *pinned])), cell(""), cell(use, 'ALIGN="RIGHT" VALIGN="TOP"'))
    for line in tool.lines:
        yield row(cell(lines(_inside(words.told(line, within=tool.name), line, _GAP)), _WIDE))


def _inside(text: str, line: Line, indent: str = "") -> Iterator[str]:
    """The text of a row, a quoted refusal on a line of its own."""
    first, quote, rest = text.partition("“")
    for part in wrapped(first) + wrapped(quote + rest):
        yield font(indent + part, color=GREY if line.quiet else INK, size=10)


def of_end(end: End, *, current: bool) -> str:
    """The inside of an end."""
    _, border = ENDS.get(end.name, OTHER_END)
    parts = [font(escape(end.name), bold=True, color=border, size=12)]
    parts += [font(part, size=10) for fact in end.facts for part in wrapped(fact, 40)]
    parts += [font(_NOW, bold=True, color=border)] if current else []
    return lines(parts, "CENTER")


def of_holder(holder: Holder) -> str:
    """The heading of a cluster."""
    border = HOLDERS[holder.kind][1]
    start = font(f"{escape(holder.mark)} ► ", color=border, bold=True) if holder.mark else ""
    return (
        start
        + font(escape(holder.name), bold=True, size=13)
        + font(f"{_GAP}{escape(holder.word)}", color=border, bold=True)
    )


def of_done(holder: Holder, leaving: Iterable[Edge] = ()) -> str:
    """What stands for a holder being done: a small end inside it, with the rows of arrows that find no room beside them."""
    parts = [font("done", bold=True, color=HOLDERS[holder.kind][1], size=10)]
    parts += [font(_NOW, bold=True, color=HOLDERS[holder.kind][1])] if holder.current else []
    return lines([*parts, *_told(_led(leaving))], "CENTER")


def of_bar(text: str, leaving: Iterable[Edge] = ()) -> str:
    """The inside of a bar at which regions begin or end together."""
    told = [row(cell(part, 'ALIGN="LEFT" BGCOLOR="white"')) for part in _told(_led(leaving))]
    return table([row(cell(font(escape(text), color="white", bold=True, size=10), 'ALIGN="CENTER"')), *told], _LINES)


# ---------------------------------------------------------------- arrows and notes


def of_edge(edge: Edge, *, rows_inside: bool, anew: str = "") -> str:
    """What stands beside an arrow: each transition, unless they stand inside the state; it may be nothing.

    `anew` is a state of states that is entered again from inside: the arrow does not cross its border.
    """
    parts = [part for line in edge.lines if not rows_inside for part in _beside(line)]
    parts += [font(f"{escape(anew)} anew", italic=True)] if anew else []
    parts += [font(words.times(edge.visits), bold=True, size=13)] if edge.visits else []
    gap = cell("", 'WIDTH="5"')  # the arrow runs along the label's left side
    return table((row(gap, cell(part)) for part in parts), _LINES) if parts else ""


def _beside(line: Line) -> Iterator[str]:
    whole = words.beside(_leaving(line))
    parts = [whole]
    if line.on and len(whole) > _NARROW:
        parts = [f"{words.numbered(line)} {_leaving(line).on}".strip(), words.asked(line)]
    color = GREY if line.quiet else INK
    yield from (font(shown, color=color) for part in parts for shown in wrapped(part, _NARROW))
    yield from (font(shown, color=color, italic=True) for note in line.notes for shown in wrapped(note, _NARROW))


def of_title(picture: Picture) -> str:
    """The heading."""
    name = font(escape(picture.name), bold=True, size=20) + font(f"{_GAP}version {picture.version}", color=GREY)
    summary = [font(part) for part in wrapped(picture.summary, 90)]
    return lines([name, *summary, font(" ")], "CENTER")


def of_note(picture: Picture, *, rows_inside: bool) -> str:
    """The one note: ways out that are not drawn as arrows, and how to read what is."""
    rows = [row(cell(font("Ways out that are not drawn as arrows", bold=True)))]
    for group in picture.exits:
        parts = wrapped(f"{group.where}:", _NOTE)
        parts += [_GAP + part for way in words.ways(group) for part in wrapped(way, _NOTE)]
        rows.append(row(cell(lines(font(part) for part in parts))))
    reading = [
        f"A task's budget: {', '.join(picture.limits)}.",
        *_READING,
        *_bars(picture),
        *([_INSIDE] if rows_inside else []),
    ]
    small = (lines(font(part, color=GREY, size=10) for part in wrapped(text, _NOTE + 4)) for text in reading)
    return table([*rows, *(row(cell(part)) for part in small)])


def _bars(picture: Picture) -> tuple[str, ...]:
    """How to read bars, where there are any."""
    return (_BARS,) if any(holder.parallel for holder in picture.holders) else ()


_READING = (
    "Of numbered rows the first that holds is taken.",
    "Grey rows are not written in the file: they are so in every machine.",
    "An end stands beside each state that leads to it; it is one and the same end.",
)
_BARS = (
    "A bar is no state: all regions begin together, and what follows leaves the lower bar when all of them are done."
)
_INSIDE = "There are many arrows: what leads along them stands in the state that they leave."
