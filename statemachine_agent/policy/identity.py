"""Identities: who somebody is, and how that was established. `--as` and `--actor` only say who one claims to be.

It must not know what the person wants.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statemachine_agent.definition.people import People
from statemachine_agent.environment import Environment
from statemachine_agent.errors import RefusedError
from statemachine_agent.text import did_you_mean, one_line


@dataclass(frozen=True)
class Identity:
    """A person, and how it was established that it is they: `os`, `token`, `application`, or only `asserted`."""

    id: str
    established: str


def establish(claim: str | None, how: str, environment: Environment) -> Identity:
    """The identity behind `claim` under the setting `how`; RefusedError where it is not who was claimed."""
    if how == "asserted":
        if not claim:
            raise RefusedError("nobody was named", hint="say who with --as or --actor", reason="no_identity")
        return Identity(claim, "asserted")
    if how == "os":
        user = environment.user()
        if claim not in (None, user):
            raise RefusedError(
                f"you are `{user}` here, not `{one_line(claim or '', 60)}`",
                hint='identities are established by the operating system (`identity = "os"` in the settings)',
                reason="wrong_identity",
            )
        return Identity(user, "os")
    raise RefusedError(f"identities cannot be established by `{how}`", hint="set `identity` to os or asserted")


def actor_of(people: People, identity: Identity) -> dict[str, Any]:
    """The actor that a task keeps; RefusedError for somebody unknown."""
    person = people.people.get(identity.id)
    if person is None:
        raise RefusedError(
            f"nobody is called `{one_line(identity.id, 60)}`",
            hint=f"people are listed in the people file; {did_you_mean(identity.id, people.people)}",
            reason="unknown_person",
        )
    return {
        "id": identity.id,
        "tenant": person.tenant,
        "roles": sorted(person.roles),
        "scopes": sorted(person.scopes),
        "established": identity.established,
    }


def has_scopes(actor: Mapping[str, Any], scopes: tuple[str, ...]) -> str | None:
    """The first scope that the actor lacks, or None."""
    return next((scope for scope in scopes if scope not in actor["scopes"]), None)
