"""The tests that follow from a machine by itself: every state with every tool, legal, hidden or illegal.

They lie, for pytest, in the machine's own file: `machines/NAME.yaml::STATE::TOOL`. It must not know what users test.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.chart.chart import Standing
from statemachine_agent.definition.states import ChooseState
from statemachine_agent.errors import GuardError, SmaError
from statemachine_agent.testing.samples import sample
from statemachine_agent.testing.standing import (
    CHOICES,
    arguments_of,
    assert_illegal,
    proposed,
    stand,
    standing_of,
)
from statemachine_agent.testing.subject import Subject


class MachineFile(pytest.File):
    """The file of one machine or of several."""

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        """A collector for each state of the machines that stand in the file."""
        found = self.config.stash[SUBJECTS].at(self.path)
        if isinstance(found, SmaError):
            yield Faulty.from_parent(self, name="loads", problem=found)
            return
        for state in found.compiled.definition.all_states:
            yield StateCollector.from_parent(self, name=state, subject=found)


class StateCollector(pytest.Collector):
    """One state."""

    def __init__(self, *, subject: Subject, **more: Any) -> None:
        super().__init__(**more)
        self.subject = subject

    def collect(self) -> Iterable[pytest.Item]:
        """A test for each tool and control choice."""
        for tool in (*self.subject.compiled.tools, *CHOICES):
            yield PairItem.from_parent(self, name=tool, subject=self.subject)


class PairItem(pytest.Item):
    """One state with one tool."""

    def __init__(self, *, subject: Subject, **more: Any) -> None:
        super().__init__(**more)
        self.subject = subject

    def runtest(self) -> None:
        """Illegal: no transition, and invalid. Hidden: refused with the row's text. Legal: offered, and no fault in it."""
        check_pair(self.subject, self.parent.name if self.parent else "", self.name)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A claim that failed in one line; anything else as ever."""
        if isinstance(excinfo.value, AssertionError | SmaError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The state's line in the machine's file."""
        state = self.parent.name if self.parent else ""
        return self.path, _line(self.subject, state), f"{self.subject.name}: {self.name} in {state}"


class Faulty(pytest.Item):
    """A machine that does not load."""

    def __init__(self, *, problem: SmaError, **more: Any) -> None:
        super().__init__(**more)
        self.problem = problem

    def runtest(self) -> None:
        """It fails with what `sma check` says."""
        raise self.problem

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:  # noqa: ARG002
        """The faults, each with its place."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The file."""
        return self.path, 0, f"{self.path.name} loads"


def _line(subject: Subject, state: str) -> int:
    for number, line in enumerate(subject.compiled.machine_source.text.splitlines()):
        if line.strip().startswith(f"{state}:"):
            return number
    return 0


def check_pair(subject: Subject, state: str, tool: str) -> None:
    """What must hold of a proposal of `tool` in `state`, with no evidence and with some of every tool."""
    machine = subject.compiled
    definition = machine.definition.all_states[state]
    named = isinstance(definition, ChooseState) and (tool in definition.choose or tool == "cannot_continue")
    if not named:
        assert_illegal(subject, state, tool)
        return
    for evidence in ({}, {name: sample(manifest.returns) for name, manifest in machine.tools.items()}):
        try:
            observation = stand(subject, state, evidence=evidence)
        except GuardError:
            continue  # a task cannot come here with this evidence, or ends at once, naming the guard
        standing, text = standing_of(observation, tool)
        if standing is Standing.ILLEGAL:
            raise AssertionError(f"{subject.name}: {state} names `{tool}`, and the chart has no transition for it")
        checked = proposed(observation, tool, arguments_of(machine, state, tool, {}))
        finding = checked.finding
        told = finding.text if finding is not None else "accepted"
        if standing is Standing.HIDDEN and (finding is None or finding.kind != "refused" or text not in told):
            raise AssertionError(
                f"{subject.name}: `{tool}` is hidden in {state} ({text}), and proposing it gave: {told}"
            )
        if finding is not None and finding.error_class == "illegal_tool":
            raise AssertionError(f"{subject.name}: `{tool}` is offered in {state}, and proposing it gave: {told}")


class Subjects:
    """The machines of a session, by the file that they stand in."""

    def __init__(self, found: dict[Path, Subject | SmaError]) -> None:
        """`found` holds a machine for each file, or why there is none."""
        self._found = found

    def __contains__(self, path: Path) -> bool:
        return path.resolve() in self._found

    def at(self, path: Path) -> Subject | SmaError:
        """The machine in the file `path`, or what is wrong with it."""
        return self._found[path.resolve()]

    @property
    def paths(self) -> list[Path]:
        """Every file."""
        return list(self._found)

    @property
    def loaded(self) -> Iterator[Subject]:
        """Every machine that could be loaded."""
        yield from (s for s in self._found.values() if isinstance(s, Subject))


#: where a session keeps its machines
SUBJECTS = pytest.StashKey[Subjects]()
