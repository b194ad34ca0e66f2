"""Agents whose behaviour is a state machine in a YAML file.

The model only chooses among the current state's allowed tools; code owns what may happen next, permission, money,
repetition, recovery, approval and stopping. Names are imported when they are first used, so that importing the package
costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue
    from statemachine_agent.environment import Environment, SimulatedEnvironment
    from statemachine_agent.errors import SmaError
    from statemachine_agent.models.port import Model
    from statemachine_agent.models.scripted import ScriptedModel
    from statemachine_agent.runtime.runtime import Runtime
    from statemachine_agent.store.sqlite import SqliteStore

_PLACES = {
    "Catalogue": "statemachine_agent.definition.catalogue",
    "Environment": "statemachine_agent.environment",
    "Model": "statemachine_agent.models.port",
    "Runtime": "statemachine_agent.runtime.runtime",
    "ScriptedModel": "statemachine_agent.models.scripted",
    "SimulatedEnvironment": "statemachine_agent.environment",
    "SmaError": "statemachine_agent.errors",
    "SqliteStore": "statemachine_agent.store.sqlite",
}

__all__ = [
    "Catalogue",
    "Environment",
    "Model",
    "Runtime",
    "ScriptedModel",
    "SimulatedEnvironment",
    "SmaError",
    "SqliteStore",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _PLACES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_PLACES[name]), name)
