"""The test kit for machines: a machine is led, asked and walked at random, over the chart and the loop that run it.

`docs/testing-machines.md` shows each of these with an example. Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from statemachine_agent.environment import SimulatedEnvironment
    from statemachine_agent.models.scripted import ScriptedModel
    from statemachine_agent.testing.at_random import random_walks, walks_of
    from statemachine_agent.testing.played import Played, failed, lost, not_sent
    from statemachine_agent.testing.standing import assert_accepted, assert_illegal, assert_refused
    from statemachine_agent.testing.subject import Subject, load_machine, machine_from_texts
    from statemachine_agent.testing.walking import Walk, walk
    from statemachine_agent.testing.worlds import World, run_task, world

_PLACES = {
    "Played": "statemachine_agent.testing.played",
    "ScriptedModel": "statemachine_agent.models.scripted",
    "SimulatedEnvironment": "statemachine_agent.environment",
    "Subject": "statemachine_agent.testing.subject",
    "Walk": "statemachine_agent.testing.walking",
    "World": "statemachine_agent.testing.worlds",
    "assert_accepted": "statemachine_agent.testing.standing",
    "assert_illegal": "statemachine_agent.testing.standing",
    "assert_refused": "statemachine_agent.testing.standing",
    "failed": "statemachine_agent.testing.played",
    "load_machine": "statemachine_agent.testing.subject",
    "lost": "statemachine_agent.testing.played",
    "machine_from_texts": "statemachine_agent.testing.subject",
    "not_sent": "statemachine_agent.testing.played",
    "random_walks": "statemachine_agent.testing.at_random",
    "run_task": "statemachine_agent.testing.worlds",
    "walk": "statemachine_agent.testing.walking",
    "walks_of": "statemachine_agent.testing.at_random",
    "world": "statemachine_agent.testing.worlds",
}

__all__ = [
    "Played",
    "ScriptedModel",
    "SimulatedEnvironment",
    "Subject",
    "Walk",
    "World",
    "assert_accepted",
    "assert_illegal",
    "assert_refused",
    "failed",
    "load_machine",
    "lost",
    "machine_from_texts",
    "not_sent",
    "random_walks",
    "run_task",
    "walk",
    "walks_of",
    "world",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _PLACES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_PLACES[name]), name)
