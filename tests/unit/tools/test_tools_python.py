"""The Python binding: functions of allowed packages, whatever they do with their arguments, their thread and their exit."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from unit.tools import functions
from unit.tools.making import Clock, attempts_of, on_loop, outcome_of, python_tool, reach

from statemachine_agent.tools.outcome import Blocked, Failed, Ok, Unknown
from statemachine_agent.tools.toolbox import Toolbox
from support import forks

NUMBER = {"number": {"type": "integer", "optional": True}}
ALLOWED = reach(python_packages=frozenset({"unit.tools"}))


def tool(name: str, *, effect: str = "read", module: str = "unit.tools.functions", **more: Any) -> Any:
    return python_tool(f"{module}:{name}", effect=effect, **{"args": NUMBER, **more})


@pytest.fixture(autouse=True)
def nothing_hangs_on() -> Iterator[None]:
    functions.over.clear()
    yield
    functions.over.set()


@pytest.mark.parametrize(
    "name", ["good", "good_async", "without_call", "an_object", "an_async_object", "wrapped", "everything", "partial"]
)
@on_loop
async def test_functions_of_every_kind_are_called_with_their_arguments(name: str) -> None:
    found = await outcome_of(tool(name), {"number": 1}, ALLOWED)
    assert found == Ok({"value": 1}, size=11)


@on_loop
async def test_a_plain_function_runs_beside_the_loop_and_an_async_one_on_it() -> None:
    functions.ran_in.clear()
    await outcome_of(tool("good"), {}, ALLOWED)
    await outcome_of(tool("good_async"), {}, ALLOWED)
    assert functions.ran_in[0].startswith("tool-")
    assert functions.ran_in[1] == "MainThread" or not functions.ran_in[1].startswith("tool-")


@pytest.mark.parametrize("name", ["good", "good_async"])
@on_loop
async def test_a_function_that_asks_for_the_call_gets_its_key_and_request_id(name: str) -> None:
    returns = {"value": {"type": "integer"}, "key": {"type": "string"}, "request": {"type": "string"}}
    write = tool(name, effect="write", returns=returns)
    (attempt,) = await attempts_of(write, {"number": 7}, ALLOWED, key="w:7")
    assert isinstance(attempt.outcome, Ok)
    assert attempt.outcome.payload == {"value": 7, "key": "w:7", "request": attempt.request_id}


@pytest.mark.parametrize(
    ("module", "name", "problem"),
    [
        ("unit.tools.functions_", "good", "cannot be imported: ModuleNotFoundError"),
        ("unit.tools.functions", "nothing", "cannot be imported: AttributeError"),
        ("unit.tools.functions", "NO_FUNCTION", "is no function"),
        ("unit.tools.broken_package.raises", "good", "RuntimeError: the licence has expired"),
        ("unit.tools.broken_package.exits", "good", "SystemExit"),
        ("unit.toolsmith", "good", "`unit.toolsmith` is not in an allowed package"),
        ("unit", "good", "`unit` is not in an allowed package"),
        ("os", "system", "`os` is not in an allowed package"),
        ("builtins", "eval", "`builtins` is not in an allowed package"),
    ],
)
@on_loop
async def test_what_cannot_be_had_is_known_before_anything_was_done(module: str, name: str, problem: str) -> None:
    for _ in range(2):  # no try of an import is remembered as a success
        found = await outcome_of(tool(name, effect="write", module=module), {}, ALLOWED, key="w")
        assert isinstance(found, Blocked) and found.reason == "not_configured"
        assert problem in found.detail
    read = await outcome_of(tool(name, module=module), {}, ALLOWED)
    assert isinstance(read, Failed) and (read.error_class, read.retryable) == ("not_configured", False)


@on_loop
async def test_nothing_is_imported_before_it_is_called() -> None:
    sys.modules.pop("unit.tools.broken_package.raises", None)
    Toolbox(ALLOWED, Clock())
    assert tool("good", module="unit.tools.broken_package.raises").binding.python is not None
    assert "unit.tools.broken_package.raises" not in sys.modules


@on_loop
async def test_a_function_that_does_not_take_the_arguments_is_not_called() -> None:
    args = {"amount": {"type": "integer"}}
    for name in ("good", "hang", "without_call"):
        found = await outcome_of(tool(name, effect="write", args=args), {"amount": 1}, ALLOWED, key="w")
        assert isinstance(found, Blocked) and found.reason == "not_configured"
        assert "does not take the arguments of the manifest" in found.detail and "amount" in found.detail


@pytest.mark.parametrize(
    ("name", "read", "write"),
    [
        ("not_sent", Failed("closed_queue"), Blocked("closed_queue")),
        ("refused", Failed("over_limit"), Failed("over_limit")),
        ("lost", Failed("no_receipt"), Unknown("no_receipt")),
        ("raises_value_error", Failed("exception"), Unknown("exception")),
        ("raises_async", Failed("exception"), Unknown("exception")),
        ("raises_timeout", Failed("timeout"), Unknown("timeout")),
        ("raises_exit", Failed("exception"), Unknown("exception")),
        ("raises_interrupt", Failed("exception"), Unknown("exception")),
        ("raises_stop_iteration", Failed("exception"), Unknown("exception")),
        ("raises_cancelled", Failed("exception"), Unknown("exception")),
        ("exits_async", Failed("exception"), Unknown("exception")),
        ("cancels_async", Failed("exception"), Unknown("exception")),
    ],
)
@on_loop
async def test_whatever_a_function_raises_is_an_outcome_and_ends_nothing_else(name: str, read: Any, write: Any) -> None:
    def kind(outcome: Any) -> tuple[type, str]:
        return type(outcome), getattr(outcome, "error_class", None) or outcome.reason

    async with asyncio.timeout(20):
        assert kind(await outcome_of(tool(name), {}, ALLOWED)) == kind(read)
        attempts = await attempts_of(tool(name, effect="write"), {}, ALLOWED, key="w")
    assert [kind(a.outcome) for a in attempts] == [kind(write)]
    detail = attempts[0].outcome.detail
    assert detail.isprintable() and "\n" not in detail  # nothing of it reaches a terminal as it is
    if name == "raises_value_error":
        assert detail == "ValueError: line one line two \\x1b[31m"


@pytest.mark.parametrize("what", sorted(functions.RETURNS))
@on_loop
async def test_what_is_no_result_is_refused(what: str) -> None:
    args = {"what": {"type": "string"}}
    read = await outcome_of(tool("returns", args=args), {"what": what}, ALLOWED)
    assert isinstance(read, Failed) and read.error_class in ("bad_result", "exception")
    write = await outcome_of(tool("returns", effect="write", args=args), {"what": what}, ALLOWED, key="w")
    assert isinstance(write, Unknown)


@pytest.mark.parametrize("what", sorted(functions.GOOD_RETURNS))
@on_loop
async def test_a_value_that_is_json_under_another_type_is_kept_as_json(what: str) -> None:
    found = await outcome_of(tool("returns", args={"what": {"type": "string"}}), {"what": what}, ALLOWED)
    assert found == Ok({"value": 1}, size=11)
    assert isinstance(found, Ok) and type(found.payload["value"]) is int


@on_loop
async def test_results_of_python_are_reduced_to_the_declared_fields_and_plain_types() -> None:
    returns = {
        "value": {"type": "integer"},
        "word": {"enum": ["settled", "queued"]},
        "pair": {"type": "array", "items": {"type": "string"}},
        "rows": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    }
    found = await outcome_of(tool("rich", returns=returns), {}, ALLOWED)
    assert isinstance(found, Failed) and "rows[0].b is a datetime" in found.detail  # only lists are looked into first
    returns.pop("rows")
    found = await outcome_of(tool("rich", returns=returns), {}, ALLOWED)
    assert isinstance(found, Ok)
    assert found.payload == {"value": 1, "word": "settled", "pair": ["x", "y"]}
    assert {type(v) for v in found.payload.values()} == {int, str, list}


@pytest.mark.parametrize("name", ["hang", "hang_async"])
@on_loop
async def test_a_function_that_hangs_times_out(name: str) -> None:
    hasty = tool(name, effect="write", args={}).model_copy(update={"timeout": timedelta(milliseconds=50)})
    found = await outcome_of(hasty, {}, ALLOWED, key="w")
    assert found == Unknown("timeout", "no answer within 0.05 s")
    (attempt,) = await attempts_of(hasty.model_copy(update={"effect": "read"}), {}, ALLOWED, seconds=0.02)
    assert isinstance(attempt.outcome, Failed) and attempt.outcome.error_class == "timeout"


@pytest.mark.parametrize("name", ["hang", "hang_async"])
@on_loop
async def test_a_call_that_is_cancelled_from_outside_is_cancelled(name: str) -> None:
    call = asyncio.ensure_future(attempts_of(tool(name, args={}), {}, ALLOWED))
    for _ in range(5):
        await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


def test_a_function_that_hangs_does_not_keep_the_process_alive() -> None:
    code = (
        "import asyncio\n"
        "from unit.tools.making import *\n"
        "tool = python_tool('unit.tools.functions:hang', timeout='20ms')\n"
        "print(asyncio.run(outcome_of(tool, {}, reach(python_packages=frozenset({'unit'}))))) \n"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = forks.run([sys.executable, "-c", code], env=environ, timeout=30)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Failed(error_class='timeout'")


@on_loop
async def test_many_functions_that_block_run_at_once() -> None:
    calls = [asyncio.ensure_future(attempts_of(tool("hang", args={}), {}, ALLOWED)) for _ in range(40)]
    await asyncio.sleep(0)
    functions.over.set()
    async with asyncio.timeout(20):
        outcomes = [a[-1].outcome for a in await asyncio.gather(*calls)]
    assert outcomes == [Ok({"value": 1}, size=11)] * 40


@pytest.mark.parametrize("redact", [["value"], ["args.number"]])
@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        ("raises_secret", "ValueError", "exception"),
        ("refuses_secret", "RefusedByServiceError", "limit"),
        ("loses_secret", "LostError", "unavailable"),
        ("never_sends_secret", "NotSentError", "unavailable"),
        ("raises_secret_async", "ValueError", "exception"),
    ],
)
@pytest.mark.parametrize("effect", ["read", "write"])
@on_loop
async def test_what_a_function_raises_is_not_quoted_where_something_is_masked(
    effect: str, name: str, kind: str, reason: str, redact: list[str]
) -> None:
    """Its text may hold what it was called with, and what it was answered; a reason that is no code may, too."""
    texts = {"returns": {"value": {"type": "string"}}, "args": {"number": {"type": "string"}}}
    masking = tool(name, effect=effect, **texts).model_copy(update={"redact": tuple(redact)})
    found = await outcome_of(masking, {"number": "4711"}, ALLOWED, key="w")
    assert not isinstance(found, Ok)
    assert found.detail == f"{kind}; its text is not shown, since the tool has fields that are masked"
    assert getattr(found, "error_class", getattr(found, "reason", "")) == reason
