"""Who there is: tenant, roles and scopes of every actor and approver. It must not know how an identity is established."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from statemachine_agent.definition.manifest import Scope
from statemachine_agent.definition.node import Lower, Node


class Person(Node):
    """One actor or approver."""

    tenant: Lower = "default"
    roles: tuple[Lower, ...] = ()
    scopes: tuple[Scope, ...] = ()


class People(Node):
    """The people file."""

    people: Mapping[Annotated[str, Field(min_length=1, max_length=200)], Person]

    @property
    def roles(self) -> frozenset[str]:
        """All roles that somebody holds."""
        return frozenset(role for person in self.people.values() for role in person.roles)
