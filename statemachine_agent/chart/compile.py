"""A machine of a catalogue made ready to run: definition, tools, chart, and the hash that a task pins.

It must not know stores, people's decisions or models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from statemachine_agent.chart.chart import Chart
from statemachine_agent.chart.configuration import Leaves, Tree
from statemachine_agent.chart.limits import limited
from statemachine_agent.chart.transitions import transitions_of
from statemachine_agent.definition.catalogue import Catalogue, held_machines
from statemachine_agent.definition.check_masks import masks_of
from statemachine_agent.definition.document import Source
from statemachine_agent.definition.faults import FaultyDefinitionError
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.names import CONTROLS
from statemachine_agent.definition.redaction import MASK, Masks, described, masked
from statemachine_agent.definition.schema import Properties, Property, has_numbers
from statemachine_agent.definition.states import ApprovalState, ChooseState, State
from statemachine_agent.guards.check import check_expressions
from statemachine_agent.guards.evaluate import call_guards
from statemachine_agent.guards.redacted import read_masks

_TEXT = Property(type="string")
#: what a request for approval holds
_REQUEST: Properties = {"tool": _TEXT, "args": Property(type="object"), "reason": _TEXT}


@dataclass(frozen=True)
class CompiledMachine:
    """Everything that running one machine version needs to know of its definition."""

    definition: MachineDefinition
    tools: Mapping[str, ToolManifest]
    chart: Chart
    #: hash over the texts of the machine and all manifests it uses
    hash: str
    machine_source: Source
    tool_sources: Mapping[str, Source]
    #: what is masked before anything is written, besides what manifests say
    masks: Masks
    #: the machines that stand in it
    held_sources: Mapping[str, Source]
    #: guards whose answer depends on what is proposed
    call_guards: frozenset[str]
    #: tools whose arguments or results hold a `number`
    with_numbers: frozenset[str]
    #: budgets that are other than the file's, as they were given (see `limits.py`)
    limits: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.definition.machine

    def state(self, name: str) -> State | None:
        """The state of that name; None for an end, and for the chart's own states of being done."""
        return self.definition.all_states.get(name)

    def choosing(self, leaves: Leaves) -> list[str]:
        """The active states in which the model chooses."""
        return [s for s in leaves if isinstance(self.definition.all_states.get(s), ChooseState)]

    def recorded(self, tool: str, args: Mapping[str, Any], state: str = "") -> Mapping[str, Any] | None:
        """The arguments of a tool, or of a control choice in `state`, as they may be written; None: as they are."""
        if tool == "finish":
            return self._recorded_answer(args, state)
        if tool == "request_approval":
            return self._recorded_request(args)
        manifest = self.tools.get(tool) if isinstance(tool, str) else None
        return manifest.recorded(args) if manifest is not None and manifest.masked_args else None

    def _recorded_answer(self, args: Mapping[str, Any], state: str) -> Mapping[str, Any] | None:
        """The answer of a machine within this one, which becomes evidence of this one."""
        scope = self.definition.scope(state) if state in self.definition.all_states else None
        held = self.definition.inlined[scope].of if scope is not None else None
        paths = self.masks.evidence.get(held.machine, ()) if held is not None else ()
        if held is None or not paths:
            return None
        if not held.output:
            return masked(paths, described({"answer": _TEXT}, args))
        answer = Property(type="object", properties=held.output)
        return masked([f"answer.{path}" for path in paths], described({"answer": answer}, args))

    def _recorded_request(self, args: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """A request for approval, which holds the arguments of another tool."""
        if not any(manifest.masked_args for manifest in self.tools.values()):
            return None
        found, tool = described(_REQUEST, args), args.get("tool")
        manifest = self.tools.get(tool) if isinstance(tool, str) else None
        if "args" in found and isinstance(args["args"], Mapping):
            found["args"] = MASK if manifest is None else manifest.recorded(args["args"])
        return found

    def recording(self, state: str) -> Callable[[str, Mapping[str, Any]], Mapping[str, Any] | None]:
        """What masks the arguments of what is proposed in `state`."""
        return lambda tool, args: self.recorded(tool, args, state)

    def masks_arguments(self, tool: str, state: str = "") -> bool:
        """True where some argument of `tool` is not written."""
        return self.recorded(tool, {}, state) is not None

    def may_be_heard(self, tool: str, state: str) -> bool:
        """True where arguments may be shown while they are formed; of a name that is not whole yet nobody knows."""
        if tool not in self.tools and tool not in CONTROLS:
            return not any(self.masks_arguments(name, state) for name in (*self.tools, *CONTROLS))
        return not self.masks_arguments(tool, state)

    def finishing(self, leaves: Leaves) -> str | None:
        """The active state that offers `finish`; none within a region does."""
        definition = self.definition
        return next((s for s in self.choosing(leaves) if "finish" in definition.all_states[s].choose), None)  # type: ignore[union-attr]

    def output(self, leaves: Leaves) -> Properties:
        """What `finish` gives here: of the machine, or of the one that stands in a state of it; empty where it is a text."""
        state = self.finishing(leaves)
        scope = self.definition.scope(state) if state is not None else None
        definition: MachineDefinition = self.definition.inlined[scope].of if scope is not None else self.definition
        return definition.output

    def approvals_of(self, tool: str) -> list[ApprovalState]:
        """The states that ask people about `tool`."""
        states = self.definition.all_states.values()
        return [s for s in states if isinstance(s, ApprovalState) and s.approval.of == tool]

    def at_most(self, tool: str) -> int | None:
        """How often `tool` may be called in one task: the tightest of machine and manifest."""
        limits = [self.definition.at_most.get(tool), self.tools[tool].at_most]
        given = [limit for limit in limits if limit is not None]
        return min(given) if given else None


def compile_machine(catalogue: Catalogue, name: str) -> CompiledMachine:
    """The machine `name` of `catalogue`; FaultyDefinitionError where it or a tool it uses has faults."""
    file = catalogue.machine(name)
    used = catalogue.used_tools(file.definition)
    held = [catalogue.machines[one] for one in sorted(held_machines(file.definition))]
    documents = [file.document, *(one.document for one in held), *(catalogue.tools[tool].document for tool in used)]
    files = tuple(document.source.name for document in documents)
    return _made(_Wanted(catalogue.definition_hash(name), files, catalogue, name))


@dataclass(frozen=True)
class _Wanted:
    """A machine by the hash of all that it is made from, and by the files that it was read from."""

    hash: str
    files: tuple[str, ...]
    catalogue: Catalogue = field(compare=False)
    name: str = field(compare=False)


@lru_cache(maxsize=64)  # making a chart costs as much as a thousand events
def _made(wanted: _Wanted) -> CompiledMachine:
    catalogue, name, digest = wanted.catalogue, wanted.name, wanted.hash
    file = catalogue.machines[name]
    definition = file.definition
    used = catalogue.used_tools(definition)
    chart = Chart(f"{name}_{digest[:16]}", transitions_of(catalogue, definition), Tree.of(definition))
    masks = masks_of(catalogue, definition)
    return CompiledMachine(
        definition=definition,
        tools={tool: _masking(catalogue.tools[tool].manifest, masks.evidence.get(tool, ())) for tool in used},
        chart=chart,
        masks=masks,
        hash=digest,
        machine_source=file.document.source,
        tool_sources={tool: catalogue.tools[tool].document.source for tool in used},
        held_sources={held: catalogue.machines[held].document.source for held in sorted(held_machines(definition))},
        call_guards=call_guards(definition),
        with_numbers=frozenset(
            tool
            for tool in used
            if has_numbers(catalogue.tools[tool].manifest.args) or has_numbers(catalogue.tools[tool].manifest.returns)
        ),
    )


def _masking(manifest: ToolManifest, paths: Iterable[str]) -> ToolManifest:
    """The manifest as this machine uses it: masking what the machine masks too."""
    more = tuple(f"result.{path}" for path in paths)
    return manifest.model_copy(update={"redact": (*manifest.redact, *more)}) if more else manifest


def checked_catalogue(catalogue: Catalogue) -> Catalogue:
    """The same catalogue, its report holding the faults of its expressions too; they are looked for once."""
    if not catalogue.is_checked:
        catalogue.report.add(check_expressions(catalogue))
        catalogue.report.add(read_masks(catalogue))
        catalogue.is_checked = True
    return catalogue


#: the name of a file, and what it holds
_Text = tuple[str, str]


@lru_cache(maxsize=256)
def _from_texts(machines: tuple[_Text, ...], tools: tuple[_Text, ...]) -> CompiledMachine:
    catalogue = Catalogue.build([Source(*m) for m in machines], [Source(*t) for t in tools])
    names = list(catalogue.machines)
    if len(names) != len(machines):
        raise FaultyDefinitionError(catalogue.report)
    return compile_machine(checked_catalogue(catalogue), names[0])


def compile_texts(texts: Mapping[str, Any]) -> CompiledMachine:
    """A machine from the texts that a task pinned (see `texts_of`), kept by their content."""
    machines, tools = (
        tuple((t["name"], t["text"]) for t in found)
        for found in ((texts["machine"], *texts.get("machines", {}).values()), texts["tools"].values())
    )
    found = _from_texts(machines, tools)
    return limited(found, texts["limits"]) if "limits" in texts else found


def texts_of(machine: CompiledMachine) -> dict[str, Any]:
    """The texts that a task pins."""
    held = {name: _text(source) for name, source in machine.held_sources.items()}
    return {
        "machine": _text(machine.machine_source),
        "tools": {tool: _text(source) for tool, source in machine.tool_sources.items()},
        **({"machines": held} if held else {}),
        **({"limits": dict(machine.limits)} if machine.limits else {}),
    }


def _text(source: Source) -> dict[str, str]:
    return {"name": source.name, "text": source.text}
