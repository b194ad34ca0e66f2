"""Two models, one behind the other: where the first fails twice in a step, the second is asked.

Each attempt still is one request and one row: the loop asks, and this only says whom. It must not know how either is asked.
"""

from __future__ import annotations

from statemachine_agent.models.port import Model, ModelUnavailableError, Prompt, Reply

_BEFORE = 2  # failures of the first for one decision
_KEPT = 1000  # decisions of many tasks that are under way


class FallbackModel:
    """The first as long as it answers; for the rest of a decision the second."""

    def __init__(self, first: Model, second: Model) -> None:
        """Both are asked as they are; neither knows of the other."""
        self._first, self._second = first, second
        #: the first one's, by which the settings find both again: a task stores it
        self.spec = first.spec
        self._failures: dict[str, int] = {}

    async def decide(self, prompt: Prompt) -> Reply:
        """One inference by whoever's turn it is."""
        failures = self._failures.get(prompt.hash, 0)
        if failures >= _BEFORE:
            return await self._second.decide(prompt)
        try:
            reply = await self._first.decide(prompt)
        except ModelUnavailableError as problem:
            # what the first will never answer, since its key is not accepted or its model is gone, the second may
            self._failures[prompt.hash] = failures + 1 if problem.retryable else _BEFORE
            while len(self._failures) > _KEPT:
                del self._failures[next(iter(self._failures))]
            problem.retryable = True
            raise
        self._failures.pop(prompt.hash, None)
        return reply
