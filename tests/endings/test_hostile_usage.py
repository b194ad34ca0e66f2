"""Budgets against a model whose adapter lies about what it used: nothing is given back, nothing is free, every task ends.

Each lie is told at every step of a whole task, in replies and in failures, also by an adapter that gets round the checks.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from statemachine_agent.models.decision import RawCall, RawReply
from statemachine_agent.models.port import MOST, ModelUnavailableError, Prompt, Reply, Spent
from statemachine_agent.models.prices import estimated
from statemachine_agent.records import Checkpoint, Usage
from support.playing import play, swap
from support.world import GOOD, MACHINE, World


class Unread:
    """It cannot be compared, counted or shown."""

    def _no(self, *_: object) -> Any:
        raise RuntimeError("no")

    __eq__ = __lt__ = __gt__ = __int__ = __float__ = __bool__ = __str__ = __repr__ = __len__ = __iter__ = _no
    __hash__ = None  # type: ignore[assignment]


LIES: dict[str, Any] = {
    "negative": -(10**9), "a negative fraction": -0.5, "nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"),
    "a text": "many", "a number as text": "5", "nothing": None, "bytes": b"5", "a list": [5], "a mapping": {"total": 5},
    "no decimal": Decimal("NaN"), "signalling": Decimal("sNaN"), "infinite": Decimal("-Infinity"), "complex": 5j,
    "unread": Unread(),
}  # fmt: skip
HUGE = {"1e308": 1e308, "10**30": 10**30, "1e400": Decimal("1e400")}
#: limits that only an honest count can reach
ROOMY = swap(
    MACHINE,
    ("steps: 6, active_time: 60s, tokens: 10000, tool_calls: 10", f"steps: {len(LIES)}, tokens: 90000000"),
)


def raw(step: int) -> RawReply:
    return RawReply((RawCall(f"c{step}", "look", {"thing": f"t{step}"}),))


class Unchecked(Spent):
    """Keeps whatever it was given."""

    def __post_init__(self) -> None:
        pass


@dataclass
class Lying:
    """Looks at another thing at each step, and says `spent(step)` of what that used."""

    spent: Callable[[int], Any]
    fails: Callable[[int], ModelUnavailableError] | None = None
    #: failures before each reply
    times: int = 1
    prompts: list[Prompt] = field(default_factory=list)
    spec: str = "lying"

    async def decide(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt)
        tried = sum(p.step == prompt.step for p in self.prompts)
        if self.fails is not None and tried <= self.times:
            raise self.fails(prompt.step)
        return Reply(raw(prompt.step), self.spent(prompt.step), self.spec)


@dataclass
class Ended:
    task: Checkpoint
    rows: list[Mapping[str, Any]]
    #: after each commit
    usages: list[Usage]

    @property
    def reason(self) -> tuple[str, str | None]:
        return str(self.task.head.status), self.task.head.reason


def ended(folder: Path, model: Any, machine: str = ROOMY, **how: Any) -> Ended:
    usages: list[Usage] = []

    async def body(here: World) -> Ended:
        here.runtime.watch(
            lambda event: usages.append(event.data["checkpoint"].head.usage) if event.kind == "committed" else None
        )
        task = await here.run()
        assert (await here.store.load(task.task.id)).head == task.head  # what was booked can be written and read
        return Ended(task, await here.rows(task, "decision"), usages)

    how.setdefault("look", [{"good": True, "note": f"the {n}th"} for n in range(99)])
    found: Ended = play(folder, body, machine=machine, model=model, **how)
    for before, after in itertools.pairwise(usages):
        for name in ("input_tokens", "output_tokens", "cost_usd", "tool_calls", "active_ms"):
            assert getattr(after, name) >= getattr(before, name), name
    usage = found.task.head.usage
    assert usage.input_tokens == sum(r["input_tokens"] for r in found.rows)
    assert usage.output_tokens == sum(r["output_tokens"] for r in found.rows)
    assert all(type(r["input_tokens"]) is int and r["input_tokens"] >= 0 for r in found.rows)
    assert usage.cost_usd.is_finite() and usage.cost_usd >= 0
    return found


@pytest.mark.parametrize("kind", [Spent, Unchecked])
def test_what_is_no_count_is_estimated_and_gives_nothing_back(tmp_path: Path, kind: type[Spent]) -> None:
    """Another lie at each step."""
    lies = list(LIES.values())
    model = Lying(lambda step: kind(lies[step - 1], lies[step - 1], lies[step - 1], frozenset()))
    found = ended(tmp_path, model)
    assert found.reason == ("BUDGET_EXHAUSTED", "max_steps")
    assert [r["step"] for r in found.rows] == list(range(1, len(lies) + 1))
    for name, row, prompt in zip(LIES, found.rows, model.prompts, strict=True):
        assert row["input_tokens"] == estimated(len(prompt.text)) > 50, name
        assert 0 < row["output_tokens"] < 100, name
    assert found.task.head.usage.cost_usd == 0


def test_an_honest_nothing_is_nothing(tmp_path: Path) -> None:
    """A script, a person, a model of one's own: what is told to be free is free."""
    assert ended(tmp_path, Lying(lambda _: Spent(0, 0))).task.head.usage.tokens == 0


def test_lies_of_one_count_leave_the_others_as_they_were_told(tmp_path: Path) -> None:
    found = ended(tmp_path, Lying(lambda _: Spent(1_000, -7, Decimal("0.01"))))
    assert {r["input_tokens"] for r in found.rows} == {1_000}
    assert all(r["output_tokens"] > 0 for r in found.rows)
    assert found.task.head.usage.cost_usd == Decimal("0.01") * len(LIES)


