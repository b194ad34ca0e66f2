"""States that hold others → clusters of a DOT source, with a place for being done, and bars where regions begin and end.

The arrows of the bars are no transitions: all regions are entered together, and the last one that is done lets the rows go
on. It must not know machines or files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import graphviz

from statemachine_agent.definition.nesting import done_of
from statemachine_agent.diagrams import labels
from statemachine_agent.diagrams.picture import Edge, Holder, Node, Picture

Put = Callable[[graphviz.Digraph, Node], None]

_BAR = {"style": "filled", "fillcolor": labels.BAR, "color": labels.BAR, "margin": "0.3,0.01", "height": "0.2"}
_DONE = {"fillcolor": "white", "peripheries": "2", "margin": "0.05,0.01", "height": "0.2"}
_MAIN = {"penwidth": "2", "color": labels.INK}
_GONE = {"penwidth": "4", "color": labels.INK}


def begun(name: str) -> str:
    """The bar at which all regions of `name` begin; no author's name looks like it."""
    return f"{name}_begun"


def arrival(picture: Picture, name: str) -> str:
    """The node at which an arrow to `name` arrives; where regions begin together, their bar."""
    entry = picture.entry(name)
    return begun(entry) if picture.is_holder(entry) else entry


def fill(
    graph: graphviz.Digraph,
    picture: Picture,
    put: Put,
    inside: Mapping[str, list[Edge]],
    within: str = "",
) -> None:
    """Put all that lies in `within` into `graph`, what holds others as a cluster of its own.

    `inside` are arrows whose rows are told in what they leave, by that.
    """
    states = list(picture.within(within))
    for number, state in enumerate(states):
        if isinstance(state, Node):
            put(graph, state)
            continue
        fillcolor, border, style = labels.HOLDERS[state.kind]
        # the bar's arrows come from the middle: headings of regions stand away from it
        side = "r" if state.kind == "region" and 2 * number >= len(states) else "l"
        with graph.subgraph(name=f"cluster_{state.name}") as cluster:
            cluster.attr(
                label=f"<{labels.of_holder(state)}>", labeljust=side, labelloc="t", fontsize="11", style=style,
                color=border, fillcolor=fillcolor, penwidth="1.5", margin="16", **{"class": state.kind},
            )  # fmt: skip
            if state.parallel:
                cluster.node(begun(state.name), f"<{labels.of_bar('all begin')}>", **_BAR, **{"class": "begun"})
            fill(cluster, picture, put, inside, state.name)
            if state.can_be_done:
                _done(cluster, state, inside.get(state.name, []))
            if state.parallel:
                _together(cluster, picture, state)


def _done(cluster: graphviz.Digraph, holder: Holder, leaving: list[Edge]) -> None:
    """What stands for `holder` being done."""
    name = done_of(holder.name)
    if holder.parallel:
        cluster.node(name, f"<{labels.of_bar('all done', leaving)}>", **_BAR, **{"class": "done"})
        return
    color, penwidth = labels.HOLDERS[holder.kind][1], "4" if holder.current else "1.5"
    look = {**_DONE, "color": color, "penwidth": penwidth, "class": "done"}
    cluster.node(name, f"<{labels.of_done(holder, leaving)}>", **look)


def _together(cluster: graphviz.Digraph, picture: Picture, holder: Holder) -> None:
    """Arrows from the bar at which regions begin to the first state of each, and from their being done to the bar behind."""
    gone = [edge for edge in picture.edges if edge.visits]
    entered = any(edge.target == holder.name for edge in gone) or bool(gone and holder.mark == "start")
    left = any(edge.source == holder.name for edge in gone)
    main = ({"weight": "20"} | ({} if gone else _MAIN)) if holder.main else {}
    look = {"color": labels.GREY, "class": "together"} | main
    for region in holder.first:
        cluster.edge(begun(holder.name), arrival(picture, region), **look | (_GONE if entered else {}))
        cluster.edge(done_of(region), done_of(holder.name), **look | (_GONE if left else {}))
