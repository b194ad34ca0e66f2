"""Who there is: tenant, roles and scopes of every actor and approver. It must not know how an identity is established."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field, field_validator

from statemachine_agent.definition.manifest import SCOPE
from statemachine_agent.definition.node import Lower, Node, complaint


class Person(Node):
    """One actor or approver."""

    tenant: Lower = "default"
    roles: tuple[Lower, ...] = ()
    scopes: tuple[str, ...] = ()

    @field_validator("scopes")
    @classmethod
    def _scopes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for scope in value:
            if not SCOPE.fullmatch(scope):
                raise complaint(f"`{scope}` is not a scope", "write `service:verb`, for example `refunds:write`")
        return value


class People(Node):
    """The people file."""

    people: Mapping[Annotated[str, Field(min_length=1, max_length=200)], Person]

    @property
    def roles(self) -> frozenset[str]:
        """All roles that somebody holds."""
        return frozenset(role for person in self.people.values() for role in person.roles)
