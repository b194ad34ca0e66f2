"""The bindings `command` and `mcp` against the arguments of their manifest. It must not know what the settings allow."""

from __future__ import annotations

from statemachine_agent.definition.bindings import CommandLine, Mcp
from statemachine_agent.definition.document import Document, Path_
from statemachine_agent.definition.faults import Fault
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.text import did_you_mean


def check_binding(document: Document, tool: ToolManifest) -> list[Fault]:
    """The faults of a manifest that starts a program, or asks an MCP server."""
    if tool.binding.mcp is not None:
        return _mcp(document, tool, tool.binding.mcp)
    faults: list[Fault] = []
    if tool.binding.command is None:
        return faults
    call = tool.binding.call
    here: Path_ = ("binding", "command")
    if tool.errors:
        message = "`errors` are HTTP statuses, and no program answers with one"
        faults.append(document.fault(("errors",), message, "remove it", key=True))
    faults += _places(document, tool, call)
    if tool.is_read and call.tells_the_key:
        faults.append(document.fault(here, "a read has no key to tell", "remove `{call.key}`"))
    if tool.idempotency is not None and tool.idempotency.replay and not call.tells_the_key:
        message = "a replay is only safe where the program is told the key"
        faults.append(document.fault(here, message, "add `{call.key}`, or look the effect up with `reconcile`"))
    return faults


def _mcp(document: Document, tool: ToolManifest, mcp: Mcp) -> list[Fault]:
    faults = []
    here: Path_ = ("binding", "mcp")
    if tool.errors:
        message = "`errors` are HTTP statuses, and an MCP server answers with none"
        faults.append(document.fault(("errors",), message, "remove it", key=True))
    if tool.is_read and mcp.key_argument:
        message = "a read has no key to send"
        faults.append(document.fault((*here, "key_argument"), message, "remove it", key=True))
    if mcp.key_argument in tool.args:
        message = f"`{mcp.key_argument}` is filled with the key, and with nothing else"
        faults.append(document.fault(("args", str(mcp.key_argument)), message, "remove it here", key=True))
    if tool.is_read or document.incomplete(here):
        return faults
    if mcp.schema_hash is None:
        message = "a write is bound to schemas that somebody has read"
        faults.append(
            document.fault(here, message, "add `schema_hash:`, which `sma tools import-mcp` writes", key=True)
        )
    if tool.idempotency is not None and tool.idempotency.replay and not mcp.key_argument:
        message = "a replay is only safe where the server is told the key"
        faults.append(document.fault(here, message, "add `key_argument:`, or look the effect up", key=True))
    return faults


def _places(document: Document, tool: ToolManifest, call: CommandLine) -> list[Fault]:
    """Every placeholder is an argument that fits there, and every argument has a place."""
    faults = []
    here: Path_ = ("binding", "command")
    for index, word in enumerate(call.words, 1):
        name = word.argument
        if name is None or name == "call.key" or name in document.left_out(("args",)):
            continue
        declared, path = tool.args.get(name), (*here, index)
        if declared is None:
            advice = did_you_mean(name, tool.args)
            faults.append(document.fault(path, f"the command names `{name}`, which is no argument", advice))
        elif declared.kind in ("array", "object"):
            what = "list" if declared.kind == "array" else "mapping"
            message = f"`{name}` is a {what} and cannot stand in a command"
            faults.append(document.fault(path, message, "take single values"))
        elif declared.optional and not word.front:
            message = f"`{name}` is optional, and a word of its own cannot be left away"
            faults.append(document.fault(path, message, f"write `--{name}={{{name}}}`, or make it required"))
    for name in tool.args:
        if name not in call.arguments:
            message = f"`{name}` has no place in the command"
            faults.append(document.fault(("args", name), message, f"write `{{{name}}}` or `--x={{{name}}}`", key=True))
    return faults
