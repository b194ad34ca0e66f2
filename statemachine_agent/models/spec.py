"""`--model SPEC` → a model. It must not know who asks."""

from __future__ import annotations

from pathlib import Path

from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.models.port import Model

KINDS = "`ask` (a person in the terminal) and `scripted:FILE`"


def model_of(spec: str, environment: Environment) -> Model:
    """The model that `spec` names; UsageError where there is none."""
    kind, _, rest = spec.partition(":")
    if kind == "scripted" and rest:
        from statemachine_agent.models.scripted import ScriptedModel  # noqa: PLC0415  only what is used is imported

        return ScriptedModel.load(Path(rest))
    if spec == "ask":
        from statemachine_agent.models.ask import AskModel  # noqa: PLC0415

        return AskModel(environment)
    raise UsageError(f"there is no model `{spec}`", hint=f"known: {KINDS}")
