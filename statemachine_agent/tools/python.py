"""The Python binding: a function of an allowed package, imported at its first call.

The function takes the arguments by name, and `call` (a ToolRequest) if it names such a parameter. It returns a mapping. A
plain function runs in a thread. For a write, NotSentError says that nothing happened and RefusedByServiceError that the
answer was no; any other exception leaves open whether it happened. It must not know what the answer means for a task.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.environment import Environment
from statemachine_agent.text import one_line
from statemachine_agent.tools.outcome import LostError, NotSentError, RefusedByServiceError
from statemachine_agent.tools.request import Reach, ToolRequest


class PythonBinding:
    """Finds and runs functions."""

    def __init__(self, reach: Reach, environment: Environment) -> None:
        """Nothing is imported yet."""
        self._reach = reach
        self._environment = environment
        self._functions: dict[str, Callable[..., Any]] = {}

    async def send(self, manifest: ToolManifest, request: ToolRequest, timeout: float) -> object:
        """What the function returned. NotSentError, RefusedByServiceError or LostError otherwise."""
        function = self._function(manifest.binding.python or "")
        arguments: dict[str, Any] = dict(request.args)
        if "call" in inspect.signature(function).parameters:
            arguments["call"] = request
        try:
            async with self._environment.timeout(timeout):
                if inspect.iscoroutinefunction(function):
                    return await function(**arguments)
                return await self._environment.in_thread(function, **arguments)
        except (NotSentError, RefusedByServiceError, LostError):
            raise
        except TimeoutError:
            raise LostError(f"no answer within {timeout:g} s", reason="timeout") from None
        except Exception as problem:  # noqa: BLE001  a tool may raise anything, and none of it ends the task's process
            text = one_line(f"{type(problem).__name__}: {problem}".rstrip(": "))
            raise LostError(text, reason="exception") from None

    def _function(self, name: str) -> Callable[..., Any]:
        if name not in self._functions:
            module, _, attribute = name.partition(":")
            if not any(module == p or module.startswith(f"{p}.") for p in self._reach.python_packages):
                raise NotSentError(
                    f"`{module}` is not in an allowed package",
                    hint="add it to `python_packages` in the settings",
                    reason="not_configured",
                )
            try:
                self._functions[name] = getattr(import_module(module), attribute)
            except Exception as problem:  # noqa: BLE001  importing runs the module's code
                text = one_line(f"{type(problem).__name__}: {problem}")
                raise NotSentError(f"`{name}` cannot be imported: {text}", reason="not_configured") from None
        return self._functions[name]
