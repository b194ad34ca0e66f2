"""The exact action that is ruled on, approved and sent: its hash binds an approval to it, and to nothing else.

It must not know who approves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from statemachine_agent.canonical import digest
from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.definition.manifest import ToolManifest


@dataclass(frozen=True)
class Action:
    """One call of one version of a tool with exactly these arguments, under this key and these rules."""

    tool: str
    version: int
    args: Mapping[str, Any]
    key: str
    policy_version: str

    @property
    def hash(self) -> str:
        """SHA-256 over the canonical JSON of all of it."""
        return digest(
            {
                "tool": self.tool,
                "version": self.version,
                "args": self.args,
                "key": self.key,
                "policy": self.policy_version,
            }
        )


def action_of(machine: CompiledMachine, manifest: ToolManifest, args: Mapping[str, Any]) -> Action:
    """The action of calling `manifest` with `args` in `machine`; TemplateError where the key cannot be filled."""
    key = manifest.idempotency.template.fill(args) if manifest.idempotency else ""
    return Action(manifest.tool, manifest.version, args, key, policy_version(machine, manifest))


def policy_version(machine: CompiledMachine, manifest: ToolManifest) -> str:
    """The hash of the rules that rule: the manifest's scopes and rules, and those of the machine's approval states."""
    rules = [rule.model_dump(mode="json") for rule in manifest.approval or ()]
    asked = [sorted(state.approval.by or ()) for state in machine.approvals_of(manifest.tool)]
    return digest({"scopes": sorted(manifest.scopes), "rules": rules, "asked": asked})
