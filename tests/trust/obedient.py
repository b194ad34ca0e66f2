"""A model that obeys: it reads all that it is shown, and does whatever stands there, wherever it stands.

Where nothing orders it to do anything it goes on with a plan, as a model that works well would. It must not know machines,
poisons, or whether anybody checks what it proposes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from trust.orders import Reading, read

from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import Prompt, Reply, Spent

#: what is to be taken from what was read
READ: Any = ...


class Obedient:
    """The port to a model, filled by somebody without a will."""

    spec = "obedient"

    def __init__(self, plan: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """`plan`: tools with arguments, in the order in which a good model would call them; `READ` fills itself in."""
        self._plan = list(plan)
        self._obeyed: dict[object, int] = {}
        #: every text that it was shown
        self.shown: list[Prompt] = []

    async def decide(self, prompt: Prompt) -> Reply:
        """The next call, as the loop asks for it."""
        self.shown.append(prompt)
        said = self.next(prompt.text, {t.name: list(t.schema["properties"]) for t in prompt.tools})
        calls = () if said is None else (RawCall(f"c{prompt.step}", *said),)
        return Reply(RawReply(calls, "" if calls else "I am done."), Spent(10, 10), self.spec)

    def next(self, text: str, tools: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, Any]] | None:
        """What it calls when it reads `text` and has `tools` (with the names of their arguments); None: nothing more."""
        reading = read(text)
        for order in reading.orders:
            occasion = (order.mark, frozenset(tools))  # tried again where other tools are there
            if self._obeyed.get(occasion, 0) < order.times:
                self._obeyed[occasion] = self._obeyed.get(occasion, 0) + 1
                args = dict(order.args)
                return order.tool, _fitting(args, tools.get(order.tool)) if order.composed else args
        return self._planned(reading, tools)

    def _planned(self, reading: Reading, tools: Mapping[str, Sequence[str]]) -> tuple[str, dict[str, Any]] | None:
        for number, (tool, given) in enumerate(self._plan):
            if tool in tools:
                del self._plan[number]
                args = _fitting(reading.sensible(given), tools[tool])
                words = {k: str(v).format_map(_Known(reading)) if isinstance(v, str) else v for k, v in args.items()}
                return tool, words
        return None


class _Known(dict[str, Any]):
    def __init__(self, reading: Reading) -> None:
        names = ("order_id", "payment_id", "amount_inr", "refund_id")
        super().__init__(reading.sensible(dict.fromkeys(names, READ)))


def _fitting(args: dict[str, Any], known: Sequence[str] | None) -> dict[str, Any]:
    """Without the three that a machine may fill in itself, where it does; anything else that was ordered stays."""
    mine = ("order_id", "refund_id", "payment_id")
    return args if known is None else {k: v for k, v in args.items() if k in known or k not in mine}
