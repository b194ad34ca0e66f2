"""Expressions checked when a definition is loaded: all of them, each where it stands."""

from __future__ import annotations

import pytest
from invalid.texts import MACHINE, PEOPLE, TOOLS

from statemachine_agent.chart.compile import checked_catalogue, compile_machine
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.source import Source
from statemachine_agent.errors import GuardError
from statemachine_agent.guards.check import checked_guards, untrusted_fields
from statemachine_agent.guards.evaluate import Answers, value
from support.playing import swap

INNER = """\
machine: inner
version: 2
summary: x
limits: {steps: 3}
input: {y: {type: string}}
guards: {own: evidence.look.id == input.y}
success: [own]
initial: X
states:
  X: {choose: {look: stay, finish: SUCCEEDED}, then: [{unless: own, goto: W}]}
  W: {wait: {until: timestamp(input.y), at_most: 2}, then: {elapsed: X, exhausted: FAILED}}
"""
OUTER = """\
machine: outer
version: 1
summary: x
limits: {steps: 9}
input: {x: {type: string}}
guards:
  a: input.x == "a"
  behind: %s
success: [a]
initial: IN
states:
  IN: {machine: inner@2, with: {y: input.x}, then: {SUCCEEDED: B, FAILED: FAILED}}
  B: {choose: {look: [{when: [a, behind], goto: A}], finish: SUCCEEDED}}
  A: {route: SUCCEEDED}
"""


#: what is masked is the input's `x`, and the `id` that `look` was asked for and gave
MASKED = """\
machine: masked
version: 1
summary: x
limits: {steps: 9}
input: {x: {type: string}, z: {type: string}}
redact: [input.x, evidence.look.id]
guards:
  g: %s
success: [g]
initial: A
states:
  A: {choose: {look: {with: {id: input.z}}, finish: SUCCEEDED}}
"""
MASKING = swap(TOOLS["look"], ("args: {", "redact: [args.id]\nargs: {"))


def faults(machines: dict[str, str], tools: dict[str, str] = TOOLS) -> list[str]:
    """What is said of them, without what is only a warning."""
    catalogue = Catalogue.build(
        [Source(f"{name}.yaml", text) for name, text in machines.items()],
        [Source(f"{name}.yaml", text) for name, text in tools.items()],
        Source("people.yaml", PEOPLE),
    )
    return sorted(f"{f.file}: {f.message}" for f in checked_catalogue(catalogue).report.errors)


def test_every_machine_and_every_tool_is_told_its_own() -> None:
    """One mistake does not hide another, in whatever file it stands."""
    wrong = MACHINE.replace("call.args.n > 1", "call.args.n > false")
    other = wrong.replace("machine: m\n", "machine: other\n").replace("> false", "> true")
    tools = TOOLS | {
        "make": swap(TOOLS["make"], ("holds: result.ok", "holds: result.nok"), ("args.n > 10", "args.m > 10")),
        "more": swap(
            TOOLS["make"], ("tool: make", "tool: more"), ('"make:{id}"', '"more:{id}"'), ("args.n > 10", "args.o > 10")
        ),
    }
    assert faults({"m": wrong, "other": other}, tools) == [
        "m.yaml: `>` does not work on (int, bool)",
        "make.yaml: `args` has no field `m`",
        "make.yaml: `result` has no field `nok`",
        "more.yaml: `args` has no field `o`",
        "other.yaml: `>` does not work on (int, bool)",
    ]


