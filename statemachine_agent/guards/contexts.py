"""What an expression may read in each place, as types: the roots of a machine's guards and of a manifest's conditions.

It must not know how the data is gathered when a task runs; `evaluate` says that.
"""

from __future__ import annotations

from collections.abc import Mapping

from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.check_machine import ACTOR, ANYTHING, from_outside
from statemachine_agent.definition.check_tool import EFFECT
from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.names import CONTROLS, UPPER
from statemachine_agent.definition.schema import Properties, Property

Roots = Mapping[str, Properties | Property]

#: what an effect can be; the first five in this order, then how it can end otherwise
EFFECT_STATUSES = ("proposed", "approved", "intended", "executed", "verified", "unknown", "rejected", "abandoned")

#: the one root that is neither a mapping nor a list: a time
NOW = Property(type="string", format="date-time")
_TEXT = Property(type="string")
_NUMBER = Property(type="number")
_WHOLE = Property(type="integer")
_USAGE: Properties = {
    "steps": _WHOLE, "tokens": _WHOLE, "tool_calls": _WHOLE, "active_seconds": _NUMBER, "cost_usd": _NUMBER,
}  # fmt: skip
#: control choices whose rows may read what is pending: what is asked about, or given up
ASKING = frozenset({"ask_user", "cannot_continue"})
_CONTROL_ARGS: Mapping[str, Properties] = {
    "finish": {"answer": _TEXT},
    "ask_user": {"question": _TEXT},
    "cannot_continue": {"reason": _TEXT},
}


def _object(properties: Properties) -> Property:
    return Property(type="object", properties=properties)


def _objects(properties: Properties) -> Property:
    return Property(type="array", items=_object(properties))


def machine_roots(
    catalogue: Catalogue, machine: MachineDefinition, call: str | None = None, scope: str | None = None
) -> Roots:
    """The roots of a guard of `machine`: with `call`, in a row of that tool (or control choice) of a `choose`.

    With `scope`, a guard of the machine that stands in that state: its input and its states are what it knows of itself.
    """
    own = machine.inlined[scope].of if scope is not None else machine
    tools = {name: catalogue.tool(name) for name in catalogue.readable_tools(machine)}
    writes = [t for t in tools.values() if t is not None and not t.is_read]
    unread = catalogue.unread_states(machine)
    lost = catalogue.machines[own.machine].document.lost(("states",)) if unread and scope is None else ()
    states = (*(s for s in own.all_states if own.scope(s) is None), *filter(UPPER.fullmatch, lost))
    outside = {**(dict.fromkeys(catalogue.machines, ANYTHING) if unread else {}), **from_outside(machine)}
    status = Property(enum=EFFECT_STATUSES)
    names = tuple(name for name, t in tools.items() if t is None or not t.is_read)
    tool = Property(enum=names) if names else _TEXT
    roots: dict[str, Properties | Property] = {
        "input": own.input,
        "actor": ACTOR,
        "evidence": {
            **{name: _object(t.returns) if t else ANYTHING for name, t in tools.items()},
            **outside,
        },
        "asked": {name: _object(t.args) if t else ANYTHING for name, t in tools.items()},
        "results": {
            **{name: _results(t.args, t.returns) if t else ANYTHING for name, t in tools.items()},
            **dict.fromkeys(outside, ANYTHING),
            **{name: _results({}, properties) for name, properties in machine.outside.items()},
        },
        "effects": _objects({"tool": tool, "key": _TEXT, "status": status}),
        "approval": {"id": _TEXT, "tool": _TEXT, "status": _TEXT, "expires_at": _TEXT},
        "usage": _USAGE,
        "visits": dict.fromkeys(states, _WHOLE),
        "now": NOW,
    }
    if call is None or call in ASKING:
        whole = all(t is not None for t in tools.values())
        roots["proposal"] = {"tool": _TEXT, "args": _object(_merged(writes)) if whole else ANYTHING}
    if call in CONTROLS:
        taken = {"answer": _object(own.output)} if call == "finish" and own.output else _CONTROL_ARGS.get(call, {})
        roots["call"] = {"tool": _TEXT, "args": _object(taken)}
    elif call is not None:
        manifest = catalogue.tool(call)
        roots["call"] = {"tool": _TEXT, "args": _object(manifest.args) if manifest else ANYTHING}
    return roots


def _results(asked: Properties, result: Properties) -> Property:
    return _objects({"asked": _object(asked), "result": _object(result), "at": _TEXT})


def _merged(tools: list[ToolManifest]) -> Properties:
    """The arguments of all tools together; one that differs in type between tools can hold anything."""
    merged: dict[str, Property] = {}
    for tool in tools:
        for name, value in tool.args.items():
            same = name not in merged or merged[name].kind == value.kind
            merged[name] = value if same else Property(type="object")
    return merged


def rule_roots(tool: ToolManifest) -> Roots:
    """The roots of a rule's `when`: a yes is for these rules and arguments, so nothing else may change the answer."""
    return {"args": tool.args}


def lookup_roots(tool: ToolManifest, lookup: ToolManifest) -> Roots:
    """The roots of `holds`, `found`, `absent` and `result`: what the look-up answered, and what was to be done."""
    return {"args": tool.args, "effect": EFFECT, "result": lookup.returns, "now": NOW}
