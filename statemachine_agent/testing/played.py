"""Tools that a test plays: what they answer, call by call, and what they were asked.

The words are those of outcomes: `ok` is a result, and `failed`, `not_sent` and `lost` are what a tool of one's own would
raise. It must not know machines.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.tools.outcome import LostError, NotSentError, RefusedByServiceError
from statemachine_agent.tools.request import ToolRequest

#: a result; what is raised; or a function of the request that gives either
Play: TypeAlias = Any


def failed(reason: str = "rejected", detail: str = "the service said no") -> RefusedByServiceError:
    """The service answered, and its answer means no: `failed`, for a read as for a write."""
    return RefusedByServiceError(detail, reason=reason)


def not_sent(reason: str = "unavailable", detail: str = "nothing was sent") -> NotSentError:
    """Nothing reached the service: a write is `blocked`, a read `failed`."""
    return NotSentError(detail, reason=reason)


def lost(reason: str = "timeout", detail: str = "no answer came") -> LostError:
    """It was sent, and no usable answer came: a write is `unknown`, a read `failed`."""
    return LostError(detail, reason=reason)


@dataclass
class Played:
    """A tool that a test plays: each call takes the next of `plays`, and the last one for ever.

    A play is a result, an exception that is raised (see `failed`, `not_sent`, `lost`), or a function that is given the
    request and returns either; it may be `async`.
    """

    plays: Sequence[Play]
    #: every request that came, with arguments and key
    calls: list[ToolRequest] = field(default_factory=list)

    async def send(self, manifest: ToolManifest, request: ToolRequest, timeout: float) -> object:  # noqa: ARG002
        """The next answer; part of what a binding is."""
        self.calls.append(request)
        play = self.plays[min(len(self.calls), len(self.plays)) - 1]
        if callable(play):
            play = play(request)
            if inspect.isawaitable(play):
                play = await play
        if isinstance(play, BaseException):
            raise play
        return deepcopy(play)


def played(given: Mapping[str, object]) -> dict[str, Played]:
    """Tools by name from what a test writes: a result (or exception), a list of them in order, or a `Played`."""
    return {name: _played(what) for name, what in given.items()}


def _played(what: object) -> Played:
    if isinstance(what, Played):
        return what
    if isinstance(what, list):
        return Played(what or [not_sent(detail="the test gave an empty list of answers")])
    return Played([what])
