"""Two models, one behind the other: where the first fails twice in a step, the second is asked.

Each attempt still is one request and one row: the loop asks, and this only says whom. It must not know how either is asked.
"""

from __future__ import annotations

from statemachine_agent.models.port import Hear, Model, ModelUnavailableError, Prompt, Reply, StreamingModel

_BEFORE = 2  # failures of the first for one decision
_KEPT = 1000  # decisions of many tasks that are under way


class FallbackModel:
    """The first as long as it answers; for the rest of a decision the second."""

    def __init__(self, first: Model, second: Model) -> None:
        """Both are asked as they are; neither knows of the other."""
        self.first, self._second = first, second
        #: the first one's, by which the settings find both again: a task stores it
        self.spec = first.spec
        self._failures: dict[str, int] = {}

    async def decide(self, prompt: Prompt) -> Reply:
        """One inference by whoever's turn it is."""
        return await self._decided(prompt, None)

    async def decide_aloud(self, prompt: Prompt, hear: Hear) -> Reply:
        """The same, heard where whoever's turn it is can be heard."""
        return await self._decided(prompt, hear)

    def turn(self, prompt: Prompt) -> Model:
        """Whose turn it is in this decision."""
        return self._second if self._failures.get(prompt.hash, 0) >= _BEFORE else self.first

    async def _decided(self, prompt: Prompt, hear: Hear | None) -> Reply:
        if self.turn(prompt) is self._second:
            return await _asked(self._second, prompt, hear)
        failures = self._failures.get(prompt.hash, 0)
        try:
            reply = await _asked(self.first, prompt, hear)
        except ModelUnavailableError as problem:
            # what the first will never answer, since its key is not accepted or its model is gone, the second may
            self._failures[prompt.hash] = failures + 1 if problem.retryable else _BEFORE
            while len(self._failures) > _KEPT:
                del self._failures[next(iter(self._failures))]
            problem.retryable = True
            raise
        self._failures.pop(prompt.hash, None)
        return reply


def behind(first: Model, second: Model) -> FallbackModel:
    """`second` behind `first`. Whoever is said to stand behind either of them already is not asked."""
    return FallbackModel(_alone(first), _alone(second))


def turn_of(model: Model, prompt: Prompt) -> str:
    """The spec of who is asked next, for the row of an attempt that may come to nothing."""
    return (model.turn(prompt) if isinstance(model, FallbackModel) else model).spec


def _alone(model: Model) -> Model:
    return model.first if isinstance(model, FallbackModel) else model


async def _asked(model: Model, prompt: Prompt, hear: Hear | None) -> Reply:
    if hear is not None and isinstance(model, StreamingModel):
        return await model.decide_aloud(prompt, hear)
    return await model.decide(prompt)