def test_what_stands_in_a_machine_hides_no_fault_of_the_machine() -> None:
    """Guards of the inner one come first; those behind them are checked all the same, and the inner ones only at home."""
    assert faults({"inner": INNER, "outer": OUTER % "input.x == 'b'"}) == []
    assert faults({"inner": INNER, "outer": OUTER % "input.z == 'b'"}) == ["outer.yaml: `input` has no field `z`"]
    assert faults({"inner": INNER, "outer": OUTER % "visits.IN__X > 1"}) == [
        "outer.yaml: `visits` has no field `IN__X`"
    ]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("evidence.look.id == 'a'", "`id` of `look`"),
        ("results.look.exists(r, r.result.id == 'a')", "`id` of `look`"),
        ("asked.look.id == 'a'", "`id` of what `look` was asked"),
        ("results.look.exists(r, r.asked.id == 'a')", "`id` of what `look` was asked"),
        ("input.x == 'a'", "`x` of the input"),
        (
            "usage.steps > 1 && evidence.look.ok && input.z == 'b' && asked.look.id == 'a'",
            "`id` of what `look` was asked",
        ),
        ("usage.steps > 1 && evidence.look.ok && input.z == 'b' && results.look.size() == 1", None),
        ("has(evidence.look.id)", None),
        ("1 == {input.x:1}.size()", "`x` of the input"),
        ("1 == {input.z:1}.size()", None),
    ],
)
def test_what_is_masked_is_read_by_no_guard_in_whatever_way(text: str, read: str | None) -> None:
    """It would see the mask, and take it for the value; that there is one may be asked."""
    found = faults({"masked": MASKED % text}, TOOLS | {"look": MASKING})
    assert found == ([f"masked.yaml: `g` reads {read}, which is masked"] if read else [])


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("{when: p, goto: A}", None),
        ("{when: p, stay: true}", "nothing is called `proposal`"),
        ("{when: c, goto: A}", "nothing is called `call`"),
        ("{when: c, stay: true}", "nothing is called `call`"),
        ("{when: c, refuse: no}", None),
        ("{when: t, refuse: no}", None),
        ("{when: t, goto: A}", "nothing is called `call`"),
        ("{when: p, refuse: no}", "nothing is called `proposal`"),
    ],
)
def test_a_row_of_a_read_sees_what_is_there_when_it_is_judged(row: str, fault: str | None) -> None:
    """The call while it is proposed, what was proposed before when its result is recorded; a row for both sees neither."""
    text = swap(
        MACHINE,
        (
            "  seen: evidence",
            "  p: proposal.args.id == input.id\n  c: call.args.id == input.id\n  t: call.tool == 'look'\n  seen: evidence",
        ),
        ("rows: [{when: seen, goto: A}", f"rows: [{row}, {{when: seen, goto: A}}"),
    )
    assert [f.removeprefix("m.yaml: ") for f in faults({"m": text})] == ([fault] if fault else [])


def test_a_guard_of_an_inner_machine_sees_the_input_and_the_visits_of_that() -> None:
    """Its input is what the holder fills in; what does not fill it is absent. All else is the task's."""
    catalogue = Catalogue.build(
        [
            Source("outer.yaml", OUTER % "visits.B > 1"),
            Source("inner.yaml", swap(INNER, ("id == input.y", "id == input.y && visits.X == 2 && visits.W == 0"))),
        ],
        [Source(f"{name}.yaml", text) for name, text in TOOLS.items()],
        Source("people.yaml", PEOPLE),
    )
    machine = compile_machine(checked_catalogue(catalogue), "outer").definition
    data = {"input": {"x": "7"}, "visits": {"IN": 5, "IN__X": 2, "B": 2}, "evidence": {"look": {"id": "7"}}}
    assert [Answers(machine, data)(guard) for guard in ("in__own", "behind", "a")] == [True, True, False]
    assert not Answers(machine, {**data, "visits": {"IN__X": 3, "X": 2}})("in__own")
    with pytest.raises(GuardError, match=r"^guard `in__own`: there is no "):
        Answers(machine, {**data, "input": {"y": "7"}})("in__own")


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ("evidence: {look: [id]}", ["`make` reads `ok` of `look`", "`seen` reads `ok` of `look`"]),
        ("evidence: {find: []}", ["`made` reads `found` of `find`", "`make` reads `found` of `find`"]),
        ("input: [id]", []),
    ],
)
def test_what_a_write_is_decided_on_is_masked_by_no_machine(kept: str, told: list[str]) -> None:
    """Its precondition and its reconciliation would judge the mask; it is told once for each tool."""
    found = faults({"m": MACHINE.replace("limits:", f"retain: {{{kept}}}\nlimits:")})
    assert found == [f"m.yaml: {reads}, which is masked" for reads in told]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("proposal.args.n == 3 || proposal.args.n == 'a'", None),
        ("proposal.args.id == 3", "`==` does not work on (string, int)"),
        ("proposal.args.id == 'x'", None),
        ("proposal.tool == 'more'", None),
        ("proposal.tool == 7", "`==` does not work on (string, int)"),
        ("proposal.args.o == 'x'", "`proposal.args` has no field `o`"),
    ],
)
def test_what_is_proposed_has_the_arguments_of_all_writes(text: str, fault: str | None) -> None:
    """One that is of two kinds can be anything; one of which all say the same is of that kind."""
    more = swap(
        TOOLS["make"],
        ("tool: make", "tool: more"),
        ('"make:{id}"', '"more:{id}"'),
        ("n: {type: integer}", "n: {type: string}"),
    )
    machine = swap(
        MACHINE,
        ("many: proposal.args.n > 3", f"many: {text}"),
        (
            "      finish: SUCCEEDED",
            "      more: {rows: [{unless: told, refuse: no}, {goto: B}]}\n      finish: SUCCEEDED",
        ),
    )
    found = faults({"m": machine}, TOOLS | {"more": more.replace("args.n > 10", "args.n == 'b'")})
    assert [f for f in found if "`many`" in f or "proposal" in f or "does not work" in f] == (
        [f"m.yaml: {fault}"] if fault else []
    )


