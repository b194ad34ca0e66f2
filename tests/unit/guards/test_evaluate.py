"""Guards over a task's data: an error is never true and never false."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from invalid.texts import MACHINE, PEOPLE, TOOLS

from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.conjunctions import written_out
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.source import Source
from statemachine_agent.errors import GuardError
from statemachine_agent.guards.evaluate import Answers, call_guards, roots, truth, value

NOW = datetime(2026, 10, 28, 11, 17, 43, tzinfo=UTC)


def machine(**guards: str | list[str]) -> MachineDefinition:
    return MachineDefinition.model_validate(
        {
            "machine": "m", "version": 1, "summary": "x", "limits": {"steps": 1}, "success": [], "guards": guards,
            "initial": "A", "states": {"A": {"route": "FAILED"}},
        }
    )  # fmt: skip


def answers(data: Mapping[str, Any], **guards: str | list[str]) -> Answers:
    return Answers(machine(**guards), data)


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("text", "data", "path"),
    [
        ("input.extra == 'x'", {"input": {}}, "input.extra"),
        ("input.a.extra == 'input.extra'", {"input": {"a": {}}}, "input.a.extra"),
        ("input.x == 'x' && call.args.x == 'x'", {"input": {"x": "x"}, "call": {"args": {}}}, "call.args.x"),
        ("input.list[0].extra == 'x'", {"input": {"list": [{}]}}, "input.list[0].extra"),
        ("input.list.exists(p, p.extra == 'x')", {"input": {"list": [{}]}}, "p.extra"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_named_from_its_root_with_the_advice(
    text: str, data: Mapping[str, Any], path: str
) -> None:
    """An author who reads the end of a task knows which field it was, and what to write."""
    with pytest.raises(GuardError) as problem:
        answers(data, g=text)("g")
    assert f"there is no `{path}`" in str(problem.value)
    assert f"; ask `has({path})` first" in str(problem.value)


@pytest.mark.parametrize(
    ("text", "data", "problem"),
    [
        ("evidence.look.n > 1", {"evidence": {}}, "there is no `evidence.look`"),
        ("evidence.look.n > 1", {"evidence": {"look": {}}}, "there is no `evidence.look.n`"),
        ("evidence.look.n.m == 1", {"evidence": {"look": {"n": 1}}}, "n"),
        ("evidence.look.n > 1", {"evidence": {"look": {"n": "2"}}}, "`>` does not work on (string, int)"),
        ("evidence.look.n > 1", {"evidence": {"look": {"n": None}}}, "`>` does not work on (null_type, int)"),
        ("evidence.look.list[3] == 1", {"evidence": {"look": {"list": []}}}, "index=3"),
        ("evidence.look.n", {"evidence": {"look": {"n": 1}}}, "gave int, not true or false"),
        ("evidence.look.n", {"evidence": {"look": {"n": "true"}}}, "gave str, not true or false"),
        ("!evidence.look.n", {"evidence": {"look": {"n": "true"}}}, "`!` does not work"),
        ("evidence.look.n == 1 ? true : false", {"evidence": {}}, "there is no `evidence.look`"),
        ("evidence.look.n / 0 == 1", {"evidence": {"look": {"n": 1}}}, "divide by zero"),
        ("timestamp(evidence.look.n) < now", {"evidence": {"look": {"n": "soon"}}, "now": NOW}, "timestamp"),
        ("evidence.look.list.all(a, evidence.look.list.all(b, a + b >= 0))",
         {"evidence": {"look": {"list": list(range(200))}}}, "looks at too many things"),
        ("evidence.look.n == 1", {"evidence": {"look": {"n": 2**70}}}, "out of range"),
        ("evidence.look.n == 1", {"evidence": {"look": {"n": object()}}}, "n"),
        ("input.x == 1", {}, "input"),
        ("nonsense(", {}, "ends too early"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("around", ["{}", "!({})", "({}) && true", "({}) || false"])
def test_an_error_is_never_true_and_never_false(around: str, text: str, data: dict[str, Any], problem: str) -> None:
    """Nor is its negation: a broken guard opens no way and closes none."""
    with pytest.raises(GuardError) as caught:
        truth("g", around.format(text), data)
    if around == "{}":
        assert problem in caught.value.problem
    assert caught.value.guard == "g"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{'a': 1}[call.args.pin] == 1", "there is no such key"),
        ("call.args[call.args.pin] == 1", "there is no such key"),
        ("[1, 2][int(call.args.pin)] == 1", "Index error: size=2"),
        ("timestamp(call.args.pin) > now", "String to Timestamp conversion failed"),
        ("{'a': 1}['b'] == 1", "there is no `b`"),
    ],
)
def test_an_error_quotes_what_the_author_wrote_and_nothing_of_the_data(text: str, told: str) -> None:
    """What a call is made with may be nothing that is written down, and an error is."""
    with pytest.raises(GuardError) as caught:
        truth("g", text, {"call": {"args": {"pin": "7351"}}, "now": NOW})
    assert caught.value.problem.startswith(told)
    assert "7351" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("false && evidence.look.n > 1", False),
        ("evidence.look.n > 1 && false", False),
        ("true || evidence.look.n > 1", True),
        ("evidence.look.n > 1 || true", True),
        ("has(evidence.look) && evidence.look.n > 1", False),
        ("!has(evidence.look) || evidence.look.n > 1", True),
        ("has(evidence.look.n)", None),
        ("has(evidence.look) ? evidence.look.n > 1 : false", False),
    ],
)
def test_an_error_is_absorbed_only_where_the_other_side_decides(text: str, answer: bool | None) -> None:
    if answer is None:
        with pytest.raises(GuardError):
            truth("g", text, {"evidence": {}})
    else:
        assert truth("g", text, {"evidence": {}}) is answer


def test_absent_evidence_is_no_empty_list() -> None:
    """Over messages with defaults this would be true: no refund was ever looked for, and none exists."""
    with pytest.raises(GuardError):
        truth("g", "evidence.refunds.list.size() == 0", {"evidence": {}})


# ---------------------------------------------------------------- answers of one event


def test_a_guard_is_answered_once_and_in_the_order_of_asking() -> None:
    asked = []
    given = Answers(machine(a="now == now"), {"now": NOW}, {"approval_required": lambda: not asked.append(1)})
    assert [given("approval_required"), given("a"), given("approval_required")] == [True, True, True]
    assert list(given.given) == ["approval_required", "a"]
    assert asked == [1]


def test_a_list_of_guards_holds_where_all_hold_and_is_read_as_far_as_needed() -> None:
    data = {"evidence": {"look": {"n": 1}}}
    given = answers(data, one="evidence.look.n == 1", two="evidence.look.n == 2", bad="evidence.gone.n == 1",
                    both=["one", "two", "bad"], all_of_it=["one", "one"])  # fmt: skip
    assert given("both") is False
    assert given("all_of_it") is True
    assert given.given == {"one": True, "two": False, "both": False, "all_of_it": True}


def test_an_error_in_a_list_names_the_guard_that_has_it() -> None:
    given = answers({"evidence": {}}, bad="evidence.gone.n == 1", both=["bad"])
    with pytest.raises(GuardError, match=r"guard `bad`: there is no `evidence.gone`"):
        given("both")
    assert given.given == {}


def test_a_guard_that_is_not_there_is_an_error() -> None:
    with pytest.raises(GuardError, match="there is no such guard"):
        answers({}, a="now == now")("b")


def test_values_come_out_as_plain_data() -> None:
    assert value("r", "result.list[0]", {"result": {"list": [{"a": [1, "x", None, 1.5, True]}]}}) == {
        "a": [1, "x", None, 1.5, True]
    }
    with pytest.raises(GuardError, match="Index"):
        value("r", "result.list[0]", {"result": {"list": []}})


# ---------------------------------------------------------------- what a guard reads

ROOTS: dict[str, tuple[str, Any]] = {
    "input": ("input.id == '1'", {"id": "1"}),
    "actor": (
        "actor.id == 'ann' && actor.tenant == 't' && 'boss' in actor.roles && actor.scopes.size() == 0",
        {"id": "ann", "tenant": "t", "roles": ["boss"], "scopes": []},
    ),
    "evidence": ("has(evidence.look) && evidence.look.ok && !has(evidence.make)", {"look": {"ok": True, "id": "1"}}),
    "results": (
        "results.look.exists(r, r.asked.id == '1' && r.result.ok && timestamp(r.at) < now)",
        {"look": [{"asked": {"id": "1"}, "result": {"ok": True}, "at": "2026-10-28T11:00:00Z"}]},
    ),
    "asked": ("asked.look.id == '1'", {"look": {"id": "1"}}),
    "proposal": ("proposal.tool == 'make' && proposal.args.n == 3", {"tool": "make", "args": {"n": 3}}),
    "effects": (
        "effects.size() == 1 && effects[0].status == 'executed' && effects[0].key != ''",
        [{"tool": "make", "key": "k", "status": "executed"}],
    ),
    "approval": (
        "approval.status == 'approved' && approval.tool == 'make' && approval.id != '' && approval.expires_at != ''",
        {"id": "a", "tool": "make", "status": "approved", "expires_at": "2026-10-28T13:00:00Z"},
    ),
    "usage": (
        "usage.steps + usage.tokens == usage.tool_calls && usage.active_seconds < 5.5 && usage.cost_usd <= 0.5",
        {"steps": 1, "tokens": 2, "tool_calls": 3, "active_seconds": 4.5, "cost_usd": 0.25},
    ),
    "visits": ("visits.A == 2 && visits.B == 0", {"A": 2, "B": 0}),
    "now": ("now > timestamp('2026-10-28T11:00:00Z')", NOW),
}  # fmt: skip


def catalogue_with(**guards: str) -> Catalogue:
    """The machine with more guards, read where it branches."""
    lines = "".join(f'  {name}: "{text}"\n' for name, text in guards.items())
    text = MACHINE.replace("guards:\n", f"guards:\n{lines}")
    text = text.replace("{when: many,", f"{{when: [{', '.join(['many', *guards])}],")
    tools = [Source(f"{name}.yaml", tool) for name, tool in TOOLS.items()]
    return checked_catalogue(Catalogue.build([Source("m.yaml", text)], tools, Source("people.yaml", PEOPLE)))


@pytest.mark.parametrize("root", ROOTS)
def test_every_root_can_be_read(root: str) -> None:
    text, data = ROOTS[root]
    catalogue = catalogue_with(reads_it=text)
    assert catalogue.report.faults == []
    assert root in roots(text)
    everything = {name: found for name, (_, found) in ROOTS.items()}
    assert Answers(catalogue.machines["m"].definition, {**everything, root: data})("reads_it") is True


def test_call_can_be_read_in_rows() -> None:
    definition = catalogue_with().machines["m"].definition
    data = {"call": {"tool": "make", "args": {"id": "1", "n": 2}}, "input": {"id": "1"}}
    assert Answers(definition, data)("fits") is True


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("call.args.n > 1", True),
        ("has(call.args.n)", True),
        ("evidence.look.list.exists(p, p == call.args.n)", True),
        ('{"a": call.args.n}.a == 1', True),
        ("[call.args.n][0] == 1", True),
        ("input.call == 1", False),
        ('"call" == input.x', False),
        ("evidence.look.list.exists(call, call == 1)", False),
    ],
)
def test_whether_a_guard_depends_on_the_proposal_is_read_from_its_syntax(text: str, reads: bool) -> None:
    found = call_guards(machine(g=text, outer=["other", "g"], other="now == now"))
    assert found == ({"g", "outer"} if reads else set())


def test_lists_of_guards_that_share_their_parts_are_written_out_once() -> None:
    """Sixty levels of two lists that both hold both lists below: as many paths as 2 to the 60."""
    guards: dict[str, Any] = {"a0": "now == now", "b0": "call.tool == 'x'"}
    for i in range(60):
        guards |= {f"{n}{i + 1}": [f"a{i}", f"b{i}"] for n in "ab"}
    made = machine(**guards)
    assert written_out(made, ["a60"]) == ["a0", "b0"]
    assert call_guards(made) == set(guards) - {"a0"}
