"""`diff`: what changed in meaning between two definitions, and what that means for the tasks under way."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from statemachine_agent import files
from statemachine_agent.analysis.changes import Change, changes
from statemachine_agent.chart.compile import CompiledMachine, compile_machine, compile_texts
from statemachine_agent.cli.again import Again
from statemachine_agent.cli.named import Meant, machines_at
from statemachine_agent.cli.options import json_option, open_store, opened, project_of, run_async
from statemachine_agent.cli.output import say, show_json
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.settings import Project
from statemachine_agent.errors import UnknownTaskError
from statemachine_agent.runtime.verdicts import Verdict, open_tasks
from statemachine_agent.store.port import Store
from statemachine_agent.store.reading import is_end_of_id
from statemachine_agent.text import shorten, visible

#: characters of a value that are shown, and those around what differs in a longer one
_LONGEST, _AROUND = 300, 60


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

    With a store OLD may be a task: the definition that it began with. Each task ends under the one that it began with:
    nothing here changes that. `fits` says that a fork of it could go on under NEW.
    """
    project = project_of(context)
    pinned = None if db is None else run_async(_pinned(project, db, old))
    now = machines_at(project, new)
    if pinned is None:
        pairs = _pairs(*_compiled(machines_at(project, old), now))
    else:
        names = [pinned.name] if pinned.name in now.names else now.names
        pairs = _pairs({pinned.name: pinned}, {name: compile_machine(now.catalogue, name) for name in names})
    found: Sequence[Verdict] = ()
    if db is not None:
        found = run_async(_judged(project, db, pairs, now.catalogue))
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


async def _pinned(project: Project, db: str, text: str) -> CompiledMachine | None:
    """What the task of that id began with; None where OLD is no such id, but a file, or nothing."""
    if not is_end_of_id(text) or files.look(Path(text))[0] is not files.Kind.NOTHING:
        return None
    with open_store(project, db) as store:
        try:
            task = (await store.load(text)).task
        except UnknownTaskError:
            return None
        return compile_texts(await store.definition(task.definition_hash))


def _compiled(old: Meant, new: Meant) -> Iterator[Mapping[str, CompiledMachine]]:
    """The machines of each side; where one side is manifests, what they mean for the machines of the other one."""
    for one, other in ((old, new), (new, old)):
        both = [name for name in one.names if name in other.names]
        names = both if one.by_tools and not other.by_tools and both else one.names
        yield {name: compile_machine(one.catalogue, name) for name in names}


def _pairs(old: Mapping[str, CompiledMachine], new: Mapping[str, CompiledMachine]) -> list[_Pair]:
    """By their names; where each side is one machine, they are meant for each other."""
    if len(old) == len(new) == 1:
        return [_Pair(*old.values(), *new.values())]
    return [_Pair(old.get(name), new.get(name)) for name in dict.fromkeys([*new, *old])]


def _version(machine: CompiledMachine | None) -> str | None:
    return None if machine is None else f"{machine.name} {machine.definition.version} ({machine.hash[:12]})"


async def _judged(project: Project, db: str, pairs: Sequence[_Pair], catalogue: Catalogue) -> list[Verdict]:
    """A verdict for each task under way, the oldest first."""
    new = {pair.new.name: pair.new for pair in pairs if pair.new is not None}
    async with opened(project, db, catalogue=catalogue) as runtime:
        found = [*await runtime.verdicts(new), *await _left(runtime.store, pairs, new)]
    return sorted(found, key=lambda one: one.task)


async def _left(store: Store, pairs: Sequence[_Pair], new: Collection[str]) -> list[Verdict]:
    """Tasks of a machine that is there under another name, or no more: no task goes on under another name."""
    found = []
    gone = {pair.old.name: pair for pair in pairs if pair.old is not None and pair.old.name not in new}
    for now in await open_tasks(store, gone):
        task, head, called = now.task, now.head, gone[now.task.machine].new
        why = f"there is no `{task.machine}` any more" + (f": it is called `{called.name}`" if called else "")
        found.append(Verdict(task.id, task.machine, head.version, head.configuration, "stays", (why,)))
    return found


def _show(pair: _Pair) -> None:
    say(f"{_version(pair.old) or 'nothing'} → {_version(pair.new) or 'nothing'}")
    found = pair.changes
    if pair.is_unraised:
        say("the version was not raised: raise it with every change", indent=2)
    for one in found:
        say(str(_cut(one)), indent=2)
    if not found:
        same = pair.old is not None and pair.new is not None and pair.old.hash == pair.new.hash
        say("no difference" if same else "other texts, the same meaning", indent=2)


def _cut(change: Change) -> Change:
    """The change as a person reads it: of long values what differs, with what stands around it."""
    old, new = (None if text is None else visible(text) for text in (change.old, change.new))
    if old is None or new is None or max(len(old), len(new)) <= _LONGEST:
        return replace(change, old=old and shorten(old, _LONGEST), new=new and shorten(new, _LONGEST))
    head = _alike(old, new)
    tail = _alike(old[head:][::-1], new[head:][::-1])
    return replace(change, old=_part(old, head, len(old) - tail), new=_part(new, head, len(new) - tail))


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    both = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(both) if a != b), min(len(one), len(other)))


def _part(text: str, start: int, end: int) -> str:
    first, last = max(0, start - _AROUND), min(len(text), end + _AROUND)
    return ("…" if first else "") + shorten(text[first:last] + ("…" if last < len(text) else ""), _LONGEST)


def _show_verdicts(found: Sequence[Verdict], new: str, again: Again) -> None:
    counts = ", ".join(f"{sum(v.verdict == w for v in found)} {w}" for w in ("same", "fits", "stays"))
    say(f"{len(found)} tasks under way: {counts}; each ends under the definition that it began with")
    for one in found:
        why = f": {'; '.join(one.why)}" if one.why else ""
        why += f"; version {one.earlier} fits" if one.earlier is not None else ""
        say(f"{one.verdict:<6} {one.task} version {one.version} in {', '.join(one.configuration)}{why}", indent=2)
    fits = [one for one in found if one.verdict == "fits"]
    first = min(
        fits, key=lambda one: bool(one.why), default=None
    )  # one whose actor may, before one whose actor may not
    if first is not None:
        who = ["--actor", "WHO"] if again.names_people else []
        words = [first.task, "--at", str(first.version), *who, "--machine", shlex.quote(new)]
        say(f"to take one over: {again('fork', *words)}")
