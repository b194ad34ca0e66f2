"""`check` and `diagram`: definitions are read, judged and drawn; nothing is run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import click

from statemachine_agent.chart.compile import checked_catalogue, compile_machine
from statemachine_agent.cli.named import catalogue_at
from statemachine_agent.cli.options import catalogue_of, db_option, json_option, open_store, project_of, run_async
from statemachine_agent.cli.output import say, show_json
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.faults import Level
from statemachine_agent.definition.settings import Project
from statemachine_agent.errors import UsageError
from statemachine_agent.text import one_line


@click.command(short_help="Judge machines and manifests.")
@click.argument("paths", nargs=-1, metavar="[PATH…]")
@click.option("--strict", is_flag=True, help="Warnings count as faults: exit 1.")
@json_option
@click.pass_context
def check(context: click.Context, paths: tuple[str, ...], strict: bool, as_json: bool) -> int:  # noqa: FBT001
    """Load and judge machines and manifests: those at PATH, else all of the settings."""
    from statemachine_agent.analysis.lint import lint

    project = project_of(context)
    catalogue, named = _named(project, paths)
    checked_catalogue(catalogue)
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
    warnings = sum(f.level is Level.WARNING for f in report.faults) + (project.people is None)
    code = 1 if report.errors or (strict and warnings) else 0
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
                "machines": sorted(catalogue.machines.keys() & named),
                "tools": sorted(catalogue.tools),
            }
        )
        return code
    if report.faults:
        say(str(report))
    if project.people is None:
        say(f"warning: there is no people file at {project.path(project.settings.people)}: no role is checked")
    for name, file in sorted(catalogue.machines.items()):
        if name in named and not any(f.file == file.document.source.name for f in report.errors):
            say(_line(catalogue, name))
    say(_counted(len(report.errors), "fault") + (f", {_counted(warnings, 'warning')}" if warnings else ""))
    return code


def _counted(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'s' if count != 1 else ''}"


def _named(project: Project, paths: tuple[str, ...]) -> tuple[Catalogue, Collection[str]]:
    """The catalogue, and the machines in it that are told of."""
    if paths:
        found = catalogue_at(project, paths)
        return found.catalogue, found.machines
    catalogue = catalogue_of(project)
    return catalogue, catalogue.machines


def _line(catalogue: Catalogue, name: str) -> str:
    definition = catalogue.machines[name].definition
    tools = len(catalogue.used_tools(definition))
    proved = f", {len(definition.properties)} properties not proved yet" if definition.properties else ""
    return f"{name} {definition.version}: {len(definition.all_states)} states, {tools} tools{proved}"


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
