"""What holds of every task of every machine, whatever models, tools, people and accidents do.

Each function takes what there is to see and gives the sentences that are broken; none where all is well. It must not know how
a task came to be where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from statemachine_agent.chart.chart import Standing
from statemachine_agent.chart.compile import CompiledMachine
from statemachine_agent.errors import GuardError
from statemachine_agent.loop.context import Context
from statemachine_agent.loop.observe import observe
from statemachine_agent.loop.view import answers, live_actor
from statemachine_agent.models.port import Prompt
from statemachine_agent.policy.ruling import RequireApproval, rule
from statemachine_agent.reasons import REASONS
from statemachine_agent.records import Checkpoint, Status, Transaction
from statemachine_agent.testing.stage import Question


def of_commits(commits: Sequence[tuple[Transaction, Checkpoint]]) -> Iterator[str]:
    """Every commit makes the next version; nothing follows an end but a person's word; what was done is never undone."""
    for number, (transaction, after) in enumerate(commits):
        if (transaction.expected_version, after.head.version) != (number - 1, number):
            yield f"commit {number} took version {transaction.expected_version} to {after.head.version}"
        if number and commits[number - 1][1].head.status.is_end and transaction.cause != "resolution":
            yield f"commit {number} ({transaction.cause}) came after the end"
        for effect in commits[number - 1][1].effects if number else ():
            known = after.effect(effect.key)
            if effect.status.is_done and (known is None or not known.status.is_done):
                yield f"{effect.key} was {effect.status}, and is {known.status if known else 'gone'} after commit {number}"


def of_checkpoint(machine: CompiledMachine, checkpoint: Checkpoint) -> Iterator[str]:
    """Budgets, one open effect of a tool at most, and a legal configuration."""
    head = checkpoint.head
    if head.steps > machine.definition.limits.steps:
        yield f"{head.steps} steps were taken, {machine.definition.limits.steps} are the limit"
    for tool in machine.tools:
        most = machine.at_most(tool)
        if most is not None and head.calls.get(tool, 0) > most:
            yield f"`{tool}` was called {head.calls[tool]} times, {most} are the limit"
        if sum(1 for e in checkpoint.open_effects if e.tool == tool) > 1:
            yield f"two effects of `{tool}` are open at once"
    machine.chart.tree.full(head.configuration)  # raises where it is no configuration


def of_end(context: Context, checkpoint: Checkpoint) -> Iterator[str]:
    """An end has a known reason; SUCCEEDED only while `success` holds and no effect is open."""
    head = checkpoint.head
    if not head.status.is_end:
        return
    if head.reason not in REASONS and head.reason not in own_reasons(context.machine):
        yield f"the reason {head.reason!r} of {head.status} is neither the product's nor the author's"
    if checkpoint.timers or head.proposal is not None or any(a.status == "open" for a in checkpoint.approvals):
        yield "something still waits although the task has ended"
    if head.status is not Status.SUCCEEDED:
        return
    if checkpoint.open_effects:
        yield f"it succeeded while {checkpoint.open_effects[0].key} is open"
    ask = answers(context, checkpoint)
    for guard in context.machine.definition.success:
        try:
            if not ask(guard):
                yield f"it succeeded although `{guard}` does not hold"
        except GuardError as problem:
            yield f"it succeeded although `{guard}` has no answer: {problem.message}"


def of_sending(context: Context, checkpoint: Checkpoint, question: Question) -> Iterator[str]:
    """A write that is being sent has its intent stored, and every yes that it needs."""
    manifest, request = question.manifest, question.request
    if manifest is None or request is None or manifest.is_read:
        return
    effect = checkpoint.effect(request.key or "")
    if effect is None or not effect.status.is_open:
        yield f"`{manifest.tool}` was sent under {request.key!r} without an intent"
        return
    if dict(effect.args) != dict(request.args):
        yield f"`{manifest.tool}` was sent with {request.args}, and {effect.args} was intended"
    ruling = rule(manifest, live_actor(context, checkpoint), request.args)
    if isinstance(ruling, RequireApproval) and effect.approval_id is None:
        yield f"`{manifest.tool}` was sent without the approval that it needs"


def of_restoring(context: Context, stored: Checkpoint, committed: Checkpoint, prompt: Prompt | None) -> Iterator[str]:
    """What was stored is what was decided; and a new process would be offered the same."""
    if stored.head != committed.head:
        yield f"the stored head differs from the committed one: {stored.head} / {committed.head}"
    by_state = [sorted(one.timers, key=lambda t: t.state) for one in (stored, committed)]
    if by_state[0] != by_state[1]:
        yield f"the stored timers differ from the committed: {by_state[0]} / {by_state[1]}"
    for name in ("evidence", "effects"):
        if getattr(stored, name) != getattr(committed, name):
            yield f"the stored {name} differ from the committed: {getattr(stored, name)} / {getattr(committed, name)}"
    if prompt is None:
        return
    offered = {a.tool for a in observe(context, stored).available if a.standing is Standing.OFFERED}
    shown = {tool.name for tool in prompt.tools}
    if not offered <= shown or shown - offered - {"request_approval"}:
        yield f"the model was shown {sorted(shown)}, and restoring offers {sorted(offered)}"


def own_reasons(machine: CompiledMachine) -> set[str]:
    """The reason codes that the machine's author and the manifests' wrote."""
    rows = {row.reason for row in machine.chart.transitions if row.reason}
    tools = machine.tools.values()
    blocked = {tool.precondition.reason for tool in tools if tool.precondition is not None}
    return rows | blocked | {name for tool in tools for name in tool.errors.values()}


def of_effects(happened: Mapping[str, int]) -> Iterator[str]:
    """Nothing happened twice."""
    for key, times in happened.items():
        if times > 1:
            yield f"{key} happened {times} times"
