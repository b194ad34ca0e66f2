"""`--model SPEC` → a model: one of ours, a provider's, or one that the settings name. It must not know who asks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from statemachine_agent.definition.named_models import SPEC, NamedModel, key_names
from statemachine_agent.environment import Environment
from statemachine_agent.errors import UsageError
from statemachine_agent.models.port import Model
from statemachine_agent.text import did_you_mean, one_line

KINDS = (
    "`ask` (a person in the terminal), `scripted:FILE`, `openai:NAME`, `anthropic:NAME`, `google:NAME`, `local:smollm2`"
    " (on this machine) and `chance:SEED` (drawn)"
)
#: what is sent to a server of one's own that asks for no key
_NO_KEY = "none"


def model_of(
    spec: str,
    environment: Environment,
    named: Mapping[str, NamedModel] | None = None,
    environ: Mapping[str, str] | None = None,
) -> Model:
    """The model that `spec` names, with the names of the settings; UsageError where there is none, or no key for it."""
    named = named or {}
    kind, _, rest = spec.partition(":")
    if kind == "scripted" and rest:
        from statemachine_agent.models.scripted import ScriptedModel

        return ScriptedModel.load(Path(rest), environment)
    if spec == "ask":
        from statemachine_agent.models.ask import AskModel

        return AskModel(environment)
    if kind == "local":
        from statemachine_agent.models.local import LocalModel

        return LocalModel(spec, environment)
    if kind == "chance":
        from statemachine_agent.models.chance import ChanceModel

        return ChanceModel(spec, environment)
    settings = named.get(spec) or (NamedModel.model_validate({"use": spec}) if SPEC.fullmatch(spec) else None)
    if settings is None:
        names = ", ".join(f"`{name}`" for name in named)
        known = f"{KINDS}; in the settings: {names}" if named else KINDS
        raise UsageError(f"there is no model `{one_line(spec, 80)}`", hint=f"known: {known}")
    first = _provider(spec, settings, environment, os.environ if environ is None else environ)
    if settings.fallback is None:
        return first
    second = named.get(settings.fallback)
    if second is None:
        raise UsageError(
            f"model `{spec}` falls back to `{settings.fallback}`, which the settings do not name",
            hint=did_you_mean(settings.fallback, named),
        )
    from statemachine_agent.models.fallback import FallbackModel

    other = _provider(settings.fallback, second, environment, os.environ if environ is None else environ)
    return FallbackModel(first, other)


def _provider(spec: str, settings: NamedModel, environment: Environment, environ: Mapping[str, str]) -> Model:
    from statemachine_agent.models.provider import ProviderModel

    return ProviderModel(spec, settings, _key(spec, settings, environ), environment)


def _key(spec: str, settings: NamedModel, environ: Mapping[str, str]) -> str:
    """The key from the environment. The provider's own goes to the provider only, never to another address."""
    names = key_names(settings)
    if not names:
        return _NO_KEY
    for name in names:
        found = environ.get(name, "").strip()
        if found:
            if not (found.isascii() and found.isprintable()):
                raise UsageError(f"the value of {name} is no key", hint="it holds what no header can; set it anew")
            return found
    raise UsageError(f"there is no key for the model `{spec}`", hint=f"put it into the environment as {names[0]}")
