"""`diff`: what changed in meaning between two definitions, and what that means for the tasks under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from statemachine_agent.analysis.changes import Change, changes
from statemachine_agent.chart.compile import CompiledMachine, checked_catalogue, compile_machine
from statemachine_agent.cli.again import Again
from statemachine_agent.cli.named import catalogue_at
from statemachine_agent.cli.options import catalogue_of, json_option, open_store, project_of, run_async
from statemachine_agent.cli.output import say, show_json
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.settings import Project
from statemachine_agent.errors import UsageError
from statemachine_agent.runtime.verdicts import Verdict, verdicts
from statemachine_agent.text import did_you_mean, one_line, shorten

_LONGEST = 300


@dataclass(frozen=True)
class _Pair:
    """A machine on both sides, or on one of them."""

    old: CompiledMachine | None
    new: CompiledMachine | None

    @property
    def name(self) -> str:
        return (self.new or self.old).name  # type: ignore[union-attr]

    @property
    def is_unraised(self) -> bool:
        """True where the machine's own text is another one under the same version."""
        old, new = self.old, self.new
        if old is None or new is None or old.name != new.name or old.machine_source.text == new.machine_source.text:
            return False
        return old.definition.version == new.definition.version

    @property
    def changes(self) -> list[Change]:
        if self.old is None or self.new is None:
            return [Change(f"machine {self.name}", _version(self.old), _version(self.new))]
        return changes(self.old, self.new)


@click.command(short_help="What changed in meaning, and for which tasks.")
@click.argument("old")
@click.argument("new")
@click.option("--db", metavar="FILE", help="A store: a verdict for each of its tasks that has not ended.")
@json_option
@click.pass_context
def diff(context: click.Context, old: str, new: str, db: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Compare OLD and NEW, each a machine, a manifest, a folder of both, or the name of a machine of the settings.

    A task ends under the definition that it began with: nothing here changes one. `fits` says that a fork of it could go
    on under NEW.
    """
    project = project_of(context)
    pairs = _pairs(_side(project, old), _side(project, new))
    found: Sequence[Verdict] = ()
    if db is not None:
        machines = {pair.new.name: pair.new for pair in pairs if pair.new is not None}
        with open_store(project, db) as store:
            found = run_async(verdicts(store, machines))
    if as_json:
        machines_told = [
            {"machine": p.name, "old": _version(p.old), "new": _version(p.new), "changes": p.changes} for p in pairs
        ]
        show_json({"machines": machines_told, **({} if db is None else {"tasks": found})})
        return 0
    for pair in pairs:
        _show(pair)
    if db is not None:
        _show_verdicts(found, new, Again.of(context, db, identity=project.settings.identity))
    return 0


def _side(project: Project, text: str) -> Mapping[str, CompiledMachine]:
    """The machines that OLD or NEW stands for."""
    if not Path(text).exists():
        catalogue = catalogue_of(project)
        if text not in catalogue.machines:
            hint = did_you_mean(text, catalogue.machines)
            raise UsageError(f"`{one_line(text, 200)}` is neither a file nor a machine", hint=hint)
        return {text: compile_machine(checked_catalogue(catalogue), text)}
    catalogue, named = catalogue_at(project, (text,), instead=True)
    names = [name for name in named["machine"] if isinstance(name, str)]
    if not named["machine"]:  # manifests alone: what they mean, they mean in the machines that use them
        catalogue, _ = catalogue_at(project, (text, *map(str, project.machines)), instead=True)
        names = [name for name in catalogue.machines if _uses(catalogue, name, named["tool"])]
    if not names:
        raise UsageError(f"no machine is in {text}, and none uses what is", hint="name a machine's file, or its folder")
    checked_catalogue(catalogue)
    return {name: compile_machine(catalogue, name) for name in names}


def _uses(catalogue: Catalogue, machine: str, tools: Sequence[object]) -> bool:
    return any(tool in tools for tool in catalogue.used_tools(catalogue.machines[machine].definition))


def _pairs(old: Mapping[str, CompiledMachine], new: Mapping[str, CompiledMachine]) -> list[_Pair]:
    """By their names; where each side is one machine, they are meant for each other."""
    if len(old) == len(new) == 1:
        return [_Pair(*old.values(), *new.values())]
    return [_Pair(old.get(name), new.get(name)) for name in dict.fromkeys([*new, *old])]


def _version(machine: CompiledMachine | None) -> str | None:
    return None if machine is None else f"{machine.name} {machine.definition.version} ({machine.hash[:12]})"


def _show(pair: _Pair) -> None:
    say(f"{_version(pair.old) or 'nothing'} → {_version(pair.new) or 'nothing'}")
    found = pair.changes
    if pair.is_unraised:
        say("the version was not raised: raise it with every change", indent=2)
    for one in found:
        cut = (None if text is None else shorten(one_line(text, 10_000), _LONGEST) for text in (one.old, one.new))
        say(str(Change(one.where, *cut)), indent=2)
    if not found:
        same = pair.old is not None and pair.new is not None and pair.old.hash == pair.new.hash
        say("no difference" if same else "other texts, the same meaning", indent=2)


def _show_verdicts(found: Sequence[Verdict], new: str, again: Again) -> None:
    counts = ", ".join(f"{sum(v.verdict == w for v in found)} {w}" for w in ("same", "fits", "stays"))
    say(f"{len(found)} tasks under way: {counts}; each ends under the definition that it began with")
    for one in found:
        why = f": {'; '.join(one.why)}" if one.why else ""
        say(f"{one.verdict:<6} {one.task} version {one.version} in {', '.join(one.configuration)}{why}", indent=2)
    first = next((one for one in found if one.verdict == "fits"), None)
    if first is not None:
        say(f"to take one over: {again('fork', first.task, '--at', str(first.version), '--machine', new)}")
