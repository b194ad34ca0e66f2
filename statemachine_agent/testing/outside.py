"""The world outside of a random walk: which effects really happened there, and look-ups that say so truthfully.

A service of its own would happen twice if it were sent to twice, unless the manifest replays: then it knows its keys. It must
not know what a test draws.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.schema import with_floats
from statemachine_agent.errors import GuardError
from statemachine_agent.guards.evaluate import truth
from statemachine_agent.records import Effect
from statemachine_agent.testing.samples import variants
from statemachine_agent.testing.stage import Question
from statemachine_agent.testing.subject import Subject


class Outside:
    """What happened, by the key of the effect."""

    def __init__(self, subject: Subject) -> None:
        """Nothing has happened yet."""
        self._tools = subject.compiled.tools
        #: key → how often it happened
        self.happened: Counter[str] = Counter()

    def happens(self, question: Question) -> None:
        """The write that was sent takes effect."""
        manifest, request = question.manifest, question.request
        if manifest is None or request is None or manifest.is_read or request.key is None:
            return
        knows_keys = manifest.idempotency is not None and manifest.idempotency.replay
        if not (knows_keys and self.happened[request.key]):
            self.happened[request.key] += 1

    def truthful(self, write: ToolManifest, effect: Effect, now: object, more: Sequence[Any] = ()) -> list[Any]:
        """Answers of the look-up that say of `effect` what is true; none where none could be made up."""
        reconcile = write.reconciler
        if reconcile is None:
            return []
        lookup = self._tools[reconcile.tool]
        wanted, other = (
            (reconcile.found, reconcile.absent) if self.happened[effect.key] else (reconcile.absent, reconcile.found)
        )
        roots = {
            "args": with_floats(write.args, effect.args),
            "effect": {"key": effect.key, "tool": effect.tool},
            "now": now,
        }
        texts = [effect.key, *(v for v in effect.args.values() if isinstance(v, str))]
        found = []
        for answer in (*more, *variants(lookup.returns, texts)):
            data = {**roots, "result": with_floats(lookup.returns, answer)}
            if _holds(wanted, data) and not _holds(other, data):
                found.append(answer)
        return found


def _holds(text: str, data: Mapping[str, Any]) -> bool:
    try:
        return truth("look-up", text, data)
    except GuardError:
        return False
