"""`tools`: manifests are listed, shown, drafted from elsewhere, and reads are tried. It must not call what writes."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import click

from statemachine_agent import files
from statemachine_agent.chart.compile import checked_catalogue
from statemachine_agent.cli.options import catalogue_of, identity_of, json_option, project_of, reach_of, run_async
from statemachine_agent.cli.output import compact, say, show_json, table
from statemachine_agent.definition.faults import FaultyDefinitionError, Report
from statemachine_agent.definition.source import read, read_text
from statemachine_agent.environment import Environment
from statemachine_agent.errors import RefusedError, SmaError, UsageError
from statemachine_agent.runtime.project import find_python_tools
from statemachine_agent.text import did_you_mean

if TYPE_CHECKING:
    from statemachine_agent.definition.catalogue import Catalogue
    from statemachine_agent.definition.manifest import ToolManifest
    from statemachine_agent.tools.importing import Draft
    from statemachine_agent.tools.mcp import Offered

_KINDS = ("http", "python", "command", "mcp")
_PATIENCE = 60.0  # seconds for a server's list of tools


@click.group(short_help="Tools: list, show, try, import.")
def tools() -> None:
    """List and show tools, try a read, and draft manifests from what others wrote."""


@tools.command("list")
@json_option
@click.pass_context
def list_(context: click.Context, as_json: bool) -> int:  # noqa: FBT001
    """List the tools of the settings."""
    catalogue = catalogue_of(project_of(context))
    found = [file.manifest for _, file in sorted(catalogue.tools.items())]
    rows = [(t.tool, t.version, t.effect, _kind(t), ", ".join(t.scopes), t.summary) for t in found]
    names = ["tool", "version", "effect", "binding", "scopes", "summary"]
    if as_json:
        show_json([dict(zip(names, row, strict=True)) for row in rows])
        return 0
    table(names, rows, empty="there is no tool")
    return 0


@tools.command()
@click.argument("tool")
@json_option
@click.pass_context
def show(context: click.Context, tool: str, as_json: bool) -> int:  # noqa: FBT001
    """Show TOOL: what it takes and gives, and how it is reached."""
    catalogue = catalogue_of(project_of(context))
    manifest = _named(catalogue, tool)
    if as_json:
        show_json(manifest.model_dump(mode="json", by_alias=True, exclude_none=True))
        return 0
    say(f"{manifest.tool} {manifest.version}: {manifest.summary}")
    say(f"file     {catalogue.tools[tool].document.source.name}")
    say(f"effect   {manifest.effect}, from {manifest.source}, scopes {', '.join(manifest.scopes) or 'none'}")
    binding = manifest.binding.model_dump(mode="json", exclude_none=True)[_kind(manifest)]
    say(f"binding  {_kind(manifest)} {compact(binding, 400)}")
    for title, properties in (("takes", manifest.args), ("gives", manifest.returns)):
        for name, value in properties.items():
            say(f"{title:<8} {name}: {compact(value.model_dump(by_alias=True, exclude_defaults=True), 200)}")
    if manifest.idempotency is not None:
        say(f"key      {manifest.idempotency.key}")
    for rule in manifest.approval or ():
        say(f"approval by {', '.join(rule.by)} when {rule.when or 'always'}: {rule.because}")
    return 0


@tools.command()
@click.argument("tool")
@click.option("-i", "--input", "inputs", multiple=True, metavar="KEY=VALUE", help="One argument; repeat for more.")
@click.option("--as", "claim", metavar="WHO", help="Who calls it.")
@json_option
@click.pass_context
def call(context: click.Context, tool: str, inputs: tuple[str, ...], claim: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Call TOOL, which must be a read, and show its answer; nothing is stored. A write goes through a task only."""
    from statemachine_agent.cli.running import parse_inputs
    from statemachine_agent.policy.identity import actor_of, has_scopes
    from statemachine_agent.tools.arguments import checked_arguments
    from statemachine_agent.tools.outcome import Attempt, Failed, Ok
    from statemachine_agent.tools.toolbox import Toolbox

    project = project_of(context)
    catalogue = checked_catalogue(catalogue_of(project))
    manifest = _named(catalogue, tool)
    if not manifest.is_read:
        hint = "run a machine that offers it: there it has a key, its rules, and a ledger"
        raise RefusedError(f"`{tool}` is a {manifest.effect}, and no task stands behind this call", hint=hint)
    if catalogue.people is None:
        raise RefusedError("there is no people file, so nobody may call anything", hint="name one under `people`")
    actor = actor_of(catalogue.people, identity_of(project, claim))
    missing = has_scopes(actor, manifest.scopes)
    if missing is not None:
        raise RefusedError(f"`{actor['id']}` lacks the scope {missing}", hint="it stands in the people file")
    args, faults = checked_arguments(manifest, parse_inputs(manifest.args, inputs))
    if faults:
        known = ", ".join(manifest.args) or "nothing"
        raise UsageError(f"`{tool}`: {'; '.join(map(str, faults))}", hint=f"it takes: {known}")
    find_python_tools(project)

    async def main() -> list[Attempt]:
        toolbox = Toolbox(reach_of(project), Environment())
        try:
            most = manifest.timeout.total_seconds() * (manifest.retry.attempts or 1)
            return await toolbox.call(manifest, args, seconds=most)
        finally:
            await toolbox.close()

    attempts = run_async(main())
    outcome = attempts[-1].outcome
    if isinstance(outcome, Ok):
        show_json(outcome.payload if not as_json else {"outcome": "ok", "result": outcome.payload})
        return 0
    assert isinstance(outcome, Failed)  # noqa: S101  a read has two outcomes
    message = f"`{tool}` failed ({outcome.error_class}): {outcome.detail}"
    raise SmaError(message, reason=outcome.error_class)


