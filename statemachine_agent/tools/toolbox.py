"""Calling a tool: its binding, its retries, and the outcome of each attempt. The public way to reach the outside.

A read may be repeated, each time with a request id of its own. A write is repeated only while nothing was sent; once
something was, there is exactly one attempt. It must not know permission, keys' histories or tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Protocol

import tenacity

from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.template import variables_in
from statemachine_agent.environment import Environment
from statemachine_agent.ids import new_id
from statemachine_agent.tools import results
from statemachine_agent.tools.command import CommandBinding
from statemachine_agent.tools.http import HttpBinding
from statemachine_agent.tools.mcp import McpBinding
from statemachine_agent.tools.outcome import (
    Attempt,
    Blocked,
    Failed,
    LostError,
    NotSentError,
    Ok,
    Outcome,
    RefusedByServiceError,
    Unknown,
)
from statemachine_agent.tools.python import PythonBinding, is_running
from statemachine_agent.tools.request import Reach, ToolRequest

_MAX_BACKOFF = 30.0
_GLANCE = 0.05  # seconds between looks at a call that was given up


class Binding(Protocol):
    """One way to reach a tool."""

    async def send(self, manifest: ToolManifest, request: ToolRequest, timeout: float) -> object:
        """The raw answer; NotSentError, RefusedByServiceError or LostError otherwise."""


class Toolbox:
    """All bindings of a runtime; it holds connections, so close it."""

    def __init__(self, reach: Reach, environment: Environment, bindings: Mapping[str, Binding] | None = None) -> None:
        """`bindings` replaces the binding of single tools by name, for tests."""
        self._environment = environment
        self._http = HttpBinding(reach, environment)
        self._python = PythonBinding(reach, environment)
        self._command = CommandBinding(reach, environment)
        self._mcp = McpBinding(reach, environment)
        self._own = dict(bindings or {})
        self.reach = reach

    async def close(self) -> None:
        """Let go of connections."""
        await self._http.close()
        await self._mcp.close()

    async def call(
        self,
        manifest: ToolManifest,
        args: Mapping[str, Any],
        *,
        key: str | None = None,
        seconds: float,
        on_request: Callable[[str, int], None] = lambda _id, _number: None,
        on_attempt: Callable[[Attempt], None] = lambda _attempt: None,
    ) -> list[Attempt]:
        """All attempts of one call, the last one's outcome being the call's; `seconds` is what is left for all of it."""
        deadline = self._environment.monotonic() + seconds
        attempts: list[Attempt] = []

        async def once() -> Attempt:
            left = min(manifest.timeout.total_seconds(), deadline - self._environment.monotonic())
            request = ToolRequest(deepcopy(args), f"req-{new_id(self._environment)}", key)
            on_request(request.request_id, len(attempts) + 1)
            attempt = await self._attempt(manifest, request, len(attempts) + 1, left)
            attempts.append(attempt)
            on_attempt(attempt)
            return attempt

        retrying = tenacity.AsyncRetrying(
            stop=lambda state: self._environment.monotonic() + state.upcoming_sleep >= deadline,
            wait=lambda state: self._wait(manifest, state.attempt_number),
            retry=tenacity.retry_if_result(lambda attempt: self._again(manifest, attempt)),
            sleep=self._environment.sleep,
            retry_error_callback=lambda _: None,
        )
        await retrying(once)
        return attempts

    async def at_rest(self, manifest: ToolManifest, key: str) -> bool:
        """Wait, at most as long as a call may take, until no call with this key runs any more; False where one still does.

        A function that was given up, because its time was over or its waiter went away, runs on in its thread.
        """
        deadline = self._environment.monotonic() + manifest.timeout.total_seconds()
        while is_running(manifest.binding.python or "", key):
            if self._environment.monotonic() >= deadline:
                return False
            await self._environment.sleep(_GLANCE)
        return True

    def variables_of(self, manifest: ToolManifest) -> list[str]:
        """The names in `${…}` that calling the tool needs."""
        http, mcp = manifest.binding.http, manifest.binding.mcp
        if manifest.tool in self._own:
            return []
        if mcp is not None and (server := self.reach.servers.get(mcp.server)) is not None:
            return [*server.environment, *(name for value in server.headers.values() for name in variables_in(value))]
        if http is None:
            return []
        found = [*http.template.variables, *(name for value in http.headers.values() for name in variables_in(value))]
        source = self.reach.token_sources.get(http.oauth2 or "")
        return [*found, *source.variables] if source is not None else found

    def unlisted(self, manifest: ToolManifest) -> tuple[str, str] | None:
        """What the tool is bound to and the settings do not list, and the setting that would; None where it is listed."""
        binding = manifest.binding
        if manifest.tool in self._own:
            return None
        if binding.python and not self.reach.may_import(module := binding.python.partition(":")[0]):
            return module.partition(".")[0], "python_packages"
        if binding.command and binding.command[0] not in self.reach.programs:
            return binding.command[0], "commands"
        if binding.mcp and binding.mcp.server not in self.reach.servers:
            return binding.mcp.server, "mcp"
        return None

    def _wait(self, manifest: ToolManifest, number: int) -> float:
        """Full jitter under a bound that doubles."""
        bound = min(manifest.retry.backoff.total_seconds() * 2 ** (number - 1), _MAX_BACKOFF)
        return self._environment.uniform(0, bound)

    @staticmethod
    def _again(manifest: ToolManifest, attempt: Attempt) -> bool:
        match attempt.outcome:
            case Failed(retryable=True) if manifest.is_read:
                return attempt.number < (manifest.retry.attempts or 1)
            case Blocked(reason="unavailable" | "timeout" | "token_unavailable"):
                return attempt.number < (manifest.retry.unsent or 1)
            case _:
                return False

    async def _attempt(self, manifest: ToolManifest, request: ToolRequest, number: int, left: float) -> Attempt:
        started_at, started = self._environment.now(), self._environment.monotonic()
        outcome = await self._outcome(manifest, request, left)
        latency = int((self._environment.monotonic() - started) * 1000)
        return Attempt(number, request.request_id, started_at, latency, outcome)

    async def _outcome(self, manifest: ToolManifest, request: ToolRequest, left: float) -> Outcome:
        try:
            if left <= 0:
                raise NotSentError("no time was left", reason="timeout")  # noqa: TRY301
            return await self._sent(manifest, request, left)
        except NotSentError as problem:
            if manifest.is_read:
                return self._read_failed(manifest, problem)
            return Blocked(problem.reason, problem.message)
        except RefusedByServiceError as problem:
            return Failed(problem.reason, problem.message)
        except (LostError, results.BadResultError) as problem:
            if manifest.is_read:
                return self._read_failed(manifest, problem)
            return Unknown(problem.reason, problem.message)

    async def _sent(self, manifest: ToolManifest, request: ToolRequest, left: float) -> Ok:
        """The accepted answer; what a binding raises that it should not leaves open whether anything was sent."""
        try:
            return results.accept(manifest, await self._binding(manifest).send(manifest, request, left))
        except (NotSentError, RefusedByServiceError, LostError, results.BadResultError):
            raise
        except Exception as problem:  # noqa: BLE001
            raise LostError(results.said(manifest, problem), reason="exception") from None

    @staticmethod
    def _read_failed(manifest: ToolManifest, problem: NotSentError | LostError | results.BadResultError) -> Failed:
        # nobody who wants a service asked again when it cannot be reached means only one of the two
        reasons = {problem.reason, "unavailable" if problem.reason == "token_unavailable" else problem.reason}
        return Failed(problem.reason, problem.message, retryable=not reasons.isdisjoint(manifest.retry.errors))

    def _binding(self, manifest: ToolManifest) -> Binding:
        if manifest.tool in self._own:
            return self._own[manifest.tool]
        if manifest.binding.command:
            return self._command
        if manifest.binding.mcp:
            return self._mcp
        return self._http if manifest.binding.http else self._python
