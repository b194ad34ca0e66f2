"""A picture → Markdown tables: states by tools, every row, the exits, the guards with their texts.

It must not know machines. What an author wrote appears as it is: nothing of it becomes Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from statemachine_agent.diagrams import words
from statemachine_agent.diagrams.picture import Holder, Line, Node, Picture, Tool
from statemachine_agent.text import visible

_USE = {"call": "runs", "reconcile": "asks what happened", "approval": "asks a person"}


def table_of(picture: Picture) -> str:
    """The Markdown text."""
    parts = [
        f"# {escape(picture.name)}, version {picture.version}",
        escape(picture.summary),
        f"A task's budget: {escape(', '.join(picture.limits))}.",
        "## States",
        _states(picture),
        *_tools(picture),
        "## Rows",
        "Of numbered rows the first that holds is taken. *Italics*: not written in the file, and so in every machine.",
        _table(("State", "What happened", "Condition", "What follows"), _rows(picture)),
        "## Ways out of many states",
        _table(("Where", "Way out"), ((escape(g.where), escape(way)) for g in picture.exits for way in words.ways(g))),
    ]
    if picture.ends:
        ends = ((code(e.name) + _now(current=e.current), escape(", ".join(e.facts))) for e in picture.ends)
        parts += ["## Ends", _table(("End", "Condition"), ends)]
    if picture.guards:
        parts += ["## Guards", _table(("Guard", "Holds if"), ((code(n), code(text)) for n, text in picture.guards))]
    if any(edge.visits for edge in picture.edges):
        went = ((code(e.source), code(e.target), str(e.visits)) for e in picture.edges if e.visits)
        parts += ["## The way of the task", _table(("From", "To", "Times"), went)]
    return "\n\n".join(part for part in parts if part) + "\n"


def escape(text: str) -> str:
    """`text` as Markdown that shows just this."""
    text = re.sub(r"([\\`*_{}\[\]<>#|~!@])", r"\\\1", visible(text).replace("&", "&amp;"))
    return text.replace("://", "\\://").replace("www.", "www\\.")


def code(text: str) -> str:
    """`text` as code inside a table."""
    shown = visible(text)
    longest = max((len(run) for run in re.findall(r"`+", shown)), default=0)
    fence = "`" * (longest + 1)
    pad = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{pad}{shown}{pad}{fence}".replace("|", "\\|")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])


def _now(*, current: bool) -> str:
    return " **now**" if current else ""


def _states(picture: Picture) -> str:
    """All states, each behind what holds it; nobody reads of holders where there are none."""
    head = ("State", *(("Within",) if picture.holders else ()), "What happens", "Details")
    return _table(head, (_state(picture, state) for state in _ordered(picture)))


def _ordered(picture: Picture, within: str = "") -> Iterator[Node | Holder]:
    for state in picture.within(within):
        yield state
        if isinstance(state, Holder):
            yield from _ordered(picture, state.name)


def _state(picture: Picture, state: Node | Holder) -> tuple[str, ...]:
    mark = f" ({escape(state.mark)})" if state.mark else ""
    holder = picture.parents.get(state.name)
    within = ((code(holder) if holder else ""),) if picture.holders else ()
    texts = (state.brief, *state.facts) if isinstance(state, Node) else (f"begins with {words.listed(state.first)}",)
    details = "; ".join(escape(text) for text in texts if text)
    return code(state.name) + mark + _now(current=state.current), *within, escape(state.word), details


def _tools(picture: Picture) -> Iterator[str]:
    """The matrix: which state does what with which tool."""
    effects = {tool.name: tool.effect for node in picture.nodes for tool in node.tools}
    if not effects:
        return
    head = [code(name) + (f" {effect}" if effect != "control" else "") for name, effect in effects.items()]
    yield "## States and tools"
    rows = []
    for node in picture.nodes:
        mine = {tool.name: tool for tool in node.tools}
        rows.append((code(node.name), *(_use(node, mine[name]) if name in mine else "" for name in effects)))
    yield _table(("", *head), rows)


def _use(node: Node, tool: Tool) -> str:
    use = _USE.get(node.kind) or ("may choose" if tool.effect in ("read", "control") else "may propose")
    pinned = ", ".join(f"{name} ← {value}" for name, value in tool.pinned)
    return escape(f"{use}, {pinned}" if pinned else use)


def _rows(picture: Picture) -> Iterator[tuple[str, ...]]:
    """Every transition but the exits, in the order in which it is tried."""
    for state in _ordered(picture):
        lines = [line for edge in picture.edges if edge.source == state.name for line in edge.lines]
        tools = state.tools if isinstance(state, Node) else ()
        lines += [line for tool in tools for line in tool.lines]
        lines += state.lines if isinstance(state, Node) else ()
        told = {line.transition.index: _row(line) for line in lines if not line.exit}
        told |= {t.index: _stay(state.name, t.event, quiet=t.implied) for tool in tools for t in tool.stays}
        yield from (told[index] for index in sorted(told))


def _row(line: Line) -> tuple[str, ...]:
    t = line.transition
    follows = (
        f"refused: “{words.whole(t.refuse)}”"
        if t.refuse is not None
        else f"→ {words.target(t)}"
        if t.target
        else "stays"
    )
    on = f"{words.numbered(line)} {line.on}".strip()
    cells = (escape(on), escape(line.condition), escape(follows + words.noted(line)))
    return code(t.source), *(_leaning(cell, quiet=line.quiet) for cell in cells)


def _stay(state: str, event: str, *, quiet: bool) -> tuple[str, ...]:
    verb, _, tool = event.partition(".")
    on = f"{tool} proposed" if verb == "call" else f"{tool} {verb}"
    return code(state), _leaning(escape(on), quiet=quiet), "", _leaning("stays", quiet=quiet)


def _leaning(text: str, *, quiet: bool) -> str:
    return f"*{text}*" if quiet and text else text
