"""What goes wrong on the way to a service, before anybody can say what it means for a call. It must not know any library."""

from __future__ import annotations

from statemachine_agent.errors import SmaError
from statemachine_agent.tools.outcome import NotSentError


class TokenError(NotSentError):
    """There is no access token, so nothing was sent to the tool's service."""

    reason = "token_refused"


class LineError(SmaError):
    """A connection could not be made, or broke off; whether anything was sent, only who watched it can say."""

    reason = "unavailable"
