"""Which model decides in which state of a task: what was said when it was started, what its machine names, what else there is.

A task keeps names; whoever runs it says what they stand for now. It must not know how a model is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from statemachine_agent.definition.machine import MachineDefinition
from statemachine_agent.definition.model_choice import ModelChoice
from statemachine_agent.errors import UsageError
from statemachine_agent.models.fallback import behind
from statemachine_agent.models.port import Model

ModelSource = Model | Callable[[str], Model]

#: what a task stores before the model that somebody named for it, where its machine names others: that one decides everywhere
ONLY = "only "


def stored_spec(machine: MachineDefinition, named: str | None, otherwise: str) -> str:
    """What a task keeps: `named` is meant for all its states, `otherwise` for those where the machine names no model."""
    if named is None:
        return otherwise
    return f"{ONLY}{named}" if any(machine.models.values()) else named


def named_models(machine: MachineDefinition, spec: str) -> list[str]:
    """The names of all that decide in a task which keeps `spec`, each once."""
    if spec.startswith(ONLY):
        return [spec.removeprefix(ONLY)]
    return list(dict.fromkeys(choice.use if choice else spec for choice in machine.models.values())) or [spec]


def deciders(
    machine: MachineDefinition, spec: str, source: ModelSource | None
) -> tuple[Model | None, Mapping[str, Model]]:
    """The model of a task, and by state those that its machine names instead; UsageError where one of them cannot be had.

    All of them are found before anything is done, so that no task stops half-way for want of a key.
    """
    if source is None or hasattr(source, "decide"):
        return source, {}  # type: ignore[return-value]
    if spec.startswith(ONLY):
        return source(spec.removeprefix(ONLY)), {}
    chosen = machine.models
    made: dict[ModelChoice, Model] = {}
    for state, choice in chosen.items():
        if choice is not None and choice not in made:
            made[choice] = _made(state, choice, source)
    needs_none = bool(chosen) and all(chosen.values())
    default = None if needs_none or not spec else source(spec)
    return default, {state: made[choice] for state, choice in chosen.items() if choice is not None}


def _made(state: str, choice: ModelChoice, source: Callable[[str], Model]) -> Model:
    try:
        first = source(choice.use)
        return first if choice.fallback is None else behind(first, source(choice.fallback))
    except UsageError as problem:
        message = f"{problem.message} (the machine names it for `{state}`)"
        raise type(problem)(message, hint=problem.hint) from None
