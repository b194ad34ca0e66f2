"""The error tree: everything that this package raises on purpose, so that a caller and the command line can tell cases apart.

It must not know any other module. A class's docstring is its default message: the list of classes reads as a catalogue
of what can go wrong. `exit_code` is what the command line ends with; `reason` is a stable word for programs.
"""

from __future__ import annotations

from typing import ClassVar


class SmaError(Exception):
    """The request could not be carried out."""

    exit_code: ClassVar[int] = 1
    reason: str = "error"
    #: the message has several lines, and whoever made it has made each of them safe to show
    is_report: ClassVar[bool] = False

    def __init__(self, message: str | None = None, *, hint: str | None = None, reason: str | None = None) -> None:
        """`message` says what happened and where; `hint` says what to do about it."""
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.hint = hint
        if reason is not None:
            self.reason = reason
        super().__init__(self.message)

    def __str__(self) -> str:
        """Message and hint on one line."""
        return f"{self.message} ({self.hint})" if self.hint else self.message


class UsageError(SmaError):
    """The command or call was not of the right form."""

    exit_code = 2
    reason = "usage"


class SettingsError(UsageError):
    """The settings cannot be used as they are."""

    reason = "settings"


class RefusedError(SmaError):
    """The request is understood, and refused."""

    exit_code = 1
    reason = "refused"


class UnknownTaskError(RefusedError):
    """There is no task of that id in this store."""

    reason = "unknown_task"


class UnknownVersionError(RefusedError):
    """The task has no such version."""

    reason = "unknown_version"


class ConflictError(SmaError):
    """Somebody else holds the task, or it has moved on since it was read."""

    exit_code = 20
    reason = "conflict"


class TaskHeldError(ConflictError):
    """Another worker holds the lease of this task."""

    reason = "held"


class LeaseLostError(ConflictError):
    """The lease of this task was lost to another worker: nothing was written."""

    reason = "lease_lost"


class StaleVersionError(ConflictError):
    """The task has moved on since it was read: nothing was written."""

    reason = "stale"


class DefinitionError(SmaError):
    """A machine, a manifest or the people file does not load."""

    exit_code = 21
    reason = "definition"


class StoreError(SmaError):
    """The store cannot be used."""

    exit_code = 22
    reason = "store"


class PlatformError(SmaError):
    """The operating system refused what the command needs."""

    exit_code = 74
    reason = "platform"


class CanonicalError(SmaError):
    """A value cannot be written as canonical JSON."""

    reason = "not_json"
    #: what is wrong with it, without the path, whose keys may be data
    problem = "is no JSON"


class GuardError(SmaError):
    """A guard gave neither true nor false, so nothing may follow from it."""

    reason = "guard_error"

    def __init__(self, guard: str, problem: str) -> None:
        """`guard` is the guard's name in the file; `problem` names the field and what was wrong with it."""
        self.guard = guard
        self.problem = problem
        super().__init__(f"guard `{guard}`: {problem}")


class IllegalTransitionError(SmaError):
    """The chart has no transition for this event in this configuration."""

    reason = "illegal_transition"

    def __init__(self, event: str, configuration: tuple[str, ...]) -> None:
        """The event that was sent, and the states that were active."""
        self.event = event
        self.configuration = configuration
        super().__init__(f"`{event}` is not a transition of {', '.join(configuration) or 'nothing'}")


class IllegalConfigurationError(SmaError):
    """The stored configuration is not one that this machine can be in."""

    exit_code = 22
    reason = "illegal_configuration"


class IllegalPhaseError(SmaError):
    """A phase of the loop was called with a value that the phase before it did not make."""

    reason = "illegal_phase"


class ModelError(SmaError):
    """The model gave no decision."""

    reason = "model_failed"
