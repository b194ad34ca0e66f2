"""The MCP binding: one connection a call, over stdio or streamable HTTP, to a server that the settings name.

Before anything is sent, the schemas that the server shows are compared with those that the manifest is bound to. A server
can ask for nothing: not for a model's words, not for a person's, not for files. Its texts go nowhere, what the library logs
of them included. It must not know what the answer means for a task.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeVar

from statemachine_agent.bounds import Bound
from statemachine_agent.canonical import digest
from statemachine_agent.definition.bindings import Mcp
from statemachine_agent.definition.manifest import ToolManifest
from statemachine_agent.definition.settings import McpServer
from statemachine_agent.definition.template import fill_variables
from statemachine_agent.environment import Environment
from statemachine_agent.errors import CanonicalError
from statemachine_agent.text import one_line
from statemachine_agent.tools import results
from statemachine_agent.tools.hush import Hushed, hushed
from statemachine_agent.tools.outcome import LostError, NotSentError
from statemachine_agent.tools.piped import ENCODING, counted
from statemachine_agent.tools.request import Reach, ToolRequest
from statemachine_agent.tools.withheld import Withheld

T = TypeVar("T")

_PAGES = 100  # of a server's list of tools
_GRACE = 8.0  # seconds that a server may take to end; the library kills it before that
#: bytes that one connection reads at the least: the list of tools comes before the answer, which may stand in it twice, escaped
_ROOM = 4 * 1024 * 1024
_TIMES = 8  # `max_bytes` of a tool may be larger
_DENSE = 16  # bytes for each value of JSON: the library makes half a kilobyte of one that it did not expect
_UNREADABLE = "what the server wrote cannot be read"


@dataclass(frozen=True)
class Offered:
    """A tool as a server describes it; only who reads manifests ever sees that."""

    name: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    #: what the server says of it: True, False or nothing
    read_only: bool | None = None

    @property
    def schema_hash(self) -> str:
        """What a manifest is bound to."""
        return digest({"input": self.input_schema, "output": self.output_schema})


class McpBinding:
    """Asks MCP servers."""

    def __init__(self, reach: Reach, environment: Environment) -> None:
        """Nothing is connected yet."""
        self._reach = reach
        self._environment = environment
        self._open: set[asyncio.Future[Any]] = set()

    async def close(self) -> None:
        """Wait for connections that were given up to be closed, and their programs to end."""
        if self._open:
            await asyncio.wait(self._open, timeout=_GRACE)

    async def send(self, manifest: ToolManifest, request: ToolRequest, timeout: float) -> object:
        """The object that the tool gave. NotSentError or LostError otherwise."""
        mcp = manifest.binding.mcp
        assert mcp is not None  # noqa: S101  chosen by the caller
        arguments = dict(request.args)
        if mcp.key_argument and request.key is not None:
            arguments[mcp.key_argument] = request.key

        async def call(line: _Line, client: Any) -> object:
            _check(manifest, mcp, await _offers(client), line.secrets)
            line.sent, line.manifest = True, manifest
            return _judge(manifest, await client.session.call_tool(mcp.tool, arguments), line.secrets)

        return await self._connected(mcp.server, call, timeout, max(_ROOM, _TIMES * manifest.max_bytes))

    async def offered(self, server: str, timeout: float) -> list[Offered]:
        """All tools of a server; NotSentError where it cannot be asked."""

        async def ask(line: _Line, client: Any) -> list[Offered]:
            return [_shown(one, line.secrets) for one in await _offers(client)]

        return await self._connected(server, ask, timeout, _ROOM)

    async def _connected(self, name: str, visit: Callable[[_Line, Any], Awaitable[T]], timeout: float, room: int) -> T:
        """What `visit` gives on a new connection; it has a thread, so that no clock but its own counts there."""
        server = self._reach.servers.get(name)
        if server is None:
            raise NotSentError(
                f"`{name}` is no MCP server of the settings", hint=f"add `[mcp.{name}]`", reason="not_configured"
            )
        secrets = Withheld()
        given = self._given(server, secrets)
        await self._environment.in_thread(_library)  # it takes a second to import, which is not the server's time
        line = _Line(server, given, secrets, Bound(room, room // _DENSE))
        work = asyncio.ensure_future(self._environment.in_thread(line.run, visit))
        self._open.add(work)
        work.add_done_callback(self._closed)
        try:
            async with self._environment.timeout(timeout):
                return await asyncio.shield(work)
        except TimeoutError:
            line.give_up()
            raise line.too_late(timeout) from None
        except asyncio.CancelledError:
            line.give_up()
            raise
        except (NotSentError, LostError) as problem:
            text = f"{name}: {secrets.quoted(problem.message)}"
            raise type(problem)(text, hint=problem.hint, reason=problem.reason) from None

    def _closed(self, work: asyncio.Future[Any]) -> None:
        self._open.discard(work)
        if not work.cancelled():
            work.exception()  # whoever waited was told

    def _given(self, server: McpServer, secrets: Withheld) -> dict[str, str]:
        """Headers or environment with their variables filled in; `secrets` gets the values."""

        def secret(name: str) -> str:
            value = self._reach.variable(name)
            secrets.add(value, f"${{{name}}}")
            return value

        if server.url is None:
            return {name: secret(name) for name in server.environment}
        return {name: fill_variables(text, secret) for name, text in server.headers.items()}


class _Line:
    """One connection, on an event loop in a thread of its own."""

    def __init__(self, server: McpServer, given: Mapping[str, str], secrets: Withheld, bound: Bound) -> None:
        self._server = server
        self._given = dict(given)
        self._bound = bound
        #: what is named in all that the server says, before it is cut or told
        self.secrets = secrets
        #: what the library logged
        self.log = Hushed()
        self._stop: Callable[[], object] | None = None
        self._given_up = False
        #: from here on the tool may have been called
        self.sent = False
        #: of which tool
        self.manifest: ToolManifest | None = None

    def run(self, visit: Callable[[_Line, Any], Awaitable[T]]) -> T:
        """Connect, visit, and close; NotSentError or LostError whatever went wrong."""
        with hushed() as self.log, counted(self._bound, self.give_up):
            try:
                with asyncio.Runner() as runner:
                    runner.get_loop().set_exception_handler(lambda _loop, _context: None)  # it would log what it holds
                    return runner.run(self._visited(visit))
            except (Exception, asyncio.CancelledError) as problem:  # noqa: BLE001  a library of many layers, and a server
                raise self._failed(_innermost(problem)) from None

    def _failed(self, problem: BaseException) -> NotSentError | LostError:
        """What went wrong, in our words; of the server's own only those of an error that it sent."""
        if isinstance(problem, NotSentError | LostError):
            return problem
        if self._bound.trouble is not None:
            return self._refused()
        if (
            isinstance(problem, ValueError) or _code(problem) == _NO_MESSAGE
        ):  # the library quotes what it could not read
            return _failure(self, _UNREADABLE, "bad_result")
        if self.manifest is not None and self.manifest.redact:
            return _failure(self, results.said(self.manifest, problem), _reason_of(problem))
        text = self.secrets.excerpt(f"{type(problem).__name__}: {problem}".rstrip(": "), 400)
        return _failure(self, one_line(text), _reason_of(problem))

    def too_late(self, timeout: float) -> NotSentError | LostError:
        """That the time is over; a program that was refused more may take longer to end."""
        if self._bound.trouble is not None:
            return self._refused()
        return _failure(
            self, f"no answer within {timeout:g} s{f'; {_UNREADABLE}' if self.log.erred else ''}", "timeout"
        )

    def _refused(self) -> NotSentError | LostError:
        reason = "too_large" if self._bound.passed else "bad_result"
        return _failure(self, f"the server sent {self._bound.trouble}", reason)

    def give_up(self) -> None:
        """Close it, from another thread."""
        self._given_up = True
        if self._stop is not None:
            with suppress(RuntimeError):  # it has just ended
                self._stop()

    async def _visited(self, visit: Callable[[_Line, Any], Awaitable[T]]) -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None  # noqa: S101  this is one
        self._stop = lambda: loop.call_soon_threadsafe(task.cancel)
        if self._given_up:
            raise NotSentError("no time was left", reason="timeout")
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(_library().Client(await self._transport(stack), cache=None))
            return await visit(self, client)

    async def _transport(self, stack: AsyncExitStack) -> Any:
        library = _library()
        if self._server.url is not None:
            http = import_module("httpx2").AsyncClient(
                headers=self._given, trust_env=False, follow_redirects=False, max_redirects=0, timeout=None,
                event_hooks=self._bound.hooks,
            )  # fmt: skip
            await stack.enter_async_context(http)
            return import_module("mcp.client.streamable_http").streamable_http_client(
                self._server.url, http_client=http, max_sse_event_size=self._bound.most
            )
        program, *words = self._server.command or ("",)
        silent = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: ASYNC230, PTH123, SIM115  the stack closes it
        started = library.StdioServerParameters(command=program, args=words, env=self._given, encoding=ENCODING)
        return library.stdio_client(started, errlog=silent)


