"""What a condition reads that may be absent, and what it asks `has(…)` of: from its syntax tree and the declared types.

It must not know in which order conditions are asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from statemachine_agent.definition.catalogue import Catalogue, MachineFile, ToolFile
from statemachine_agent.definition.document import Path_
from statemachine_agent.definition.faults import Fault, Level
from statemachine_agent.guards import contexts, types
from statemachine_agent.guards.check import Checked, check_text, checked_guards

#: results that are there, by their tool (`find_book`), and optional fields, by their path (`evidence.find_book.note`)
Facts = frozenset[str]
NONE: Facts = frozenset()

_HAS = re.compile(r"has\(\s*evidence\.(\w+)\s*\)")
_READ = re.compile(r"evidence\.(\w+)\s*[.\[]")
_DENIED = re.compile(r"!\s*(has)?\s*\(")
_ONLY_DENIED = re.compile(r"\s*!\s*has\([^()]*\)\s*")


@dataclass(frozen=True)
class Asking:
    """One condition: what it needs, and what its answer says is there."""

    #: what it reads and may not find, unless it is known to be there
    reads: tuple[str, ...] = ()
    #: what is there where it holds
    shows: Facts = NONE
    #: what is there where it does not hold
    denies: Facts = NONE


def asking_of(checked: Checked) -> Asking:
    """What is read and asked in one condition; what it asks for itself it may read."""
    text, syntax = checked.compiled.text, checked.syntax
    optional = {one: path for one in syntax.passed | syntax.asked.keys() if (path := _optional(one, checked.types))}
    tools = frozenset(_HAS.findall(text))
    asked = tools | {path for one, path in optional.items() if one in syntax.asked}
    read = dict.fromkeys(_READ.findall(text)) | dict.fromkeys(
        sorted(path for one, path in optional.items() if one in syntax.passed)
    )
    alone = tools | {path for one, path in optional.items() if syntax.asked.get(one)}
    sure = "||" not in text and "?" not in text and not _DENIED.search(text)
    return Asking(
        tuple(what for what in read if what not in asked),
        alone if sure else NONE,
        alone if _ONLY_DENIED.fullmatch(text) else NONE,
    )


def askings(catalogue: Catalogue, file: MachineFile) -> Mapping[tuple[str, str | None], Asking]:
    """Each guard with a text, in each kind of place; `input` of a machine within this one is another one."""
    found: dict[tuple[str, str | None], Asking] = {}
    for name, call, checked, _ in checked_guards(catalogue, file):
        if checked is not None:
            asking = asking_of(checked)
            if name in file.definition.guard_scopes:
                asking = Asking((), _elsewhere(asking.shows), _elsewhere(asking.denies))
            found[name, call] = asking
    return found


def unasked_in_tool(catalogue: Catalogue, file: ToolFile) -> Iterator[Fault]:
    """A warning for each condition of a manifest that reads something optional and does not ask for it."""
    for path, text, roots in _conditions(catalogue, file):
        checked, _ = check_text(file.document, path, text, types.environment(roots))
        for what in asking_of(checked).reads if checked else ():
            message = f"this reads `{what}`, which is optional and may be absent"
            yield file.document.fault(path, message, advice_for(what, alone=True), level=Level.WARNING)


def advice_for(what: str, *, alone: bool = False) -> str:
    """How an optional field is asked for; `alone`: where nothing is asked before."""
    if "[]" in what:
        return f"ask for it in the same text: `has(x.{what.rpartition('.')[2]}) && …`"
    return f"ask `has({what})` {'first' if alone else 'in a row above, or in the guard'}: `has(…) && …`"


def _conditions(catalogue: Catalogue, file: ToolFile) -> Iterator[tuple[Path_, str, contexts.Roots]]:
    tool = file.manifest
    for index, rule in enumerate(tool.approval or ()):
        if rule.when is not None:
            yield ("approval", index, "when"), rule.when, contexts.rule_roots(tool)
    if tool.precondition and (lookup := catalogue.tool(tool.precondition.tool)):
        yield ("precondition", "holds"), tool.precondition.holds, contexts.lookup_roots(tool, lookup)
    if tool.reconciler and (lookup := catalogue.tool(tool.reconciler.tool)):
        for key in ("found", "absent"):
            here: Path_ = ("idempotency", "reconcile", key)
            yield here, getattr(tool.reconciler, key), contexts.lookup_roots(tool, lookup)


def _elsewhere(facts: Facts) -> Facts:
    return frozenset(fact for fact in facts if not fact.startswith("input."))


def _optional(field: tuple[str, str], known: types.MessageTypes) -> str | None:
    """The path of a field in the author's words, if it may be absent."""
    where, properties = known.known.get(field[0], ("", {}))
    declared = properties.get(field[1])
    return f"{where}.{field[1]}" if declared is not None and declared.optional else None
