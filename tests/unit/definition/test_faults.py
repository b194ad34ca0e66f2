"""How a fault is shown, and how faults are kept."""

from __future__ import annotations

from statemachine_agent.definition.faults import Fault, Level, Mark, Report


def test_a_fault_shows_place_line_caret_and_advice() -> None:
    fault = Fault("m.yaml", Mark(11, 4), "is wrong", "mend it", line="    x: 1")
    assert str(fault) == "m.yaml:12:5: is wrong\n  12 |     x: 1\n     |     ^\n     = mend it"


def test_a_warning_says_so() -> None:
    assert str(Fault("m.yaml", Mark(), "odd", "look", Level.WARNING, "x")).startswith("m.yaml:1:1: warning: odd\n")


def test_a_file_as_a_whole_has_no_line() -> None:
    assert str(Fault("m.yaml", Mark(), "is not there", "make it")) == "m.yaml: is not there\n  = make it"


def test_a_long_line_is_cut_around_the_caret() -> None:
    line = "a" * 300 + "HERE" + "b" * 300
    _, shown, caret, _ = str(Fault("f", Mark(0, 300), "m", "a", line=line)).splitlines()
    assert len(shown) <= 120
    assert shown[caret.index("^") :].startswith("HERE")
    assert shown.count("…") == 2


def test_what_is_not_seen_is_escaped_and_the_caret_still_fits() -> None:
    fault = Fault("f", Mark(0, 8), "has \x1b", "say \u202e", line="\tab\x1bcd  HERE")
    first, shown, caret, advice = str(fault).splitlines()
    assert shown[caret.index("^") :] == "HERE"
    assert "\x1b" not in str(fault) and r"\x1b" in first
    assert r"\u202e" in advice


def test_a_report_keeps_each_fault_once_in_the_order_of_files_and_lines() -> None:
    one, two, three = (Fault(f, Mark(line), "m", "a") for f, line in (("b", 1), ("a", 9), ("a", 2)))
    report = Report()
    report.add([one, two])
    report.add([three, one])
    assert report.faults == [three, two, one]


def test_only_errors_keep_a_file_from_loading() -> None:
    report = Report()
    report.add([Fault("f", Mark(), "m", "a", level) for level in Level])
    assert [f.level for f in report.errors] == [Level.ERROR]
