"""`check` and `diagram`: definitions are read, judged and drawn; nothing is run."""

from __future__ import annotations

from pathlib import Path

import click

from statemachine_agent import files
from statemachine_agent.chart.compile import checked_catalogue, compile_machine
from statemachine_agent.cli.options import catalogue_of, db_option, json_option, open_store, project_of, run_async
from statemachine_agent.cli.output import say, show_json
from statemachine_agent.definition.catalogue import Catalogue, files_at
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.settings import Project
from statemachine_agent.definition.source import read, read_text
from statemachine_agent.errors import UsageError
from statemachine_agent.text import one_line


@click.command(short_help="Judge machines and manifests.")
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@json_option
@click.pass_context
def check(context: click.Context, paths: tuple[str, ...], as_json: bool) -> int:  # noqa: FBT001
    """Load and judge machines and manifests: those at PATH, else all of the settings."""
    from statemachine_agent.analysis.lint import lint

    project = project_of(context)
    catalogue = checked_catalogue(_named(project, paths) if paths else catalogue_of(project))
    catalogue.report.add(
        lint(
            catalogue,
            frozenset(project.settings.python_packages),
            project.programs,
            project.servers,
            folder=project.folder,
        )
    )
    report = catalogue.report
    if as_json:
        show_json(
            {
                "faults": [
                    {
                        "file": f.file,
                        "line": f.mark.line + 1,
                        "column": f.mark.column + 1,
                        "level": f.level,
                        "message": f.message,
                        "advice": f.advice,
                    }
                    for f in report.faults
                ],
                "machines": sorted(catalogue.machines),
                "tools": sorted(catalogue.tools),
            }
        )
        return 1 if report.errors else 0
    if report.faults:
        say(str(report))
    if project.people is None:
        say(f"warning: there is no people file at {project.path(project.settings.people)}: no role is checked")
    for name, file in sorted(catalogue.machines.items()):
        if not any(f.file == file.document.source.name for f in report.errors):
            say(_line(catalogue, name))
    count = len(report.errors)
    say(f"{count or 'no'} fault{'s' if count != 1 else ''}")
    return 1 if count else 0


def _line(catalogue: Catalogue, name: str) -> str:
    definition = catalogue.machines[name].definition
    tools = len(catalogue.used_tools(definition))
    proved = f", {len(definition.properties)} properties not proved yet" if definition.properties else ""
    return f"{name} {definition.version}: {len(definition.all_states)} states, {tools} tools{proved}"


def _named(project: Project, paths: tuple[str, ...]) -> Catalogue:
    """The files at `paths`, by what they are; machines are checked against the settings' manifests too."""
    machines: list[Path] = []
    tools: list[Path] = []
    faults: list[Fault] = []
    for place in map(Path, paths):
        kind, reason = files.look(place)
        if kind in (files.Kind.NOTHING, files.Kind.OTHER):
            raise UsageError(f"{place} {reason}", hint="name a file or folder")
        for file in files_at([place], faults):
            source, _ = read_text(file)
            data = read(source).data
            is_tool = isinstance(data, dict) and "tool" in data and "machine" not in data
            is_people = isinstance(data, dict) and "people" in data and len(data) == 1
            if not is_people:
                (tools if is_tool else machines).append(file)
    given = {p.resolve() for p in tools}
    more = [p for p in files_at(project.tools, faults) if p.resolve() not in given]
    return Catalogue.read(machines, [*tools, *more], project.people, *project.listed)


@click.command(short_help="Draw a machine.")
@click.argument("machine")
@click.option("-o", "--output", metavar="FILE", help="FILE.svg, .png, .dot, .mmd or .md; else Mermaid on the terminal.")
@click.option("--task", metavar="TASK", help="Show where this task is and the way it went.")
@db_option
@click.pass_context
def diagram(context: click.Context, machine: str, output: str | None, task: str | None, db: str | None) -> int:
    """Draw MACHINE."""
    from statemachine_agent.cli.trail import trail_of
    from statemachine_agent.diagrams import diagram as draw

    project = project_of(context)
    trail = None
    if task is None:
        compiled = compile_machine(checked_catalogue(catalogue_of(project)), machine)
    else:  # as it was when the task began, whatever became of the files
        with open_store(project, db) as store:
            compiled, trail = run_async(trail_of(store, task))
        if machine != compiled.name:
            raise UsageError(f"task {one_line(task, 60)} is of `{compiled.name}`", hint=f"draw `{compiled.name}`")
    if output is None:
        say(draw(compiled, "mmd", trail).decode())
        return 0
    path = Path(output)
    picture = draw(compiled, path.suffix.lstrip("."), trail)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture)
    except OSError as problem:
        raise UsageError(f"{output} cannot be written: {problem.strerror}", hint="name another file") from None
    say(f"wrote {output}")
    return 0
