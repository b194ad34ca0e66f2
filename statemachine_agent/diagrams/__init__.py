"""Diagrams: what a machine can do as a picture, drawn from the transitions that are executed and from nothing else.

Every arrow is a transition, and every transition is shown: as an arrow, as a row inside its state, or in the note of
exits. Only the arrows of the bars at which regions begin and end together, and those by which Mermaid says where a state
begins, are none. No task, store or model is known here; where a task is comes in as a `Trail`.
"""

from __future__ import annotations

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.diagrams.build import picture_of
from statemachine_agent.diagrams.dot import dot_of
from statemachine_agent.diagrams.mermaid import mermaid_of
from statemachine_agent.diagrams.render import DrawingError, draw
from statemachine_agent.diagrams.table import table_of
from statemachine_agent.diagrams.trail import Trail
from statemachine_agent.errors import UsageError
from statemachine_agent.text import did_you_mean, one_line

__all__ = ["FORMATS", "DrawingError", "Trail", "diagram"]

#: what can be asked for; each is the ending of a file's name too
FORMATS = ("svg", "png", "dot", "mmd", "md")

_TEXTS = {"dot": dot_of, "mmd": mermaid_of, "md": table_of}


def diagram(
    machine: CompiledMachine,
    format: str,  # noqa: A002  the word that everybody uses for it
    trail: Trail | None = None,
    *,
    program: str | None = None,
) -> bytes:
    """The picture of `machine` in one of FORMATS, with the way of a task where a trail is given.

    `program` draws SVG and PNG; without it, graphviz-pure or the `dot` of the PATH does.
    """
    if format not in FORMATS:
        raise UsageError(f"`{one_line(format, 40)}` is no format of a diagram", hint=did_you_mean(format, FORMATS))
    picture = picture_of(machine, trail)
    if format in _TEXTS:
        return _TEXTS[format](picture).encode()
    return draw(dot_of(picture), format, program)
