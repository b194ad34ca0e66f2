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


def faults(count: int, level: Level, *, file: str = "m.yaml", first: int = 0) -> list[Fault]:
    return [Fault(file, Mark(first + n), f"m{n}", "a", level, "x") for n in range(count)]


def test_of_each_file_as_many_are_shown_as_a_person_reads() -> None:
    """The others are counted; another file has its own hundred."""
    report = Report()
    report.add([*faults(20_000, Level.WARNING), *faults(100, Level.ERROR, file="n.yaml")])
    lines = str(report).splitlines()
    assert lines.count("     = a") + lines.count("    = a") + lines.count("      = a") == 200
    assert "m.yaml: and 19,900 more" in lines
    assert not any(line.startswith("n.yaml: and") for line in lines)
    assert len(report.faults) == 20_100


def test_what_keeps_a_file_from_loading_is_shown_before_what_does_not() -> None:
    """And still in the order of lines."""
    report = Report()
    report.add([*faults(150, Level.WARNING), *faults(3, Level.ERROR, first=500), *faults(200, Level.NOTE, first=900)])
    text = str(report)
    shown = [line for line in text.splitlines() if line.startswith("m.yaml:") and "more" not in line]
    assert [line.split(":")[1] for line in shown] == [*map(str, range(1, 98)), "501", "502", "503"]
    assert text.endswith("m.yaml: and 253 more\n  = mend these first")


def test_how_many_of_the_others_keep_it_from_loading_is_said() -> None:
    report = Report()
    report.add([*faults(1200, Level.ERROR), *faults(7, Level.WARNING, first=5000)])
    assert str(report).splitlines()[-2] == "m.yaml: and 1,107 more, 1,100 of them faults"
