"""The pytest plugin: tests that follow from the machines, and how much of them the tests exercised.

It is there wherever the package is installed, and does nothing until `--sma-machines`, `--sma-coverage` or their settings in
the ini file ask for it. What it needs is imported then. It must not know how anything is measured.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from statemachine_agent.testing.coverage import MachineCoverage

_RECORDED = "sma_exercised"  # what a worker of pytest-xdist hands over


def pytest_addoption(parser: pytest.Parser) -> None:
    """The two options, and the same for the ini file."""
    group = parser.getgroup("statemachine-agent")
    group.addoption(
        "--sma-machines",
        action="store_true",
        help="try every tool in every state of the project's machines, and show what the tests exercised",
    )
    group.addoption(
        "--sma-coverage",
        metavar="PERCENT",
        type=float,
        help="the same, and fail where less than PERCENT of a machine's states, rows, guards or illegal pairs was exercised",
    )
    parser.addini("sma_machines", "as --sma-machines, where the project has machines", type="bool", default=False)
    parser.addini("sma_coverage", "as --sma-coverage=PERCENT", default="")


def pytest_configure(config: pytest.Config) -> None:
    """Read the project's machines, and add their files to what is collected."""
    asked = config.getoption("--sma-machines") or config.getoption("--sma-coverage") is not None
    if not (asked or config.getini("sma_machines")):
        return
    threshold_of(config)
    found = _subjects(config.rootpath)
    if found is None:
        if asked:
            raise pytest.UsageError(
                f"{config.rootpath} has no machines (say where they lie in statemachine-agent.toml)"
            )
        return
    from statemachine_agent.testing.generated import SUBJECTS

    config.stash[SUBJECTS] = found
    named = config.args_source is pytest.Config.ArgsSource.ARGS
    if not hasattr(config, "workerinput") and (asked or not named):
        given = {Path(str(config.invocation_params.dir), arg.split("::")[0]).resolve() for arg in config.args}
        new = [path for path in found.paths if not given & {path, *path.parents}]
        config.args += [str(path) for path in new]


def threshold_of(config: pytest.Config) -> float | None:
    """The percentage that is asked for; pytest.UsageError where the ini file holds no number."""
    given: float | None = config.getoption("--sma-coverage")
    text = str(config.getini("sma_coverage")).strip()
    if given is None and text:
        try:
            given = float(text)
        except ValueError:
            raise pytest.UsageError(f"sma_coverage: `{text}` is no number (write 90)") from None
    if given is not None and not 0 <= given <= 100:  # noqa: PLR2004  a percentage
        raise pytest.UsageError(f"--sma-coverage: {given:g} is no percentage (write a number from 0 to 100)")
    return given


def _subjects(folder: Path) -> Any:
    """The machines of the project in `folder`; None where there are none."""
    from statemachine_agent import files
    from statemachine_agent.definition.settings import load_project
    from statemachine_agent.errors import SmaError
    from statemachine_agent.testing.project import machines_of

    try:
        project = load_project(folder)
        if all(files.is_absent(place) for place in project.machines):
            return None
        return machines_of(project)
    except SmaError as problem:
        raise pytest.UsageError(str(problem)) from None


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """The file of a machine is a file of tests."""
    if not _is_active(parent.config):
        return None
    from statemachine_agent.testing.generated import SUBJECTS, MachineFile

    if file_path not in parent.config.stash[SUBJECTS]:
        return None
    found: pytest.Collector = MachineFile.from_parent(parent, path=file_path)
    return found


def pytest_runtest_teardown() -> None:
    """Walks that a test left open are closed."""
    walks = sys.modules.get("statemachine_agent.testing.walking")
    if walks is not None:
        walks.close_all()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:  # noqa: ARG001  pytest-xdist's signature
    """A worker of pytest-xdist is done: what it exercised counts here."""
    _add(getattr(node, "workeroutput", {}).get(_RECORDED, {}))


def _add(data: dict[str, Any]) -> None:
    from statemachine_agent.testing.record import RECORD, Exercised

    for digest, exercised in data.items():
        RECORD.setdefault(digest, Exercised()).add(Exercised.from_json(exercised))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker hands over what it exercised; elsewhere too little of it is a failure."""
    config = session.config
    if not _is_active(config):
        return
    if hasattr(config, "workeroutput"):
        from statemachine_agent.testing.record import RECORD

        config.workeroutput[_RECORDED] = {digest: found.as_json() for digest, found in RECORD.items()}
        return
    if session.exitstatus == pytest.ExitCode.OK and _too_little(config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _too_little(config: pytest.Config) -> list[MachineCoverage]:
    least = threshold_of(config)
    return [one for one in _coverage(config) if least is not None and one.percent < least]


def _coverage(config: pytest.Config) -> list[MachineCoverage]:
    from statemachine_agent.testing.coverage import measure
    from statemachine_agent.testing.generated import SUBJECTS
    from statemachine_agent.testing.record import of

    machines = [subject.compiled for subject in config.stash[SUBJECTS].loaded]
    return [measure(machine, of(machine)) for machine in machines]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """The table, and where it was too little also what is missing."""
    if not _is_active(config) or hasattr(config, "workerinput"):
        return
    from statemachine_agent.testing.coverage import missing_lines, table

    found, little, least = _coverage(config), _too_little(config), threshold_of(config)
    terminalreporter.section("coverage of the machines")
    for line in table(found):
        terminalreporter.write_line(line)
    for line in missing_lines(found if terminalreporter.verbosity > 0 else little):
        terminalreporter.write_line(line)
    for one in little:
        parts = ", ".join(f"{m.percent:.0f} % of the {m.name}" for m in one.measures if m.percent < (least or 0))
        text = f"FAILED: the tests exercised {parts} of {one.machine}; {least:g} % are asked for"
        terminalreporter.write_line(text, red=True)


def _is_active(config: pytest.Config) -> bool:
    generated = sys.modules.get("statemachine_agent.testing.generated")
    return generated is not None and generated.SUBJECTS in config.stash
