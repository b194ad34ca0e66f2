"""The HTML-like labels of Graphviz: what stands inside a state, beside an arrow, in the notes.

Every text passes `escape` on its way into a label. It must not know how a graph is laid out.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable, Iterator

from statemachine_agent.diagrams import words
from statemachine_agent.diagrams.picture import Edge, End, Line, Node, Picture, Tool
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
ENDS = {"SUCCEEDED": ("#dcf5e1", "#1a7f37"), "FAILED": ("#fbe3e4", "#b3202c")}
OTHER_END = ("#ffffff", "#424a53")
EFFECTS = {"read": "#0b5cad", "write": "#b0400f", "irreversible": "#8c1a7d", "control": INK}

_WIDTH = 58  # characters of a line inside a state
_NARROW = 34  # and beside an arrow
_LEFT = '<BR ALIGN="LEFT"/>'
_TABLE = 'BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2"'
_TIGHT = 'BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1"'


def escape(text: str) -> str:
    """`text` as the content of a label."""
    return html.escape(visible(text))


def font(content: str, *, color: str = INK, size: int | None = None, bold: bool = False, italic: bool = False) -> str:
    """Escaped `content` in a font of its own."""
    if not content:
        return ""
    content = f"<I>{content}</I>" if italic else content
    content = f"<B>{content}</B>" if bold else content
    points = f' POINT-SIZE="{size}"' if size else ""
    return f'<FONT COLOR="{color}"{points}>{content}</FONT>'


def wrapped(text: str, width: int = _WIDTH, indent: str = "") -> str:
    """`text` escaped, in lines of at most `width` characters."""
    return "".join(indent + escape(line) + _LEFT for line in textwrap.wrap(text, width))


def cell(content: str, attributes: str = 'ALIGN="LEFT"') -> str:
    """One cell of a table."""
    return f"<TD {attributes}>{content}</TD>"


def row(*cells: str) -> str:
    """One row of a table."""
    return f"<TR>{''.join(cells)}</TR>"


def table(rows: Iterable[str], attributes: str = _TABLE) -> str:
    """A table; Graphviz takes no empty one."""
    return f"<TABLE {attributes}>{''.join(rows) or row(cell(''))}</TABLE>"


# ---------------------------------------------------------------- states and ends

_WIDE = 'ALIGN="LEFT" BALIGN="LEFT" COLSPAN="3"'
_GAP = "    "
_NOW = "● now"


def of_node(node: Node) -> str:
    """The inside of a state: name and kind, then all that stays in it."""
    border = KINDS[node.kind][1]
    start = font("start ► ", color=border, bold=True) if node.initial else ""
    now = font(f"{_GAP}{_NOW}", color=border, bold=True) if node.current else ""
    name = start + font(escape(node.name), bold=True, size=13) + now
    word = font(escape(node.word), color=border, bold=True)
    rows = [row(cell(name), cell("", 'WIDTH="12"'), cell(word, 'ALIGN="RIGHT"'))]
    if node.brief:
        rows.append(row(cell(font(wrapped(node.brief), italic=True), _WIDE)))
    for tool in node.tools:
        rows += _tool(tool)
    rows += [row(cell(font(escape(fact)), _WIDE)) for fact in node.facts]
    rows += [row(cell(_inside(line), _WIDE)) for line in node.lines]
    return table(rows)


def _tool(tool: Tool) -> Iterator[str]:
    color = EFFECTS[tool.effect]
    kind = "" if tool.effect == "control" else font(f"  {tool.effect}", color=color)
    pinned = "".join(
        font(f"{_GAP}{escape(name)} ← {escape(value)}", size=10) + _LEFT for name, value in tool.pinned
    )
    name = font(escape(tool.name), color=color, bold=True) + kind + _LEFT
    use = font(escape(tool.use), color=GREY, size=10)
    yield row(cell(name + pinned, 'ALIGN="LEFT" BALIGN="LEFT"'), cell(""), cell(use, 'ALIGN="RIGHT" VALIGN="TOP"'))
    for line in tool.lines:
        yield row(cell(_inside(line, within=tool.name), _WIDE))


def _inside(line: Line, within: str = "") -> str:
    """A row that leads nowhere else, or one that the author did not write."""
    first, quote, rest = words.told(line, within).partition("“")
    indent = _GAP if within else ""
    text = wrapped(first, indent=indent) + wrapped(quote + rest, indent=indent)
    return font(text, color=GREY if line.quiet else INK, size=10)


def of_end(end: End, *, current: bool) -> str:
    """The inside of an end."""
    _, border = ENDS.get(end.name, OTHER_END)
    rows = [row(cell(font(escape(end.name), bold=True, color=border, size=12), 'ALIGN="CENTER"'))]
    rows += [row(cell(font(wrapped(fact, 40), size=10), 'ALIGN="CENTER"')) for fact in end.facts]
    rows += [row(cell(font(_NOW, bold=True, color=border), 'ALIGN="CENTER"'))] if current else []
    return table(rows, _TIGHT)


# ---------------------------------------------------------------- arrows and notes


def of_edge(edge: Edge) -> str:
    """What stands beside an arrow: a line or more for each transition."""
    gap = cell("", 'WIDTH="5"')  # the arrow runs along the label's left side
    rows = [row(gap, cell(_beside(line), 'ALIGN="LEFT" BALIGN="LEFT"')) for line in edge.lines]
    if edge.visits:
        rows.append(row(gap, cell(font(f"× {edge.visits}", bold=True, size=13))))
    return table(rows, _TIGHT)


def _beside(line: Line) -> str:
    whole = words.beside(line)
    parts = [whole]
    if line.on and len(whole) > _NARROW:
        parts = [f"{words.numbered(line)} {line.on}", words.asked(line)]
    color = GREY if line.quiet else INK
    shown = font("".join(wrapped(part, _NARROW) for part in parts), color=color)
    return shown + "".join(font(wrapped(note, _NARROW), color=color, size=10, italic=True) for note in line.notes)


def of_title(picture: Picture) -> str:
    """The heading."""
    name = font(escape(picture.name), bold=True, size=20) + font(f"{_GAP}version {picture.version}", color=GREY)
    summary = font(wrapped(picture.summary, 90).removesuffix(_LEFT))
    return table([row(cell(name, 'ALIGN="CENTER"')), row(cell(summary, 'ALIGN="CENTER"')), row(cell("", 'HEIGHT="8"'))])


def of_note(picture: Picture) -> str:
    """The one note: ways out that are not drawn as arrows, and how to read what is."""
    rows = [row(cell(font("Ways out that are not drawn as arrows", bold=True)))]
    for group in picture.exits:
        rows.append(row(cell(font(wrapped(f"{group.where}:", _NOTE)), _LEFT_CELL)))
        rows.append(row(cell(font("".join(wrapped(way, _NOTE, _GAP) for way in words.ways(group))), _LEFT_CELL)))
    for text in (f"A task's budget: {', '.join(picture.limits)}.", *_READING):
        rows.append(row(cell(font(wrapped(text, _NOTE), color=GREY, size=10), _LEFT_CELL)))
    return table(rows)


_NOTE = 44
_LEFT_CELL = 'ALIGN="LEFT" BALIGN="LEFT"'
_READING = (
    "Of numbered rows the first that holds is taken.",
    "Grey rows are not written in the file: they are so in every machine.",
    "An end stands beside each state that leads to it; it is one and the same end.",
)