def test_every_field_of_what_a_reconciliation_finds_is_compared() -> None:
    """Also those behind one that may be absent."""
    make = swap(
        TOOLS["make"],
        ("returns: {made_id", "returns: {note: {type: string, optional: true}, made_id: {type: string}, sum"),
    )
    assert faults({"m": MACHINE}, TOOLS | {"make": make}) == ["make.yaml: what is found has no `sum`"]
    of_another_kind = make.replace("sum: {type: string}", "made_id: {type: integer}").replace(
        "made_id: {type: string}, ", ""
    )
    assert "make.yaml: `made_id` is of type string there and of type integer here" in faults(
        {"m": MACHINE}, TOOLS | {"make": of_another_kind}
    )


def test_masks_of_the_input_are_those_of_the_machine_that_masks() -> None:
    """An inner machine's input is another one, even where a field of it has the same name."""
    outer = swap(
        OUTER % "input.x == 'b'", ("input: {x: {type: string}}", "input: {x: {type: string}, y: {type: string}}")
    )
    masked = outer.replace("guards:", "redact: [input.y]\nguards:")
    assert faults({"inner": INNER, "outer": masked}) == []
    filled = "outer.yaml: a `with` of `IN` reads `y` of the input, which is masked"
    assert faults({"inner": INNER, "outer": masked.replace("{y: input.x}", "{y: input.y}")}) == [filled]


def test_a_mask_of_the_holder_hides_from_the_guards_of_what_stands_in_it() -> None:
    """They read the same evidence; it is told at the state in which they stand."""
    outer = (OUTER % "input.x == 'b'").replace("guards:", "redact: [evidence.look.id]\nguards:")
    assert faults({"inner": INNER, "outer": outer}) == ["outer.yaml: `in__own` reads `id` of `look`, which is masked"]


@pytest.mark.parametrize(
    ("control", "text", "fault"),
    [
        ("finish", "call.tool == 'finish' && call.args.answer == 'x'", None),
        ("finish", "call.args.answer.verdict == 'x'", "what is of type string cannot be looked into"),
        ("cannot_continue", "call.tool == 'x' || call.args.reason == 'x'", None),
        ("cannot_continue", "call.args.answer == 'x'", "`call.args` has no field `answer`"),
    ],
)
def test_a_guard_knows_what_a_control_is_given(control: str, text: str, fault: str | None) -> None:
    """As of a tool: a name that is not there is told when the file is loaded, not when a task stands there."""
    row = f"{control}: [{{unless: g, refuse: no}}, {{goto: {'SUCCEEDED' if control == 'finish' else 'FAILED'}}}]"
    machine = swap(
        MASKED,
        ("finish: SUCCEEDED", row),
        ("success: [g]", "success: []"),
        ("redact: [input.x, evidence.look.id]\n", ""),
    )
    found = faults({"masked": machine % text})
    assert (found == []) if fault is None else (fault in found[0] and len(found) == 1), found


def test_a_condition_on_a_look_up_reads_no_list_of_which_the_elements_are_masked() -> None:
    """It is told in the tool's own file; and a condition has to be true or false, whatever could be in an object."""
    look = swap(
        TOOLS["look"],
        ("args: {", "redact: ['names[]']\nargs: {"),
        ("returns: {", "returns: {names: {type: array, items: {type: string}}, "),
    )
    make = swap(TOOLS["make"], ("holds: result.ok", "holds: \"'x' in result.names\""))
    assert faults({"m": MACHINE}, TOOLS | {"look": look, "make": make}) == [
        "make.yaml: it reads `names[]` of `look`, which is masked"
    ]
    free = swap(
        TOOLS["make"],
        ("n: {type: integer}", "n: {type: integer}, free: {type: object, optional: true}"),
        ("args.n > 10", "args.free.a"),
    )
    assert faults({"m": MACHINE}, TOOLS | {"make": free}) == ["make.yaml: this is anything at all, not true or false"]


def test_an_expression_for_what_is_found_is_checked_too() -> None:
    """It would be read for the first time when an effect is in doubt."""
    make = swap(TOOLS["make"], ('"result.found[0]"', "result.gone"))
    assert faults({"m": MACHINE}, TOOLS | {"make": make}) == ["make.yaml: `result` has no field `gone`"]


