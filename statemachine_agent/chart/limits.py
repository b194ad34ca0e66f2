"""Budgets of one task that are other than its machine's: how they are written, and the machine that has them.

It must not know who asked for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from statemachine_agent.canonical import digest
from statemachine_agent.definition.document import Source
from statemachine_agent.definition.machine import Limits
from statemachine_agent.definition.node import validate
from statemachine_agent.definition.source import read
from statemachine_agent.errors import UsageError
from statemachine_agent.text import did_you_mean

if TYPE_CHECKING:
    from statemachine_agent.chart.compile import CompiledMachine


def limited(machine: CompiledMachine, given: Mapping[str, str]) -> CompiledMachine:
    """The machine with other budgets: keys of `limits`, each with its value as a machine file would write it.

    UsageError names the one that cannot be. The hash is another one, so that a task pins its budgets with the rest.
    """
    limits = machine.definition.limits
    found = {name: _value(name, text, limits) for name, text in given.items()}
    definition = machine.definition.model_copy(update={"limits": limits.model_copy(update=found)})
    return replace(machine, definition=definition, limits=dict(given), hash=digest([machine.hash, dict(given)]))


def _value(name: str, text: str, limits: Limits) -> object:
    if name not in Limits.model_fields:
        raise UsageError(f"there is no limit `{name}`", hint=did_you_mean(name, Limits.model_fields))
    needed = "" if name == "steps" else f"steps: {limits.steps}\n"
    document = read(Source("limits", f"{needed}{name}: {text}\n"))
    found = validate(document, Limits)
    is_value = "#" not in text and len(text.splitlines()) == 1  # it is shown to people as it was given
    if found is None or document.faults or found.model_fields_set != {"steps", name} or not is_value:
        fault = document.faults[0] if document.faults else None
        told = f": {fault.message}" if fault is not None else ""
        raise UsageError(
            f"`{text}` is no limit of `{name}`{told}",
            hint=fault.advice if fault is not None else "write one value, as in a machine file",
        )
    return getattr(found, name)