@pytest.mark.parametrize("kind", [Spent, Unchecked])
@pytest.mark.parametrize("lie", HUGE.values(), ids=HUGE.keys())
def test_what_is_beyond_measure_uses_the_budget_up(tmp_path: Path, lie: Any, kind: type[Spent]) -> None:
    """And can be written: no number is larger than a database holds."""
    tokens = ended(tmp_path, Lying(lambda _: kind(lie, lie, Decimal(0), frozenset())))
    assert tokens.reason == ("BUDGET_EXHAUSTED", "max_tokens") and tokens.task.head.usage.tokens == 2 * MOST
    (tmp_path / "cost").mkdir()
    money = ended(tmp_path / "cost", Lying(lambda _: kind(1, 1, lie, frozenset())))
    assert money.reason == ("BUDGET_EXHAUSTED", "max_cost")


@pytest.mark.parametrize(
    "usage", [None, 5, {"input_tokens": -5}, object()], ids=["nothing", "5", "a mapping", "object"]
)
def test_a_reply_without_usage_is_a_failed_attempt_that_is_booked(tmp_path: Path, usage: Any) -> None:
    model = Lying(lambda _: usage)
    found = ended(tmp_path, model)
    assert found.reason == ("FAILED", "model_failed")
    assert found.rows[0]["input_tokens"] == estimated(len(model.prompts[0].text))


# ---------------------------------------------------------------- failures


def failure(**lies: Any) -> ModelUnavailableError:
    made = ModelUnavailableError("busy")
    for name, lie in lies.items():
        setattr(made, name, lie)
    return made


@pytest.mark.parametrize("name", ["spent", "retry_after", "message", "reason", "retryable"])
@pytest.mark.parametrize("lie", ["negative", "nan", "a text", "nothing", "a mapping", "unread", "1e308"])
def test_a_failure_may_hold_anything(tmp_path: Path, name: str, lie: str) -> None:
    """It ends as a failed attempt on record, with at least the estimate of its prompt; no adapter's error leaves the loop."""
    given = (LIES | HUGE)[lie]
    model = Lying(lambda _: Spent(1, 1), lambda _: failure(**{name: given}))
    found = ended(tmp_path, model)
    assert found.task.head.status in ("BUDGET_EXHAUSTED", "FAILED")
    failed = [r for r in found.rows if r["result"] == "failed"]
    assert failed and all(r["input_tokens"] >= 50 for r in failed)


@pytest.mark.parametrize("kind", [Spent, Unchecked])
def test_what_a_failure_used_is_estimated_too_where_it_is_no_count(tmp_path: Path, kind: type[Spent]) -> None:
    lies = list(LIES.values())
    model = Lying(
        lambda _: Spent(1, 1),
        lambda step: failure(spent=kind(lies[step - 1], lies[step - 1], lies[step - 1], frozenset())),
    )
    found = ended(tmp_path, model)
    assert [r["result"] for r in found.rows] == ["failed", "accepted"] * len(lies)
    for row, prompt in zip(found.rows, model.prompts, strict=True):
        if row["result"] == "failed":
            assert row["input_tokens"] == estimated(len(prompt.text))


def test_failures_use_up_the_budget_of_tokens(tmp_path: Path) -> None:
    """A provider that never answers costs no step, and is paid all the same."""
    machine = swap(MACHINE, ("tokens: 10000", "tokens: 1000"))
    found = ended(tmp_path, Lying(lambda _: Spent(0, 0), lambda _: failure(), times=3), machine)
    assert found.reason == ("BUDGET_EXHAUSTED", "max_tokens")


# ---------------------------------------------------------------- tools


@pytest.mark.parametrize(
    "result",
    [
        {"good": float("nan")}, {"good": True, "usage": {"tool_calls": -9}}, {"good": -1}, None, [], "good", 5j,
        RuntimeError("no"), {"good": True, "note": "x" * 10**6}, {1: 2},
    ],
    ids=["nan", "usage", "wrong", "none", "list", "text", "complex", "raises", "huge", "keys"],
)  # fmt: skip
def test_whatever_a_tool_gives_each_call_counts_as_one(tmp_path: Path, result: Any) -> None:
    """Also where nothing usable came of it, however often it was tried within the call."""
    machine = swap(ROOMY, ("tokens: 90000000", "tokens: 90000000, tool_calls: 3"))
    found = ended(tmp_path, Lying(lambda _: Spent(1, 1)), machine, look=[result])
    usage, calls = found.task.head.usage, found.task.head.calls
    assert usage.tool_calls == calls["look"] <= 3
    assert found.task.head.status in ("BUDGET_EXHAUSTED", "NO_PROGRESS", "FAILED")


def test_calls_that_fail_count_for_the_limit_of_the_tool(tmp_path: Path) -> None:
    machine = swap(ROOMY, ("initial: LOOKING", "at_most: {look: 2}\ninitial: LOOKING"))
    model = Lying(lambda _: Spent(1, 1))
    found = ended(tmp_path, model, machine, look=[RuntimeError("no"), GOOD])
    assert found.task.head.calls == {"look": 2}
    assert model.prompts[2].unavailable["look"] == "it may be called 2 times in a task, and was"
    assert found.rows[2]["result"] == "refused"