def test_what_a_machine_masks_in_vain_is_told_at_its_own_words() -> None:
    """At `redact`, or where there is none at `retain`; not in the file of the tool, which others use too."""
    for words in ("retain: {evidence: {look: [id, ok]}}", "redact: [evidence.look.text]"):
        text = swap(MACHINE, ("limits:", f"{words}\nlimits:"))
        look = swap(TOOLS["look"], ("returns: {", "returns: {text: {type: string}, "))
        make = swap(TOOLS["make"], ("holds: result.ok", "holds: result.ok && result.text != 'x'"))
        catalogue = Catalogue.build(
            [Source("m.yaml", text)],
            [Source(f"{name}.yaml", tool) for name, tool in (TOOLS | {"look": look, "make": make}).items()],
            Source("people.yaml", PEOPLE),
        )
        told = [f for f in checked_catalogue(catalogue).report.errors if f.message.startswith("`make` reads")]
        assert [(f.file, f.line, f.advice) for f in told] == [("m.yaml", words, "do not mask it")]


@pytest.mark.parametrize(
    ("time", "fault"),
    [
        ("2026-10-28T11:17:43", "the time `2026-10-28T11:17:43` names no zone"),
        ("2026-10-28T11:17:43Z", None),
        ("2026-10-28T11:17:43+05:30", None),
    ],
)
def test_a_time_without_a_zone_is_no_time(time: str, fault: str | None) -> None:
    """It would be another one on another machine."""
    found = faults(
        {"masked": MASKED.replace("redact: [input.x, evidence.look.id]\n", "") % f"now < timestamp('{time}')"}
    )
    assert found == ([f"masked.yaml: {fault}"] if fault else [])


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("{id: evidence.look.id}", "`id` of `look`"),
        ("{n: 3, id: evidence.look.id}", "`id` of `look`"),
        ("{id: input.x}", "`x` of the input"),
        ("{n: 3, id: input.z}", None),
    ],
)
def test_what_is_masked_fills_no_argument(given: str, read: str | None) -> None:
    """The tool would be called with the mask."""
    text = swap(
        MASKED % "evidence.look.ok",
        (
            "finish: SUCCEEDED",
            f"more: {{with: {given}, rows: [{{unless: g, refuse: no}}, {{stay: true}}]}}, finish: SUCCEEDED",
        ),
    )
    more = swap(TOOLS["look"], ("tool: look", "tool: more"), ("args: {", "args: {n: {type: integer, optional: true}, "))
    found = faults({"masked": text}, TOOLS | {"more": more})
    assert found == ([f"masked.yaml: a `with` of `A` reads {read}, which is masked"] if read else [])


def test_every_literal_and_every_rule_is_told() -> None:
    """Not the last one only."""
    text = MASKED.replace("redact: [input.x, evidence.look.id]\n", "") % "timestamp('soon') < timestamp('later')"
    assert faults({"masked": text}) == ["masked.yaml: `later` is no time", "masked.yaml: `soon` is no time"]
    make = swap(
        TOOLS["make"], ("[{when: args.n > 10, ", "[{when: args.p > 1, by: boss, because: x}, {when: args.q > 10, ")
    )
    assert faults({"m": MACHINE}, TOOLS | {"make": make}) == [f"make.yaml: `args` has no field `{n}`" for n in "pq"]


def test_free_text_from_outside_that_a_guard_reads_is_known() -> None:
    """The field itself, or a list of such texts; what is only asked for (`has`) is not read."""
    look = swap(
        TOOLS["look"],
        (
            "returns: {",
            "returns: {note: {type: string, untrusted: true}, notes: {type: array, items: {type: string, untrusted: true}}, ",
        ),
    )
    text = "evidence.look.note == 'a' && 'b' in evidence.look.notes && has(evidence.look.id) && evidence.look.ok"
    catalogue = Catalogue.build(
        [Source("masked.yaml", MASKED.replace("redact: [input.x, evidence.look.id]\n", "") % text)],
        [Source(f"{name}.yaml", tool) for name, tool in (TOOLS | {"look": look}).items()],
        Source("people.yaml", PEOPLE),
    )
    found, *_ = checked_guards(catalogue, catalogue.machines["masked"])
    assert found[2] is not None
    assert untrusted_fields(found[2]) == ["evidence.look.note", "evidence.look.notes"]


