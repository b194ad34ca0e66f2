"""The Python binding: a function of an allowed package, imported at its first call.

The function takes the arguments by name, and `call` (a ToolRequest) if it names such a parameter. It returns a mapping. A
plain function runs in a thread. For a write, NotSentError says that nothing happened and RefusedByServiceError that the
answer was no; whatever else it raises leaves open whether it happened, and ends nothing but the call. It must not know what
the answer means for a task.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any

from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.environment import Environment
from statemachine_agent.text import one_line, said_by
from statemachine_agent.tools.outcome import LostError, NotSentError, RefusedByServiceError
from statemachine_agent.tools.request import Reach, ToolRequest
from statemachine_agent.tools.results import said

Function = Callable[..., Any]


class PythonBinding:
    """Finds and runs functions."""

    def __init__(self, reach: Reach, environment: Environment) -> None:
        """Nothing is imported yet."""
        self._reach = reach
        self._environment = environment
        self._functions: dict[str, Function] = {}

    async def send(self, manifest: ToolManifest, request: ToolRequest, timeout: float) -> object:
        """What the function returned. NotSentError, RefusedByServiceError or LostError otherwise."""
        name = manifest.binding.python or ""
        function = self._function(name)
        arguments = _arguments(name, function, request)
        try:
            async with self._environment.timeout(timeout):
                found, problem = await self._run(function, arguments, (name, request.key or ""))
        except TimeoutError:
            raise LostError(f"no answer within {timeout:g} s", reason="timeout") from None
        if problem is not None:
            raise _as_outcome(manifest, problem) from None
        return found

    async def _run(
        self, function: Function, arguments: Mapping[str, Any], call: tuple[str, str]
    ) -> tuple[Any, BaseException | None]:
        if inspect.iscoroutinefunction(function):
            return await _awaited(function(**arguments))
        _RUNNING.append(call)
        found, problem = await self._environment.in_thread(_called, function, arguments, call)
        if problem is None and inspect.isawaitable(found):  # an object whose call is async, a function that was wrapped
            return await _awaited(found)
        return found, problem

    def _function(self, name: str) -> Function:
        if name not in self._functions:
            module, _, attribute = name.partition(":")
            if not self._reach.may_import(module):
                raise NotSentError(
                    f"`{module}` is not in an allowed package",
                    hint="add it to `python_packages` in the settings",
                    reason="not_configured",
                )
            try:
                found = getattr(import_module(module), attribute)
            except (Exception, SystemExit) as problem:  # noqa: BLE001  importing runs the module's code
                raise NotSentError(
                    f"`{name}` cannot be imported: {said_by(problem)}", reason="not_configured"
                ) from None
            if not callable(found):
                raise NotSentError(f"`{name}` is no function", reason="not_configured")
            self._functions[name] = found
        return self._functions[name]


def _arguments(name: str, function: Function, request: ToolRequest) -> dict[str, Any]:
    """The arguments for `function`; NotSentError where it does not take them, which is known before it is called."""
    arguments: dict[str, Any] = dict(request.args)
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # one written in C may not say
        return arguments
    if "call" in signature.parameters:
        arguments["call"] = request
    try:
        signature.bind(**arguments)
    except TypeError as problem:
        raise NotSentError(
            f"`{name}` does not take the arguments of the manifest: {one_line(str(problem))}", reason="not_configured"
        ) from None
    return arguments


#: functions that run in a thread of this process, by name and key: a thread cannot be stopped, whoever waits for it
_RUNNING: list[tuple[str, str]] = []


def is_running(name: str, key: str) -> bool:
    """True while a call of the function under this key has not come back."""
    return (name, key) in _RUNNING


def _called(
    function: Function, arguments: Mapping[str, Any], call: tuple[str, str]
) -> tuple[Any, BaseException | None]:
    """What the function gave, or what it raised, as a value: some exceptions do things on their way to a waiter."""
    try:
        return function(**arguments), None
    except BaseException as problem:  # noqa: BLE001  a tool may raise anything, and none of it ends the task's process
        return None, problem
    finally:
        _RUNNING.remove(call)


async def _awaited(work: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """The same for what runs on this loop; that the call itself is cancelled is no answer of the function."""
    try:
        return await work, None
    except asyncio.CancelledError as problem:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return None, problem
    except (Exception, SystemExit) as problem:  # noqa: BLE001
        return None, problem


def _as_outcome(manifest: ToolManifest, problem: BaseException) -> BaseException:
    if isinstance(problem, NotSentError | RefusedByServiceError | LostError):
        return problem if not manifest.redact else _withheld(manifest, problem)
    return LostError(said(manifest, problem), reason="timeout" if isinstance(problem, TimeoutError) else "exception")


_CODE = re.compile(r"[a-z][a-z0-9_]{0,62}")


def _withheld(manifest: ToolManifest, problem: NotSentError | RefusedByServiceError | LostError) -> BaseException:
    """The same outcome without its text; its reason is a code, and what is none is not kept either."""
    kind = next(k for k in (NotSentError, RefusedByServiceError, LostError) if isinstance(problem, k))
    is_code = isinstance(problem.reason, str) and _CODE.fullmatch(problem.reason)
    return kind(said(manifest, problem), reason=problem.reason if is_code else kind.reason)
