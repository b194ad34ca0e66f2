"""Whether a machine's tools can be called at all, asked before anything is begun. It must not know tasks."""

from __future__ import annotations

from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.errors import SettingsError
from statemachine_agent.text import one_line
from statemachine_agent.tools.toolbox import Toolbox


def check_reach(toolbox: Toolbox, machine: CompiledMachine) -> None:
    """SettingsError where a tool is bound to what the settings do not list, or needs a variable that has no value."""
    found = {name: unlisted for name, tool in machine.tools.items() if (unlisted := toolbox.unlisted(tool)) is not None}
    if found:
        needed, setting = first = next(iter(found.values()))
        tools = [f"`{name}`" for name, unlisted in found.items() if unlisted == first]
        raise SettingsError(
            f"{', '.join(tools)} of `{machine.name}` {'needs' if len(tools) == 1 else 'need'} `{one_line(needed, 80)}`,"
            f" which `{setting}` does not list",
            hint="list it in the settings, which `open_project` reads, or in `Reach`; nothing was begun",
        )
    names = dict.fromkeys(name for tool in machine.tools.values() for name in toolbox.variables_of(tool))
    missing = toolbox.reach.missing(names)
    if missing:
        raise SettingsError(
            f"{', '.join(missing)} {'has' if len(missing) == 1 else 'have'} no value, and tools of"
            f" `{machine.name}` need it",
            hint="set it in the environment, or under `variables` in the settings; nothing was begun",
        )
