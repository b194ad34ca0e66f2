"""The machines of a project, each by the file that it stands in. It must not know who asks."""

from __future__ import annotations

from pathlib import Path

from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.definition.catalogue import Catalogue, files_at
from statemachine_agent.definition.faults import FaultyDefinitionError, Report
from statemachine_agent.definition.settings import Project
from statemachine_agent.errors import SmaError
from statemachine_agent.runtime.project import reach_of
from statemachine_agent.testing.generated import Subjects
from statemachine_agent.testing.subject import Subject, subject_of


def machines_of(project: Project) -> Subjects:
    """Every machine that the settings name, loaded, or what keeps it from being."""
    catalogue = Catalogue.read(project.machines, project.tools, project.people, *project.listed)
    checked_catalogue(catalogue)
    names = {Path(m.document.source.name).resolve(): name for name, m in catalogue.machines.items()}
    found: dict[Path, Subject | SmaError] = {}
    for path in files_at(project.machines, []):
        where = path.resolve()
        try:
            if where not in names:
                raise FaultyDefinitionError(_report(catalogue, where))
            found[where] = subject_of(catalogue, names[where], reach_of(project), project.folder)
        except SmaError as problem:
            found[where] = problem
    return Subjects(found)


def _report(catalogue: Catalogue, path: Path) -> Report:
    report = Report()
    report.add(f for f in catalogue.report.errors if Path(f.file).resolve() == path)
    return report