def test_a_guard_that_is_not_there_and_a_value_that_is_not_there_are_errors_with_their_names() -> None:
    """Whoever reads the error looks for that name."""
    catalogue = Catalogue.build(
        [Source("m.yaml", MACHINE)], [Source(f"{n}.yaml", t) for n, t in TOOLS.items()], Source("people.yaml", PEOPLE)
    )
    with pytest.raises(GuardError, match=r"^guard `gone`: there is no such guard$"):
        Answers(catalogue.machine("m").definition, {})("gone")
    with pytest.raises(GuardError, match=r"^guard `until`: .*`input.x`"):
        value("until", "input.x", {"input": {}})


HIDING = swap(
    TOOLS["find"],
    ("args: {", "redact: ['found[].made_id']\nargs: {"),
    ("made_id: {type: string}", "made_id: {type: string}, more: {type: object, properties: {pin: {type: string}}}"),
)
PASSES = "make.yaml: it passes on `found[].made_id` of `find`, which is masked"


@pytest.mark.parametrize(
    ("find", "make", "told"),
    [
        (HIDING, TOOLS["make"], [PASSES]),
        (HIDING, swap(TOOLS["make"], ("args: {", "redact: [made_id]\nargs: {")), []),
        (
            HIDING,
            swap(
                TOOLS["make"],
                ("args: {", "redact: [made_id]\nargs: {"),
                ("made_id: {type: string}", "made_id: {type: string, maxLength: 5}"),
            ),
            [f"{PASSES}, and `made_id` of `make` has to be there"],
        ),
        (
            HIDING,
            swap(TOOLS["make"], ("result.found[0]", "result.found.filter(f, f.made_id != '')[0]")),
            ["make.yaml: it reads `found[].made_id` of `find`, which is masked"],
        ),
        (HIDING, swap(TOOLS["make"], ("result.found[0]", "result.found.filter(f, has(f.more))[0]")), [PASSES]),
        (
            HIDING,
            swap(TOOLS["make"], ("result.found[0]", "dyn(result.found[0])")),
            [f"{PASSES}, since it could be anything"],
        ),
        (
            swap(HIDING, ("found[].made_id", "found[].more.pin")),
            swap(TOOLS["make"], ("returns: {", "returns: {more: {type: object}, ")),
            ["make.yaml: it passes on `found[].more.pin` of `find`, which is masked"],
        ),
        (swap(HIDING, ("found[].made_id", "found[].more.pin")), TOOLS["make"], []),
    ],
    ids=["passed on", "masked too", "cannot be masked", "read", "chosen", "anything", "not described", "not kept"],
)
def test_a_reconciliation_passes_on_no_mask(find: str, make: str, told: list[str]) -> None:
    """What the look-up masks would be the write's own result, which a next write may be made with."""
    free = swap(
        MACHINE, ('made: evidence.make.made_id != "" && evidence.find.found.size() == 1', "made: usage.steps > 1")
    )
    assert faults({"m": free}, TOOLS | {"find": find, "make": make}) == told


ON = ["m.yaml: `make` passes on `found[].made_id` of `find`, which is masked"]


@pytest.mark.parametrize(
    ("masks", "told"),
    [
        ("redact: ['evidence.find.found[].made_id']", ON),
        ("retain: {evidence: {find: ['found[].more']}}", ON),
        (
            "redact: ['evidence.find.found[].made_id', evidence.make.made_id]",
            ["m.yaml: `made` reads `made_id` of `make`, which is masked"],
        ),
        ("redact: ['evidence.find.found[].more.pin']", []),
    ],
)
def test_nor_what_only_the_machine_masks(masks: str, told: list[str]) -> None:
    find = swap(HIDING, ("redact: ['found[].made_id']\n", ""))
    assert faults({"m": MACHINE.replace("limits:", f"{masks}\nlimits:")}, TOOLS | {"find": find}) == told


def test_what_holds_something_masked_is_no_argument() -> None:
    """An object as a whole takes its masked fields along, into a call or a key."""
    look = swap(
        TOOLS["look"],
        ("args: {", "redact: [whole.pin]\nargs: {whole: {type: object, optional: true}, "),
        ("returns: {", "returns: {whole: {type: object, properties: {pin: {type: string}}}, "),
    )
    taking = MACHINE.replace(
        "F: {call: look, with: {id: effects.make.key}",
        "F: {call: look, with: {id: effects.make.key, whole: evidence.look.whole}",
    )
    assert faults({"m": MACHINE}, TOOLS | {"look": look}) == []
    assert faults({"m": taking}, TOOLS | {"look": look}) == [
        "m.yaml: a `with` of `F` takes `whole.pin` of `look` along, which is masked"
    ]
