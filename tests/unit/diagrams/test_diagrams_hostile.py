"""Texts of an author cannot break a picture, nor become a part of it that is none."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from markdown_it import MarkdownIt
from unit.diagrams.making import BIDI, HOSTILE, MACHINES, hostile, three

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.diagrams import diagram, labels, mermaid, table
from statemachine_agent.diagrams.build import picture_of
from statemachine_agent.diagrams.dot import dot_of
from statemachine_agent.diagrams.picture import Picture
from statemachine_agent.diagrams.render import draw
from statemachine_agent.text import one_line

SHOWN = one_line(HOSTILE, 400)


def with_hostile_names(picture: Picture) -> Picture:
    """The same picture as if names could be anything: no loader lets them pass, and the outputs do not rely on it."""
    return replace(
        picture,
        name=HOSTILE,
        edges=tuple(
            replace(e, lines=tuple(replace(x, on=HOSTILE, condition=HOSTILE, notes=(HOSTILE,)) for x in e.lines))
            for e in picture.edges
        ),
        nodes=tuple(
            replace(
                node,
                facts=(HOSTILE,),
                tools=tuple(
                    replace(tool, name=HOSTILE, pinned=((HOSTILE, HOSTILE),), use=HOSTILE) for tool in node.tools
                ),
            )
            for node in picture.nodes
        ),
        guards=((HOSTILE, HOSTILE),),
        holders=tuple(replace(holder, word=HOSTILE, mark=HOSTILE) for holder in picture.holders),
    )


@pytest.fixture(params=[*MACHINES, "names", "names of holders"])
def picture(request: pytest.FixtureRequest) -> Picture:
    if request.param == "names":
        return with_hostile_names(picture_of(hostile()))
    if request.param == "names of holders":
        return with_hostile_names(picture_of(three()))
    return picture_of(MACHINES[request.param]())


# ---------------------------------------------------------------- DOT and SVG


def test_a_hostile_text_is_drawn_as_it_is() -> None:
    root = ET.fromstring(diagram(hostile(), "svg"))  # noqa: S314  our own
    texts = ["".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]
    words = " ".join(" ".join(texts).replace("\N{NO-BREAK SPACE}", " ").split())
    for part in ("less < more > and & pipe | brace", "\\slash \\N \\n", "<b>bold</b>", "&amp; #quot;", "😀", "\\u202e"):
        assert words.count(part) >= 4, part  # the summary, the brief, two refusals
    assert {element.tag.partition("}")[2] for element in root.iter()} <= {
        "svg", "g", "title", "polygon", "polyline", "path", "text", "ellipse",
    }  # fmt: skip


def test_hostile_names_render_too() -> None:
    for machine in (hostile(), three()):
        svg = draw(dot_of(with_hostile_names(picture_of(machine))), "svg")
        ET.fromstring(svg)  # noqa: S314  our own


@pytest.mark.parametrize("form", ["svg", "png", "dot", "mmd", "md"])
def test_nothing_unseen_reaches_an_output(form: str) -> None:
    found = diagram(hostile(), form)
    assert BIDI.encode() not in found
    if form != "png":
        assert b"\x07" not in found


STATEMENTS = [
    r'\t+"?[\w@]+"?( -> "?[\w@]+"?)? \[.*\]',
    r"\tnewrank=true",
    r"\t+subgraph cluster_[A-Z][A-Z0-9_]* \{",
    r"\t+class=(compound|parallel|region) color=.* fillcolor=.* label=<.*> labeljust=[lr] .*",
    r"\t+\{",
    r"\t+rank=(same|sink)",
    r"\t+(note|SUCCEEDED)",
    r"\t+\}",
]


def test_each_statement_of_the_dot_source_is_one_line(picture: Picture) -> None:
    lines = dot_of(picture).rstrip().splitlines()
    assert lines[0].startswith("digraph ")
    assert lines[1].startswith("\tbgcolor=white ")
    assert lines[-1] == "}"
    for line in lines[2:-1]:
        assert any(re.fullmatch(form, line) for form in STATEMENTS), line
    arrows = [line for line in lines if " -> " in line.partition("[")[0]]
    assert len([line for line in arrows if "class=together" not in line]) == len(picture.edges)


def test_labels_are_escaped() -> None:
    assert labels.escape("<b>\"&'\n") == "&lt;b&gt;&quot;&amp;&#x27;\\\\x0a"


# ---------------------------------------------------------------- Mermaid

NAME = r"s_[A-Z][A-Z0-9_]*"
TEXT = r"(?:[^\x00-\x1f\"<>|:;#{}%\\`*$&~@^]|#\d+;)+"
GRAMMAR = [
    r"---",
    rf"title: {TEXT}",
    r"stateDiagram-v2",
    rf' +state "{TEXT}" as {NAME}( \{{)?',
    r" +\}",
    r" +--",
    rf" +{NAME} : {TEXT}",
    rf" +\[\*\] --> {NAME}",
    rf" +{NAME} --> ({NAME}|\[\*\])( : {TEXT}(<br/>{TEXT})*)?",
    rf"  note right of {NAME}",
    rf"    {TEXT}",
    r"  end note",
    r"  classDef k_\w+ fill:#\w{6},stroke:#\w{6},color:#\w{6},stroke-width:\dpx(,stroke-dasharray:5)?",
    r"  classDef k_now stroke-width:5px",
    rf"  class {NAME} k_\w+",
]


def test_every_line_of_the_mermaid_text_is_of_its_grammar(picture: Picture) -> None:
    for line in mermaid.mermaid_of(picture).splitlines():
        assert any(re.fullmatch(form, line) for form in GRAMMAR), line


def test_a_hostile_text_can_be_read_in_the_mermaid_text() -> None:
    text = diagram(hostile(), "mmd").decode()
    said = " ".join(re.findall(rf"^  s_NOTE : ({TEXT})$", text, re.MULTILINE))
    assert SHOWN in re.sub(r"#(\d+);", lambda code: chr(int(code[1])), said)


def test_mermaid_escapes_what_it_gives_a_meaning_to() -> None:
    assert mermaid.escape('a"<|:#;\n{}') == "a#34;#60;#124;#58;#35;#59;#92;x0a#123;#125;"
    assert mermaid.escape("[when a and b] → ok") == "[when a and b] → ok"


# ---------------------------------------------------------------- Markdown


def test_markdown_shows_just_the_words(picture: Picture) -> None:
    """Read by a Markdown parser: no HTML, no link, no image, and each table as wide as its head."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(table.table_of(picture))
    kinds = {token.type for token in tokens}
    assert not kinds & {"html_block", "fence", "code_block", "bullet_list_open", "ordered_list_open"}
    inside = {child.type for token in tokens if token.children for child in token.children}
    assert inside <= {"text", "text_special", "code_inline", "em_open", "em_close", "strong_open", "strong_close"}
    width = 0
    for token in tokens:
        if token.type == "tr_open":
            width = 0
        width += token.type in ("th_open", "td_open")
        if token.type == "tr_close" and token.level == 2:
            assert width >= 2
    assert len([t for t in tokens if t.type == "heading_open"]) == table.table_of(picture).count("\n\n## ") + 1


def test_a_hostile_text_can_be_read_in_the_markdown() -> None:
    machine: CompiledMachine = hostile()
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(diagram(machine, "md").decode())
    cells = ["".join(c.content for c in token.children or []) for token in tokens if token.type == "inline"]
    assert SHOWN in cells
    assert any(cell.startswith("refused: “quote") and "\\u202e" in cell for cell in cells)
    asked = machine.definition.guards["short"]
    assert isinstance(asked, str)
    assert one_line(asked, 4000) in cells
