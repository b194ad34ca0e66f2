"""One step: the eight phases in order, and nothing else."""

from __future__ import annotations

from statemachine_agent.loop.authorise import authorise
from statemachine_agent.loop.context import Context
from statemachine_agent.loop.decide import decide, plan
from statemachine_agent.loop.execute import execute
from statemachine_agent.loop.observe import observe
from statemachine_agent.loop.phases import Verdict
from statemachine_agent.loop.prompt import prompt
from statemachine_agent.loop.record import record
from statemachine_agent.loop.terminate import terminate
from statemachine_agent.loop.validate import validate
from statemachine_agent.records import Checkpoint


async def step(context: Context, checkpoint: Checkpoint) -> Verdict:
    """One step of a state in which the model chooses."""
    observation = observe(context, checkpoint)
    model_input = prompt(observation)
    proposal = await decide(model_input)
    checked = validate(proposal)
    authorised = authorise(checked)
    outcome = await execute(authorised)
    recorded = record(outcome)
    return terminate(recorded)


async def call(context: Context, checkpoint: Checkpoint) -> Verdict:
    """One turn of a `call` or `reconcile` state: no prompt, no decision, no step spent."""
    observation = observe(context, checkpoint)
    proposal = plan(observation)
    checked = validate(proposal)
    authorised = authorise(checked)
    outcome = await execute(authorised)
    recorded = record(outcome)
    return terminate(recorded)
