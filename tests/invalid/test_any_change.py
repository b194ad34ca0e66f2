"""Whatever is done to a file: it loads, or its faults are told with places that are in it. Nothing else happens."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from invalid.texts import MACHINE, PEOPLE, TOOLS

from statemachine_agent.analysis.lint import lint
from statemachine_agent.chart.compile import checked_catalogue, compile_machine
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.source import Source

TEXTS = {"m.yaml": MACHINE, "people.yaml": PEOPLE, **{f"{name}.yaml": text for name, text in TOOLS.items()}}
BITS = [
    "", "null", "true", "-1", "1e400", "[]", "{}", '""', "a", "A", "*x", "&x y", "!t z", "on", "{a: b}", "[a, b]", "#",
    "input.x", "FAILED", "stay", "goto", "- x", ": y", "{", "}", "[", "]", "'", '"', ">-", "|", "\t", "with", "then",
    "choose", "99999999999999999999999999", '"é😀"', '"(((("', "2h", "call.args.x", "x: y", "evidence.look.id", "\x07",
]  # fmt: skip


@st.composite
def changed(draw: st.DrawFn, text: str) -> str:
    """A text with a few places changed as a hasty author would: lines lost, doubled, moved, words exchanged."""
    lines = text.splitlines()
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(lines) - 1))
        match draw(st.sampled_from(["drop", "double", "indent", "word", "cut", "append"])):
            case "drop" if len(lines) > 1:
                del lines[at]
            case "double":
                lines.insert(at, draw(st.sampled_from(lines)))
            case "indent":
                lines[at] = "  " * draw(st.integers(0, 4)) + lines[at].strip()
            case "word":
                words = lines[at].split(" ")
                words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from(BITS))
                lines[at] = " ".join(words)
            case "cut":
                column = draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:column] + draw(st.sampled_from(BITS)) + lines[at][column + 1 :]
            case _:
                lines[at] += " " + draw(st.sampled_from(BITS))
    return "\n".join(lines) + "\n"


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_a_changed_file_loads_or_its_faults_are_told(name: str, data: st.DataObject) -> None:
    texts = {**TEXTS, name: data.draw(changed(TEXTS[name]))}
    sources = {n: Source(n, text) for n, text in texts.items()}
    tools = [s for n, s in sources.items() if n not in ("m.yaml", "people.yaml")]
    catalogue = checked_catalogue(Catalogue.build([sources["m.yaml"]], tools, sources["people.yaml"]))
    catalogue.report.add(lint(catalogue))
    for fault in catalogue.report.faults:
        lines = texts[fault.file].splitlines()
        assert fault.mark.line < len(lines)
        assert fault.mark.column <= len(lines[fault.mark.line])
        assert fault.message and fault.advice and fault.line == lines[fault.mark.line]
        assert len(str(fault).splitlines()) == 4
    if not catalogue.report.errors:
        for machine in catalogue.machines:
            compile_machine(catalogue, machine)
