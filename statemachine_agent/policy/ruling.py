"""Rulings: may this call run, now, for this actor; and if only after a yes, whose.

It reads the actor's scopes, the manifest's rules and checked arguments. It must not know what the model said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from statemachine_agent.definition.manifest import Rule, ToolManifest
from statemachine_agent.definition.schema import with_floats
from statemachine_agent.guards.evaluate import truth
from statemachine_agent.policy.identity import has_scopes


@dataclass(frozen=True)
class Allow:
    """It may run."""


@dataclass(frozen=True)
class Deny:
    """It may not, and no asking changes that."""

    reason: str
    detail: str


@dataclass(frozen=True)
class RequireApproval:
    """It may run after people said yes: each role filled by another person."""

    by: tuple[str, ...]
    because: tuple[str, ...]


Ruling = Allow | Deny | RequireApproval


def rule(manifest: ToolManifest, actor: Mapping[str, Any], args: Mapping[str, Any], *, raised: bool = False) -> Ruling:
    """The ruling on one call; GuardError where a rule has no answer. `raised`: the model itself asked for approval."""
    missing = has_scopes(actor, manifest.scopes)
    if missing is not None:
        return Deny("missing_scope", f"`{actor['id']}` lacks the scope {missing}, which `{manifest.tool}` needs")
    matching = matching_rules(manifest, args)
    if matching or raised:
        roles = united(r.by for r in matching)
        because = tuple(dict.fromkeys(r.because for r in matching)) or ("the model asked for it",)
        return RequireApproval(roles, because)
    return Allow()


def matching_rules(manifest: ToolManifest, args: Mapping[str, Any]) -> list[Rule]:
    """The rules of the manifest that these arguments meet."""
    typed = with_floats(manifest.args, args)
    return [
        r
        for index, r in enumerate(manifest.approval or ())
        if r.when is None or truth(f"{manifest.tool}.approval[{index}]", r.when, {"args": typed})
    ]


def united(lists: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The roles of several rules together: named by two rules it counts once, written twice in one list twice."""
    needed: Counter[str] = Counter()
    for roles in lists:
        needed |= Counter(roles)
    return tuple(sorted(needed.elements()))
