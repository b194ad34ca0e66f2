"""Names and promises checked across all files of a catalogue: what a single file cannot know of itself.

What guards say is checked a layer above. It must not run anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine_agent.definition.assembly import in_circles, in_order, put_together
from statemachine_agent.definition.check_graph import check_graph
from statemachine_agent.definition.check_machine import check_machine
from statemachine_agent.definition.check_masks import check_masks
from statemachine_agent.definition.check_nesting import check_nesting
from statemachine_agent.definition.check_properties import check_properties
from statemachine_agent.definition.check_tool import check_tool
from statemachine_agent.definition.faults import Level

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue
    from statemachine_agent.definition.faults import Fault


def crosscheck(catalogue: Catalogue) -> list[Fault]:
    """The faults of all machines and manifests of `catalogue`."""
    faults: list[Fault] = []
    for tool in catalogue.tools.values():
        faults += check_tool(catalogue, tool)
    order, rings = in_order(catalogue), in_circles(catalogue)
    for name in order:
        found = put_together(catalogue, name, rings)
        machine = catalogue.machines[name]
        found += check_machine(catalogue, machine)
        found += check_nesting(catalogue, machine)
        found += check_graph(catalogue, machine)
        found += check_properties(catalogue, machine)
        found += check_masks(catalogue, machine)
        if machine.document.faults or any(fault.level is Level.ERROR for fault in found):
            catalogue.faulty.add(name)
        faults += found
    return faults
