"""A picture → DOT source: which states stand where, and how arrows look.

It must not know machines or files, nor whether a program that draws DOT is there.
"""

from __future__ import annotations

from collections.abc import Iterable

import graphviz

from statemachine_agent.chart.transitions import Transition
from statemachine_agent.diagrams import labels
from statemachine_agent.diagrams.picture import Edge, Picture

_FONT = "Helvetica"


def dot_of(picture: Picture) -> str:
    """The DOT source; every node and arrow carries its transitions as classes `t0`, `t1` …, in SVG too."""
    graph = graphviz.Digraph(picture.name)
    graph.attr(
        rankdir="TB", fontname=_FONT, bgcolor="white", pad="0.3", nodesep="0.35", ranksep="0.35", labelloc="t",
        label=f"<{labels.of_title(picture)}>",
    )  # fmt: skip
    graph.attr("node", fontname=_FONT, fontsize="11", shape="box", style="rounded,filled", margin="0.08,0.05")
    graph.attr("edge", fontname=_FONT, fontsize="11", color=labels.GREY, arrowsize="0.8")
    for node in picture.nodes:
        fill, border = labels.KINDS[node.kind]
        graph.node(
            node.name, f"<{labels.of_node(node)}>", fillcolor=fill, color=border, group="main" if node.main else "",
            penwidth="4" if node.current else "1.5", **_class(node.transitions),
        )  # fmt: skip
    for end in picture.ends:
        fill, border = labels.ENDS.get(end.name, labels.OTHER_END)
        graph.node(
            end.name, f"<{labels.of_end(end)}>", fillcolor=fill, color=border, peripheries="2",
            penwidth="4" if end.current else "1.5", group="main" if end.name == "SUCCEEDED" else "",
        )  # fmt: skip
    for edge in picture.edges:
        _edge(graph, edge)
    return str(graph.source)


def _edge(graph: graphviz.Digraph, edge: Edge) -> None:
    look = {"weight": "20", "penwidth": "2", "color": labels.INK} if edge.main else {}
    if edge.target in labels.ENDS and edge.target != "SUCCEEDED":
        look = {"color": labels.ENDS["FAILED"][1]}
    if edge.visits:
        look |= {"penwidth": "4", "color": labels.INK}
    elif edge.quiet:
        look |= {"style": "dotted"}
    graph.edge(edge.source, edge.target, f"<{labels.of_edge(edge)}>", **look, **_class(t.transition for t in edge.lines))


def _class(transitions: Iterable[Transition]) -> dict[str, str]:
    return {"class": " ".join(f"t{t.index}" for t in transitions)}
