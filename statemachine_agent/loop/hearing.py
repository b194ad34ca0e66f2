"""What is heard of a reply while it is on its way: its pieces, told to those who look on, and whether it was cut off.

It is for eyes only. Nothing of it is judged, run, recorded or counted; the decision is the whole reply and nothing else. It
must not know what a piece will become.
"""

from __future__ import annotations

from collections.abc import Callable

from statemachine_agent.loop.context import Event
from statemachine_agent.models.port import PIECES, Piece
from statemachine_agent.text import one_line

#: characters of one attempt that are told; a reply may be of any length, and nobody reads that much
MOST_HEARD = 20_000


class Hearing:
    """The pieces of one attempt, as the events `piece` and, where it came to nothing, `cut_off`."""

    def __init__(
        self,
        emit: Callable[[Event], None],
        task_id: str,
        state: str,
        step: int,
        attempt: int,
        may_be_heard: Callable[[str], bool] = lambda _tool: True,
    ) -> None:
        """`attempt` counts from 1, as in the row that the attempt becomes; `may_be_heard` says of which tools arguments are."""
        self._emit = emit
        self._may_be_heard = may_be_heard
        self._names: dict[int, str] = {}
        self._task_id = task_id
        self._about = {"state": state, "step": step, "attempt": attempt}
        self._left = MOST_HEARD
        self._over = False

    def __call__(self, piece: Piece) -> None:
        """One piece; what comes after the end, or is none, is not told. Never an exception: an adapter calls this."""
        if self._over or not isinstance(piece, Piece) or piece.kind not in PIECES:
            return
        if not isinstance(piece.text, str) or not isinstance(piece.call, int) or self._left <= 0:
            return
        text = str.__str__(piece.text)[: self._left]
        if piece.kind == "call":
            self._names[piece.call] = (self._names.get(piece.call, "") + text)[:200]
        elif piece.kind == "arguments" and not self._may_be_heard(self._names.get(piece.call, "")):
            return
        self._left -= max(1, len(text))
        more = {"kind": piece.kind, "call": piece.call, "text": text if self._left > 0 else text + " …"}
        self._emit(Event("piece", self._task_id, {**self._about, **more}))

    def whole(self) -> None:
        """The reply is there."""
        self._over = True

    def cut_off(self, why: str, *, again: bool) -> None:
        """It came to nothing; `again` tells whether the model will be asked once more."""
        if not self._over:
            self._over = True
            self._emit(Event("cut_off", self._task_id, {**self._about, "why": one_line(why), "again": again}))
