"""The HTML-like labels of Graphviz: what stands inside a state, beside an arrow, in the notes.

Every text passes `escape` on its way into a label. It must not know how a graph is laid out.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterable

from statemachine_agent.diagrams.picture import Edge, End, Exits, Line, Node, Picture, Tool
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
EFFECTS = {"read": "#0b5cad", "write": "#b0400f", "irreversible": "#8c1a7d", "control": "#57606a"}

_WIDTH = 52  # characters of a line inside a state
_NARROW = 30  # and beside an arrow
_LEFT = '<BR ALIGN="LEFT"/>'


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


def wrapped(text: str, width: int = _WIDTH) -> str:
    """`text` escaped, in lines of at most `width` characters."""
    return _LEFT.join(escape(line) for line in textwrap.wrap(text, width) or [""]) + _LEFT


def cell(content: str, attributes: str = 'ALIGN="LEFT"') -> str:
    """One cell of a table."""
    return f"<TD {attributes}>{content}</TD>"


def row(*cells: str) -> str:
    """One row of a table."""
    return f"<TR>{''.join(cells)}</TR>"


def table(rows: Iterable[str], attributes: str = 'BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="2"') -> str:
    """A table; Graphviz takes no empty one."""
    return f"<TABLE {attributes}>{''.join(rows) or row(cell(''))}</TABLE>"


# ---------------------------------------------------------------- states and ends


def of_node(node: Node) -> str:
    """The inside of a state: name and kind, then all that stays in it."""
    border = KINDS[node.kind][1]
    name = font(escape(node.name), bold=True, size=13)
    start = font("start ► ", color=border, bold=True) if node.initial else ""
    here = font("  ● now", color=border, bold=True) if node.current else ""
    head = row(cell(start + name + here), cell(font(escape(node.word), color=border, bold=True), 'ALIGN="RIGHT"'))
    body = [row(cell(font(wrapped(node.brief), italic=True, color=GREY), _WIDE))] if node.brief else []
    for tool in node.tools:
        body += _tool(tool)
    body += [row(cell(font(escape(fact), color=INK), _WIDE)) for fact in node.facts]
    body += [row(cell(_self(line), _WIDE)) for line in node.lines]
    return table([head, *body])


_WIDE = 'ALIGN="LEFT" BALIGN="LEFT" COLSPAN="2"'


def _tool(tool: Tool) -> Iterable[str]:
    color = EFFECTS[tool.effect]
    kind = "" if tool.effect == "control" else font(f"  {tool.effect}", color=color)
    pinned = "".join(
        _LEFT + font(f"    {escape(name)} ← {escape(value)}", color=GREY, size=10) for name, value in tool.pinned
    )
    name = font(escape(tool.name), color=color, bold=True)
    use = font(escape(tool.use), color=GREY, size=10)
    yield row(cell(name + kind + pinned + _LEFT, 'ALIGN="LEFT" BALIGN="LEFT"'), cell(use, 'ALIGN="RIGHT" VALIGN="TOP"'))
    for line in tool.lines:
        yield row(cell(_self(line, indent="    ", on=not line.transition.event.startswith("call.")), _WIDE))


def _self(line: Line, indent: str = "", *, on: bool = True) -> str:
    """A row that leads nowhere else, or one that the author did not write."""
    t = line.transition
    order = f"{line.order}. " if line.order else ""
    what = "refused" if t.refuse is not None else f"→ {t.target}" if t.target else "stays"
    first = " ".join(w for w in (f"{order}{line.on}" if on else order.strip(), line.condition) if w)
    words = f"{first}: {what}" if first else what
    if not on and t.refuse is not None:
        words = " ".join(w for w in (order.strip(), what, line.condition) if w)
    lines = textwrap.wrap(words, _WIDTH)
    if t.refuse is not None:
        lines += textwrap.wrap(f"“{t.refuse}”", _WIDTH)
    if line.notes:
        lines[-1] += f" ({', '.join(line.notes)})"
    text = _LEFT.join(indent + escape(x) for x in lines) + _LEFT
    return font(text, color=GREY if line.quiet else INK, size=10)


def of_end(end: End) -> str:
    """The inside of an end."""
    _, border = ENDS.get(end.name, OTHER_END)
    rows = [row(cell(font(escape(end.name), bold=True, color=border, size=13), 'ALIGN="CENTER"'))]
    rows += [row(cell(font(wrapped(fact, 40), size=10), 'ALIGN="CENTER"')) for fact in end.facts]
    rows += [row(cell(font("● now", bold=True, color=border), 'ALIGN="CENTER"'))] if end.current else []
    return table(rows)


# ---------------------------------------------------------------- arrows and notes


def of_edge(edge: Edge) -> str:
    """What stands beside an arrow: a line or more for each transition."""
    gap = cell("", 'WIDTH="5"')  # the arrow runs along the label's left side
    rows = [row(gap, cell(_beside(line), 'ALIGN="LEFT" BALIGN="LEFT"')) for line in edge.lines]
    if edge.visits:
        rows.append(row(gap, cell(font(f"× {edge.visits}", bold=True, size=12))))
    return table(rows, 'BORDER="0" CELLBORDER="0" CELLSPACING="0" CELLPADDING="1"')


def _beside(line: Line) -> str:
    on = f"{line.order}. {line.on}".strip() if line.order else line.on
    asked = line.condition if line.condition == "otherwise" else f"[{line.condition}]" if line.condition else ""
    whole = f"{on} {asked}".strip()
    parts = [whole] if len(whole) <= _NARROW else [on, asked]
    shown = font("".join(wrapped(part, _NARROW) for part in parts if part), color=GREY if line.quiet else INK)
    return shown + "".join(font(wrapped(note, _NARROW), color=GREY, size=10, italic=True) for note in line.notes)


def of_title(picture: Picture) -> str:
    """The heading."""
    name = font(escape(picture.name), bold=True, size=20) + font(f"  version {picture.version}", color=GREY)
    return table([row(cell(name, 'ALIGN="CENTER"')), row(cell(font(wrapped(picture.summary, 100)), 'ALIGN="CENTER"'))])


def of_notes(picture: Picture) -> str:
    """The one note: exits that are not drawn as arrows, and how to read what is."""
    rows = [row(cell(font("Exits that are not drawn as arrows", bold=True)))]
    rows += [row(cell(_exits(group))) for group in picture.exits]
    rows.append(row(cell(font(f"budget: {escape(' · '.join(picture.limits))}", color=GREY))))
    return table(rows, f'BORDER="1" COLOR="{GREY}" STYLE="ROUNDED" CELLBORDER="0" CELLSPACING="0" CELLPADDING="3"')


def _exits(group: Exits) -> str:
    ways: dict[str, list[str]] = {}
    for one in group.exits:
        ways.setdefault(one.target, []).append(one.word)
    told = ", ".join(f"{' or '.join(found)} → {target}" for target, found in ways.items())
    return font(wrapped(f"{group.where}: {told}", 110))
