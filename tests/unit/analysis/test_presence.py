"""Guards that read a result which may not be there: everybody forgets `has(…)` once."""

from __future__ import annotations

import pytest

from statemachine_agent import Catalogue
from statemachine_agent.analysis.lint import lint
from statemachine_agent.chart.compile import checked_catalogue
from support.refund import MACHINES, PEOPLE, TOOLS
from support.world import MACHINE, catalogue


def warnings(machine: str = MACHINE) -> list[str]:
    found = checked_catalogue(catalogue(machine))
    assert found.report.errors == [], str(found.report)
    return [f.message for f in lint(found) if "may not be there yet" in f.message]


def test_a_guard_that_is_asked_for_first_is_no_finding() -> None:
    assert warnings() == []


def test_the_shipped_machines_ask_first() -> None:
    found = checked_catalogue(Catalogue.read([MACHINES], [TOOLS], PEOPLE))
    assert [f.message for f in lint(found) if "may not be there" in f.message] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        - {unless: looked, refuse: look first}\n", ""),
        ("has(evidence.look) && !evidence.look.good", "evidence.look.good == false"),
        ("looked: has(evidence.look)", "looked: has(evidence.look) || input.thing == 'x'"),
        ("{unless: looked, refuse: look first}", "{when: looked, refuse: look first}"),
    ],
    ids=["row left out", "in `then`", "not sure", "the other way round"],
)
def test_forgetting_to_ask(old: str, new: str) -> None:
    assert old in MACHINE
    (found,) = warnings(MACHINE.replace(old, new))
    assert "reads `evidence.look`, which may not be there yet in `LOOKING`" in found


def test_what_a_path_records_is_there_behind_it() -> None:
    """Behind `ok` and `found` of a call its result is there; behind its other outcomes it is not."""
    good = MACHINE.replace("guards:", "guards:\n  big: evidence.act.id == 'x'").replace(
        "then: {ok: SUCCEEDED,", "then: {ok: [{when: big, goto: SUCCEEDED}, {goto: FAILED}],"
    )
    assert warnings(good) == []
    bad = good.replace("ok: [{when: big, goto: SUCCEEDED}, {goto: FAILED}]", "ok: SUCCEEDED").replace(
        "failed: FAILED, blocked", "failed: [{when: big, goto: DENIED}, {goto: FAILED}], blocked"
    )
    (found,) = warnings(bad)
    assert "`big` reads `evidence.act`" in found and "`ACTING`" in found


def test_what_is_there_on_one_path_only_is_not_sure() -> None:
    """Two ways into a state, one without the result."""
    machine = MACHINE.replace("ask_user: NEEDS_INPUT", "ask_user: NEEDS_INPUT\n      find: PROPOSED").replace(
        "{when: approval_required, goto: ASKING}", "{when: good, goto: ASKING}"
    )
    (found,) = warnings(machine)
    assert "`good` reads `evidence.look`" in found and "`PROPOSED`" in found