def _library() -> Any:
    """The official client; NotSentError where it is not installed."""
    try:
        for part in ("mcp.client.stdio", "mcp.client.streamable_http", "httpcore2"):
            import_module(part)  # with all their loggers, before anything is asked
        return import_module("mcp")
    except ImportError:
        hint = "pip install 'statemachine-agent[mcp]'"
        raise NotSentError("the library `mcp` is not installed", hint=hint, reason="not_configured") from None


async def _offers(client: Any) -> list[Offered]:
    found: list[Offered] = []
    cursor = None
    for _ in range(_PAGES):
        page = await client.list_tools(cursor=cursor)
        for tool in page.tools:
            hints = tool.annotations
            found.append(
                Offered(
                    tool.name, tool.description or "", tool.input_schema, tool.output_schema,
                    hints.read_only_hint if hints is not None else None,
                )
            )  # fmt: skip
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise NotSentError(f"the server lists more than {_PAGES} pages of tools", reason="not_configured")


def _shown(offer: Offered, secrets: Withheld) -> Offered:
    """The same without what is withheld: a draft of a manifest quotes it, and the hash that it is bound to is of that."""
    try:
        return Offered(
            secrets.without(offer.name), secrets.without(offer.description), secrets.without_in(offer.input_schema),
            secrets.without_in(offer.output_schema), offer.read_only,
        )  # fmt: skip
    except (ValueError, RecursionError):
        raise NotSentError("a tool cannot be shown without what is withheld", reason="schema_changed") from None


