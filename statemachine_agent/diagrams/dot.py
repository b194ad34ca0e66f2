"""A picture → DOT source: which states and ends stand where, and how arrows look.

It must not know machines or files, nor whether a program that draws DOT is there.
"""

from __future__ import annotations

from collections.abc import Iterable

import graphviz

from statemachine_agent.chart.transitions import Transition
from statemachine_agent.diagrams import clusters, labels, words
from statemachine_agent.diagrams.picture import Edge, End, Node, Picture

#: a name whose widths Graphviz knows; the SVG names further fonts (see `render`)
FONT = "Helvetica"
NOTE = "note"
_MAIN = "main"
_MANY = 80  # arrows; with more, their labels would take more room than the states
_THICK, _THIN = "4", "1.5"


def dot_of(picture: Picture) -> str:
    """The DOT source; every state and arrow carries its transitions as classes `t0`, `t1` …, in SVG too."""
    graph = graphviz.Digraph(words.clean(picture.name))
    graph.attr(
        rankdir="TB", fontname=FONT, bgcolor="white", pad="0.3", nodesep="0.3", ranksep="0.25",
        labelloc="t", label=f"<{labels.of_title(picture)}>",
    )  # fmt: skip
    if picture.holders:
        graph.attr(newrank="true")  # or an arrow into a cluster may lead up
    graph.attr("node", fontname=FONT, fontsize="11", shape="box", style="rounded,filled", margin="0.08,0.05")
    graph.attr("edge", fontname=FONT, fontsize="11", arrowsize="0.8")
    inside = len(picture.edges) > _MANY
    leaving: dict[str, list[Edge]] = {}
    for edge in picture.edges if inside else ():
        leaving.setdefault(edge.source, []).append(edge)

    def put(part: graphviz.Digraph, node: Node) -> None:
        _node(part, picture, node, leaving.get(node.name, []))

    clusters.fill(graph, picture, put, leaving)
    for edge in picture.edges:
        _edge(graph, picture, edge, rows_inside=inside)
    _lonely_ends(graph, picture)
    exits = (t for group in picture.exits for one in group.exits for t in one.transitions)
    note = f"<{labels.of_note(picture, rows_inside=inside)}>"
    graph.node(NOTE, note, style="dashed", color=labels.GREY, **_class(exits, "note"))
    _note_below(graph, picture)
    return str(graph.source)


def _node(graph: graphviz.Digraph, picture: Picture, node: Node, leaving: list[Edge]) -> None:
    fill, border = labels.KINDS[node.kind]
    straight = f"{_MAIN}{picture.parents.get(node.name, '')}" if node.main else ""
    graph.node(
        node.name, f"<{labels.of_node(node, leaving)}>", fillcolor=fill, color=border, group=straight,
        penwidth=_THICK if node.current else _THIN, **_class(node.transitions, node.kind),
    )  # fmt: skip


def _edge(graph: graphviz.Digraph, picture: Picture, edge: Edge, *, rows_inside: bool) -> None:
    """An arrow, and with it the end that it leads to: ends stand beside each state, so that no arrow crosses the page."""
    target = clusters.arrival(picture, edge.target)
    end = next((e for e in picture.ends if e.name == target), None)
    if end is not None and target != "SUCCEEDED":
        target = f"{edge.target}@{edge.source}"
        _end(graph, target, end, current=end.current and (edge.visits > 0 or not _reached(picture, end)))
    on_trail = any(e.visits for e in picture.edges)
    look = {"color": labels.ENDS["FAILED"][1] if edge.target == "FAILED" else labels.GREY}
    if edge.main:
        look |= {"weight": "20"} | ({} if on_trail else {"penwidth": "2", "color": labels.INK})
    if edge.visits:
        look |= {"penwidth": _THICK, "color": labels.INK}
    elif edge.quiet:
        look |= {"style": "dotted"}
    text = labels.of_edge(edge, rows_inside=rows_inside, anew=edge.target if picture.anew(edge) else "")
    if text:  # one true label would double the ranks of all states; a number finds room without
        look |= {"xlabel" if rows_inside else "label": f"<{text}>"}
    graph.edge(picture.leaving(edge), target, **look, **_class(line.transition for line in edge.lines))


def _reached(picture: Picture, end: End) -> bool:
    return any(edge.visits for edge in picture.edges if edge.target == end.name)


def _lonely_ends(graph: graphviz.Digraph, picture: Picture) -> None:
    """SUCCEEDED, which stands once and below all, and ends where a task is though no arrow leads there."""
    targets = {edge.target for edge in picture.edges}
    for end in picture.ends:
        if end.name == "SUCCEEDED" or end.name not in targets:
            _end(graph, end.name, end, current=end.current)


def _end(graph: graphviz.Digraph, name: str, end: End, *, current: bool) -> None:
    fill, border = labels.ENDS.get(end.name, labels.OTHER_END)
    graph.node(
        name, f"<{labels.of_end(end, current=current)}>", fillcolor=fill, color=border, peripheries="2",
        group=_MAIN if end.name == "SUCCEEDED" else "", penwidth=_THICK if current else _THIN, **_class((), "end"),
    )  # fmt: skip


def _note_below(graph: graphviz.Digraph, picture: Picture) -> None:
    """The note stands beside a first state that is tall itself; beside another it would stretch the top, and goes below."""
    if any(node.mark == "start" and node.kind == "choose" for node in picture.nodes) and not picture.holders:
        return
    with graph.subgraph() as last:
        last.attr(rank="same" if picture.holders else "sink")  # the new ranking does not know `sink`
        last.node(NOTE)
        for end in picture.ends:
            if picture.holders and end.name == "SUCCEEDED":
                last.node(end.name)


def _class(transitions: Iterable[Transition], kind: str = "") -> dict[str, str]:
    return {"class": " ".join(([kind] if kind else []) + [f"t{t.index}" for t in transitions])}
