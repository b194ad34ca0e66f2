"""The ways in which a service can be told to misbehave; must not know what the service is about.

========================  ======================================================================================
``commit_then_drop``      do the work, then close the connection without a byte of an answer
``drop_before``           close the connection without doing the work (``drop`` is the same, for reads)
``refuse``                422 ``{"error": "refused"}``, nothing stored
``queued``, ``rejected``  a new refund is given this status; nothing else is different
``slow``                  do the work, wait ``seconds``, answer
``slow_before``           wait ``seconds``, do the work, answer
``unavailable``           503 ``{"error": "unavailable"}``, nothing stored
``garbage``               do the work, answer with the right status and a body that is not JSON
``huge``                  do the work, answer with the right body plus a field ``padding`` of 2,000,000 characters
========================  ======================================================================================

Clearing the faults also ends the waits of requests that are slow already.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from .exchange import Answer, Json, Problem
from .fields import ANY_STRING, take

GARBAGE = b"<html><body>It works!</body></html>"
PADDING = "x" * 2_000_000
LONGEST_WAIT = 600.0

SLOW_MODES = frozenset({"slow", "slow_before"})
READ_MODES = frozenset({"drop", "drop_before", "slow", "slow_before", "unavailable", "garbage", "huge"})
WRITE_MODES = frozenset(
    {"commit_then_drop", "drop_before", "refuse", "slow", "slow_before", "unavailable", "garbage", "huge"}
)


@dataclass(frozen=True)
class Fault:
    """A way of going wrong, and which requests it hits.

    ``on``: "write" for POST, "read" for GET and HEAD; ``times``: how many are still to be hit (None: until cleared);
    ``seconds``: the wait of the slow modes, which ends early when ``cleared`` is set.
    """

    mode: str
    on: str
    times: int | None
    seconds: float | None
    cleared: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)


class Faults:
    """The faults waiting for requests: each request takes the first one for its kind, first come, first served."""

    def __init__(self, allowed: Mapping[str, frozenset[str]]) -> None:
        """``allowed`` maps "read" and "write" to the modes the service knows for them."""
        self._allowed = allowed
        self._waiting: list[Fault] = []
        self._cleared = threading.Event()
        self._lock = threading.Lock()

    def add(self, body: object) -> Fault:
        """Queue the fault that a JSON body describes; what cannot be, or could never happen, is a ``Problem``."""
        fault = self._checked(body)
        with self._lock:
            if any(other.on == fault.on and other.times is None for other in self._waiting):
                raise Problem(
                    409, "never_reached", f"a fault on {fault.on} is set until cleared; DELETE /_faults before this one"
                )
            self._waiting.append(fault)
        return fault

    def take(self, on: str) -> Fault | None:
        """The fault that hits the next request of this kind, used up once."""
        with self._lock:
            for place, fault in enumerate(self._waiting):
                if fault.on != on:
                    continue
                if fault.times == 1:
                    del self._waiting[place]
                elif fault.times is not None:
                    self._waiting[place] = replace(fault, times=fault.times - 1)
                return replace(fault, cleared=self._cleared)
        return None

    def clear(self) -> None:
        """Behave from now on; requests that wait go on."""
        with self._lock:
            self._waiting.clear()
            self._cleared.set()
            self._cleared = threading.Event()

    def all(self) -> list[Json]:
        """What is still waiting, in order, as ``{"mode", "on", "times", "seconds"}``."""
        with self._lock:
            names = ("mode", "on", "times", "seconds")
            return [{name: getattr(fault, name) for name in names} for fault in self._waiting]

    def _checked(self, body: object) -> Fault:
        given = {"on": "write", "times": 1, "seconds": None, **body} if isinstance(body, dict) else body
        kinds = sorted(kind for kind, modes in self._allowed.items() if modes)
        checks = {"mode": ANY_STRING, "times": _TIMES, "seconds": _SECONDS, "on": _one_of(kinds)}
        fault = Fault(**take(given, checks))
        modes = sorted(self._allowed[fault.on])
        if fault.mode not in modes:
            raise Problem(422, "invalid", f"no such mode on {fault.on} here; the modes are {', '.join(modes)}")
        if (fault.seconds is not None) != (fault.mode in SLOW_MODES):
            raise Problem(422, "invalid", f"seconds goes with {' and '.join(sorted(SLOW_MODES))}, and only with them")
        return fault


def misbehave(fault: Fault | None, work: Callable[[], Answer]) -> Answer | None:
    """Run ``work`` as the fault has it; None means: close the connection without an answer."""
    mode = None if fault is None else fault.mode
    if mode in ("drop", "drop_before"):
        return None
    if mode == "unavailable":
        return Problem(503, "unavailable").answer()
    if mode == "refuse":
        return Problem(422, "refused").answer()
    if mode == "slow_before":
        _wait(fault)
    answer = work()
    if mode == "commit_then_drop":
        return None
    if mode == "slow":
        _wait(fault)
    if mode == "garbage":
        return replace(answer, body=GARBAGE)
    if mode == "huge" and isinstance(answer.body, dict):
        return replace(answer, body={**answer.body, "padding": PADDING})
    return answer


def _wait(fault: Fault | None) -> None:
    if fault is not None and fault.seconds is not None:
        fault.cleared.wait(fault.seconds)


def _one_of(words: list[str]) -> tuple[str, Callable[[object], bool]]:
    return f"one of: {', '.join(words)}", lambda value: value in words


_TIMES = ("a whole number from 1, or null for until cleared", lambda value: value is None or _is_count(value))
_SECONDS = (f"null or a number of seconds from 0 to {LONGEST_WAIT:g}", lambda value: value is None or _is_wait(value))


def _is_count(value: object) -> bool:
    return type(value) is int and value > 0


def _is_wait(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LONGEST_WAIT
