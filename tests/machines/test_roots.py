"""What an expression or a reference may stand on, as the checker says, is just what it is given when a task runs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent import SimulatedEnvironment
from statemachine_agent.definition import check_given, check_machine, check_tool, references
from statemachine_agent.guards import cel, check
from statemachine_agent.guards.evaluate import roots
from statemachine_agent.tools.outcome import LostError
from support.world import ACT, DONE, FIND, LOOK, MACHINE, NONE, ONE, act_step, world

PLAIN = "then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: FINDING}"
#: with an expression or a `with` in every place that can hold one
EVERYWHERE = (
    MACHINE.replace("      look: stay", "      look: {with: {thing: input.thing}}")
    .replace(PLAIN, PLAIN.replace("SUCCEEDED", "READING"))
    .replace("found: SUCCEEDED", "found: READING")
    .replace("      finish: SUCCEEDED", "      finish: [{unless: told, refuse: say more}, {goto: SUCCEEDED}]")
    .replace("success: [acted]", "  told: call.args.answer != ''\nsuccess: [acted]")
    + "  READING: {call: look, with: {thing: now}, then: {ok: LOOKING, failed: FAILED}}\n"
)
CHECKED = """
precondition:
  tool: look
  with: {thing: now}
  holds: result.good && now > timestamp("2020-01-01T00:00:00Z")
  reason: not_good
"""
WRITE = ACT.replace("with: {key: effect.key}", "with: {key: effect.key, at: now}") + CHECKED
LOOK_UP = FIND.replace("args:\n", "args:\n  at: {type: string}\n")
LOST = LostError("the line went dead", reason="timeout")
FINISH = {"call": "finish", "with": {"answer": "done"}}

#: there only while there is one: the allow-list asks guards that do not read it before there is a call
PERHAPS = {"call", "proposal"}


class Watch:
    """What the checker admitted and what came, for each expression and each kind of `with`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.admitted: dict[str, list[set[str]]] = {}
        self.given: dict[str, list[set[str]]] = {}
        self.referred: dict[frozenset[str], list[set[str]]] = {}
        self.filled: dict[frozenset[str], list[set[str]]] = {}
        self._check_text, self._value, self._fill = check.check_text, cel.Compiled.value, references.fill
        self._check_given = check_given.check_given
        patch.setattr(check, "check_text", self.check_text)
        patch.setattr(cel.Compiled, "value", lambda one, data: self.value(one, data))  # noqa: PLW0108  bound to `one`
        patch.setattr(references, "fill", self.fill)
        for module in (check_machine, check_tool):
            patch.setattr(module, "check_given", self.check_given)

    def check_text(self, document: Any, path: Any, text: str, environment: Any, **how: Any) -> Any:
        self.admitted.setdefault(text, []).append(set(environment[1].roots))
        return self._check_text(document, path, text, environment, **how)

    def value(self, one: cel.Compiled, data: Mapping[str, object]) -> object:
        self.given.setdefault(one.text, []).append(set(data))
        return self._value(one, data)

    def check_given(self, *args: Any, **how: Any) -> Any:
        bound = inspect.signature(self._check_given).bind(*args, **how).arguments
        self.referred.setdefault(bound["roots"], []).append(set(bound["known"]) | {"now"})  # `now` is typed by itself
        return self._check_given(*args, **how)

    def fill(self, given: Any, roots: frozenset[str], data: Mapping[str, object]) -> Any:
        self.filled.setdefault(roots, []).append(set(data))
        return self._fill(given, roots, data)


def test_every_place_is_given_the_roots_that_the_checker_admits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = Watch(monkeypatch)
    environment = SimulatedEnvironment()

    async def main() -> None:
        how: dict[str, Any] = {"machine": EVERYWHERE, "texts": (LOOK, WRITE, LOOK_UP), "environment": environment}
        steps = ({"call": "look"}, act_step(), FINISH)
        async with world(tmp_path, *steps, act=[LOST, DONE], find=[NONE, ONE], **how) as here:
            assert not here.runtime.catalogue.report.errors, str(here.runtime.catalogue.report)
            end = await here.run()
            assert (end.head.status, end.head.reason) == ("SUCCEEDED", "completed")
        (tmp_path / "again").mkdir()
        async with world(tmp_path / "again", *steps, act=[LOST], find=[ONE], **how) as here:
            assert (await here.run()).head.status == "SUCCEEDED"

    environment.run(main())
    assert watch.admitted.keys() <= watch.given.keys(), "every expression was asked"
    for text, places in watch.admitted.items():
        for given in watch.given[text]:
            assert any(given - admitted <= PERHAPS >= admitted - given for admitted in places), (text, given, places)
            assert roots(text) <= given, text
    assert watch.filled.keys() == watch.referred.keys() == {references.MACHINE_ROOTS, references.MANIFEST_ROOTS}
    for named, places in watch.referred.items():
        assert all(known == named for known in places), (named, places)
        assert all(named <= given | PERHAPS for given in watch.filled[named])