def _check(manifest: ToolManifest, mcp: Mcp, offers: list[Offered], secrets: Withheld) -> None:
    """NotSentError where the server's tool is not the one that the manifest is bound to."""
    found = [offer for offer in offers if offer.name == mcp.tool]
    if len(found) != 1:
        many = "no" if not found else "more than one"
        raise NotSentError(f"the server has {many} tool `{one_line(mcp.tool, 60)}`", reason="not_configured")
    try:
        now = _shown(found[0], secrets).schema_hash
    except CanonicalError as problem:
        raise NotSentError(f"the tool's schema is no JSON: {problem.message}", reason="schema_changed") from None
    if mcp.schema_hash not in (None, now):
        raise NotSentError(
            f"the schemas of `{one_line(mcp.tool, 60)}` have changed: their hash is {now}",
            hint="read them, raise the manifest's version, and write the new hash",
            reason="schema_changed",
        )
    if manifest.is_read and found[0].read_only is False:
        raise NotSentError(
            f"the server says that `{one_line(mcp.tool, 60)}` is no read",
            hint="make it a write",
            reason="not_configured",
        )


def _judge(manifest: ToolManifest, answer: Any, secrets: Withheld) -> object:
    """The object in an answer: its structured content, else its only text, read as JSON; `secrets` are named in it."""
    texts = [part.text for part in answer.content if part.type == "text"]
    if answer.is_error:
        raise LostError(f"the tool failed: {_excerpt(manifest, texts, secrets)}", reason="exception")
    found = answer.structured_content
    try:
        if found is None:
            if len(texts) != 1 or len(answer.content) != 1:
                raise LostError(f"the answer has {len(answer.content)} parts and no object", reason="bad_result")
            found = results.parse(texts[0].encode(errors="surrogatepass"))
        return secrets.without_in(found)
    except (ValueError, RecursionError):
        raise LostError("the answer cannot be shown without what is withheld", reason="bad_result") from None
    except results.BadResultError as problem:
        told = f"{problem.message}: {_excerpt(manifest, texts, secrets)}"
        raise LostError(told, reason=problem.reason) from None


def _excerpt(manifest: ToolManifest, texts: list[str], secrets: Withheld) -> str:
    if manifest.redact:
        return "what it said is not shown, since some of the tool's results are masked"
    return one_line(secrets.excerpt(" ".join(texts), 400), 160) or "it said nothing"


def _innermost(problem: BaseException) -> BaseException:
    """The first real failure of a group of them."""
    while isinstance(problem, BaseExceptionGroup):
        problem = problem.exceptions[0]
    return problem


#: the protocol's own numbers
_NO_MESSAGE, _TOO_LATE, _BROKEN_OFF = -32700, -32001, -32000


def _code(problem: BaseException) -> object:
    return getattr(getattr(problem, "error", None), "code", None)


def _reason_of(problem: BaseException) -> str:
    code = _code(problem)
    if code == _TOO_LATE or isinstance(problem, TimeoutError):
        return "timeout"
    if code == _BROKEN_OFF or isinstance(problem, OSError) or type(problem).__module__.startswith(("httpx2", "anyio")):
        return "unavailable"
    return "bad_result" if isinstance(problem, RuntimeError) else "exception"


def _failure(line: _Line, text: str, reason: str) -> NotSentError | LostError:
    if line.sent:
        return LostError(text, reason=reason)
    return NotSentError(text, reason="timeout" if reason == "timeout" else "unavailable")
