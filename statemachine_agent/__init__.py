"""Agents whose behaviour is a state machine in a YAML file.

The model only chooses among the current state's allowed tools; code owns what may happen next, permission, money,
repetition, recovery, approval and stopping. Names are imported when they are first used, so that importing the package
costs nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what `typing` calls so; while that is imported, Ctrl-C would show a traceback
if TYPE_CHECKING:
    from typing import Any

    from statemachine_agent.definition.catalogue import Catalogue
    from statemachine_agent.environment import Environment, SimulatedEnvironment
    from statemachine_agent.errors import RefusedError, SmaError
    from statemachine_agent.loop.context import Event
    from statemachine_agent.models.decision import RawCall, RawReply
    from statemachine_agent.models.port import Model, Piece, Prompt, Reply, Spent
    from statemachine_agent.models.scripted import ScriptedModel
    from statemachine_agent.policy.identity import Identity
    from statemachine_agent.records import Checkpoint, Status
    from statemachine_agent.runtime.project import open_project
    from statemachine_agent.runtime.runtime import Runtime
    from statemachine_agent.store.sqlite import SqliteStore
    from statemachine_agent.tools.outcome import LostError, NotSentError, RefusedByServiceError
    from statemachine_agent.tools.request import Reach, ToolRequest

_PLACES = {
    "Catalogue": "definition.catalogue",
    "Checkpoint": "records",
    "Environment": "environment",
    "Event": "loop.context",
    "Identity": "policy.identity",
    "LostError": "tools.outcome",
    "Model": "models.port",
    "NotSentError": "tools.outcome",
    "Piece": "models.port",
    "Prompt": "models.port",
    "RawCall": "models.decision",
    "RawReply": "models.decision",
    "Reach": "tools.request",
    "RefusedByServiceError": "tools.outcome",
    "RefusedError": "errors",
    "Reply": "models.port",
    "Runtime": "runtime.runtime",
    "ScriptedModel": "models.scripted",
    "SimulatedEnvironment": "environment",
    "SmaError": "errors",
    "Spent": "models.port",
    "SqliteStore": "store.sqlite",
    "Status": "records",
    "ToolRequest": "tools.request",
    "open_project": "runtime.project",
}

__all__ = [
    "Catalogue",
    "Checkpoint",
    "Environment",
    "Event",
    "Identity",
    "LostError",
    "Model",
    "NotSentError",
    "Piece",
    "Prompt",
    "RawCall",
    "RawReply",
    "Reach",
    "RefusedByServiceError",
    "RefusedError",
    "Reply",
    "Runtime",
    "ScriptedModel",
    "SimulatedEnvironment",
    "SmaError",
    "Spent",
    "SqliteStore",
    "Status",
    "ToolRequest",
    "open_project",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    from importlib import import_module  # noqa: PLC0415  as above

    if name not in _PLACES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