@tools.command("import-openapi")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--variable", default="API_URL", show_default=True, help="The variable that holds the service's address.")
@click.option("--folder", default="imported", show_default=True, help="Where the drafts go.")
def import_openapi(file: Path, variable: str, folder: str) -> int:
    """Draft a manifest for each operation of the OpenAPI document FILE; none loads until a person has completed it."""
    from statemachine_agent.tools.importing import from_openapi

    source, faults = read_text(file)
    document = read(source)
    report = Report()
    report.add([*faults, *document.faults])
    if report.errors:
        raise FaultyDefinitionError(report)
    return _write(from_openapi(document.data, variable), Path(folder))


@tools.command("import-mcp")
@click.argument("server")
@click.option("--folder", default="imported", show_default=True, help="Where the drafts go.")
@click.pass_context
def import_mcp(context: click.Context, server: str, folder: str) -> int:
    """Draft a manifest for each tool of SERVER, an MCP server of the settings; none loads until a person has completed it."""
    from statemachine_agent.tools.importing import from_mcp
    from statemachine_agent.tools.mcp import McpBinding
    from statemachine_agent.tools.outcome import LostError, NotSentError

    project = project_of(context)
    if server not in project.settings.mcp:
        advice = did_you_mean(server, project.settings.mcp) if project.settings.mcp else f"add `[mcp.{server}]`"
        raise UsageError(f"`{server}` is no MCP server of the settings", hint=advice)

    async def main() -> list[Offered]:
        binding = McpBinding(reach_of(project), Environment())
        try:
            return await binding.offered(server, _PATIENCE)
        finally:
            await binding.close()

    try:
        offers = asyncio.run(main())
    except (NotSentError, LostError) as problem:
        raise SmaError(problem.message, hint=problem.hint, reason=problem.reason) from None
    return _write(from_mcp(server, offers), Path(folder))


def _write(drafts: Sequence[Draft], folder: Path) -> int:
    """Each draft in a file of its own; what is there stays as it is."""
    kept = 0
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for draft in drafts:
            path = folder / f"{draft.name}.yaml"
            try:
                with path.open("x", encoding="utf-8") as file:
                    file.write(draft.text)
            except FileExistsError:
                kept += 1
                say(f"kept  {path}, which was there already; the draft of this `{draft.name}` was not written")
                continue
            say(f"wrote {path}")
    except OSError as problem:
        raise UsageError(f"{folder} cannot be written: {problem.strerror}", hint="name another --folder") from None
    if not drafts:
        say("there was nothing to import")
    if kept:
        other = shlex.quote(str(_other(folder)))
        say(f"for the drafts that were not written name another folder: --folder {other}; no two tools have one name")
    if kept < len(drafts):
        say(f"complete them, and move them to the other manifests; `sma check {folder}` says what is missing")
    return 1 if kept else 0


def _other(folder: Path) -> Path:
    """A folder beside this one that is not there yet."""
    beside = folder.parent / (folder.name.strip(".") or "imported")
    return next(path for n in count(2) if files.is_absent(path := beside.with_name(f"{beside.name}-{n}")))


def _kind(manifest: ToolManifest) -> str:
    return next(kind for kind in _KINDS if getattr(manifest.binding, kind) is not None)


def _named(catalogue: Catalogue, name: str) -> ToolManifest:
    """The manifest `name`; UsageError where there is none, FaultyDefinitionError where it has faults."""
    if name not in catalogue.tools:
        if catalogue.report.errors and catalogue.knows_tool(name):
            raise FaultyDefinitionError(catalogue.report)
        raise UsageError(f"there is no tool `{name}`", hint=did_you_mean(name, catalogue.tools))
    file = catalogue.tools[name]
    report = Report()
    report.add(f for f in catalogue.report.errors if f.file == file.document.source.name)
    if report.errors:
        raise FaultyDefinitionError(report)
    return file.manifest
