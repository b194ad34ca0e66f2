"""Who there is: tenant, roles and scopes of every actor and approver. It must not know how an identity is established."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from statemachine_agent.definition.manifest import Scope
from statemachine_agent.definition.node import Lower, Node


class Person(Node):
    """One actor or approver."""

    #: kept with a task, and readable in guards
    tenant: Lower = "default"
    #: what they may say yes to: approvals name roles
    roles: tuple[Lower, ...] = ()
    #: what tasks of theirs may do: tools name scopes
    scopes: tuple[Scope, ...] = ()


class People(Node):
    """The people file."""

    #: id to person; the id is what the operating system, a token or `--actor` says
    people: Mapping[Annotated[str, Field(min_length=1, max_length=200)], Person]

    def of(self, tenant: str) -> People:
        """Those of one tenant: for a task of it there is nobody else."""
        return People(people={name: person for name, person in self.people.items() if person.tenant == tenant})

    @property
    def scopes(self) -> frozenset[str]:
        """All scopes that somebody has."""
        return frozenset(scope for person in self.people.values() for scope in person.scopes)

    @property
    def roles(self) -> frozenset[str]:
        """All roles that somebody holds."""
        return frozenset(role for person in self.people.values() for role in person.roles)
