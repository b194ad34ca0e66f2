"""Names and promises checked across all files of a catalogue: what a single file cannot know of itself.

What guards say is checked a layer above. It must not run anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine_agent.definition.check_graph import check_graph
from statemachine_agent.definition.check_machine import check_machine
from statemachine_agent.definition.check_nesting import check_nesting
from statemachine_agent.definition.check_properties import check_properties
from statemachine_agent.definition.check_tool import check_tool

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue
    from statemachine_agent.definition.faults import Fault


def crosscheck(catalogue: Catalogue) -> list[Fault]:
    """The faults of all machines and manifests of `catalogue`."""
    faults: list[Fault] = []
    for tool in catalogue.tools.values():
        faults += check_tool(catalogue, tool)
    for machine in catalogue.machines.values():
        faults += check_machine(catalogue, machine)
        faults += check_nesting(catalogue, machine)
        faults += check_graph(catalogue, machine)
        faults += check_properties(catalogue, machine)
    return faults
