"""A phase that is left out is an error at the line that left it out, and not a step without its check."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

from statemachine_agent.errors import IllegalPhaseError
from statemachine_agent.loop.authorise import authorise
from statemachine_agent.loop.decide import decide, plan
from statemachine_agent.loop.execute import execute
from statemachine_agent.loop.observe import observe
from statemachine_agent.loop.phases import CheckedCall, Observation, Outcome, Proposal
from statemachine_agent.loop.prompt import prompt
from statemachine_agent.loop.record import record
from statemachine_agent.loop.terminate import terminate
from statemachine_agent.loop.validate import validate


def a(kind: type) -> Any:
    """A value of that kind, with nothing in it: nobody looks into it."""
    return object.__new__(kind)


SKIPPED: list[tuple[Callable[[Any], Any], type, str, str]] = [
    (lambda v: observe(a(Observation), v), Proposal, "observe", "a Checkpoint, made by `the store`"),
    (prompt, Proposal, "prompt", "a Observation, made by `observe`"),
    (decide, Observation, "decide", "a ModelInput, made by `prompt`"),
    (plan, Proposal, "plan", "a Observation, made by `observe`"),
    (validate, Observation, "validate", "a Proposal, made by `decide`"),
    (authorise, Proposal, "authorise", "a CheckedCall, made by `validate`"),
    (execute, CheckedCall, "execute", "a AuthorisedCall, made by `authorise`"),
    (record, CheckedCall, "record", "a Outcome, made by `execute`"),
    (terminate, Outcome, "terminate", "a Record, made by `record`"),
]
MAKERS = {Proposal: "decide", Observation: "observe", CheckedCall: "validate", Outcome: "execute"}


@pytest.mark.parametrize(("phase", "given", "name", "wanted"), SKIPPED, ids=[s[2] for s in SKIPPED])
def test_what_a_phase_is_given_comes_from_the_one_before(
    phase: Callable[[Any], Any], given: type, name: str, wanted: str
) -> None:
    """The message says what was wanted, from whom, and what came instead."""

    async def main() -> None:
        found = phase(a(given))
        if inspect.isawaitable(found):
            await found

    with pytest.raises(IllegalPhaseError) as problem:
        asyncio.run(main())
    text = f"`{name}` takes {wanted}, and was given a {given.__name__}, made by `{MAKERS[given]}`"
    assert text in str(problem.value)


def test_the_line_is_that_of_the_caller() -> None:
    """A file and a number to go to."""
    with pytest.raises(IllegalPhaseError) as problem:
        validate(a(CheckedCall))
    line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    assert f"{__file__}:{line}: " in str(problem.value)


def test_something_that_no_phase_makes() -> None:
    """It is named too."""
    with pytest.raises(IllegalPhaseError, match="was given a str, made by `nobody`"):
        validate("a proposal")  # type: ignore[arg-type]
