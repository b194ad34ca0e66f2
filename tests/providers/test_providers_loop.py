"""A task whose model is a provider's: whatever its server does ends as an observation or a failed attempt, and is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from providers.asking import KEY, KINDS, NAMES, Quick, model
from providers.wire import READ, WRITTEN, Call, Fails, Provider, Says, calls, served
from statemachine_agent.environment import Environment
from statemachine_agent.models.fallback import FallbackModel
from statemachine_agent.records import Checkpoint
from support.playing import swap
from support.world import MACHINE, World, world

BOX = '{"thing": "box"}'
LOOK = Call("look", BOX)
TWO = calls(LOOK, Call("look", '{"thing": "hat"}', "call_2"))
ACT = Call("act", '{"thing": "box", "amount": 10}')
ENOUGH = calls(Call("cannot_continue", '{"reason": "enough"}'))
#: room for what four attempts are booked with
ROOMY = swap(MACHINE, ("tokens: 10000", "tokens: 100000"))


@pytest.fixture(params=KINDS)
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with served(request.param) as found:
        yield found


@dataclass
class Ended:
    """A task that was run to its end."""

    task: Checkpoint
    decisions: list[Mapping[str, Any]]
    looked: int
    acted: int
    environment: Quick

    @property
    def results(self) -> list[tuple[str, str | None]]:
        return [(r["result"], r["error_class"]) for r in self.decisions]


Run = Callable[..., Ended]


@pytest.fixture
def run(tmp_path: Path, provider: Provider) -> Run:
    """Runs the small machine with the provider's plays."""

    def ran(
        *plays: Says | Fails, made: Callable[[Environment], Any] | None = None, machine: str = ROOMY, **how: Any
    ) -> Ended:
        environment = Quick()
        provider.plays = list(plays)
        chosen = made(environment) if made else model(provider, environment, **how)

        async def main() -> Ended:
            async with world(tmp_path, machine=machine, model=chosen, environment=environment) as here:  # type: ignore[arg-type]
                return await _ended(here, environment)

        return environment.run(main())

    return ran


async def _ended(here: World, environment: Quick) -> Ended:
    task = await here.run()
    rows = await here.rows(task, "decision")
    return Ended(task, rows, len(here.tools["look"].calls), len(here.tools["act"].calls), environment)


def test_a_task_from_its_first_look_to_its_effect(run: Run, provider: Provider) -> None:
    ended = run(calls(LOOK), calls(ACT))
    assert (ended.task.head.status, ended.looked, ended.acted) == ("SUCCEEDED", 1, 1)
    assert ended.results == [("accepted", None)] * 2
    assert {r["model"] for r in ended.decisions} == {f"{provider.kind}:{NAMES[provider.kind]}"}
    assert {(r["input_tokens"], r["output_tokens"]) for r in ended.decisions} == {(READ, WRITTEN)}
    usage = ended.task.head.usage
    assert (usage.input_tokens, usage.output_tokens) == (2 * READ, 2 * WRITTEN)
    assert len(provider.asked) == 2  # one call, one request, one row
    assert "look first" not in str(provider.asked[1].body)


@pytest.mark.parametrize(
    ("says", "result", "error_class"),
    [
        (Says(), "invalid", "empty"),
        (Says(text="Refunded!"), "invalid", "text_without_call"),
        (calls(Call("delete_everything")), "invalid", "illegal_tool"),
        (calls(LOOK, cut=True), "invalid", "truncated"),
        (calls(LOOK, LOOK), "invalid", "duplicate_call_id"),
        (calls(LOOK, Call("finish", '{"answer": "done"}', "call_2")), "invalid", "mixed"),
        (calls(Call("look", '{"thing": 5}')), "invalid", "invalid_arguments"),
        (calls(ACT), "refused", None),
    ],
)
def test_what_cannot_be_taken_is_told_and_costs_the_step(
    run: Run, provider: Provider, says: Says, result: str, error_class: str | None
) -> None:
    """The next prompt says what was wrong; nothing of it was run."""
    ended = run(says, ENOUGH)
    assert ended.results[0][0] == result
    if error_class:
        assert ended.results[0][1] == error_class
    assert (ended.looked, ended.acted) == (0, 0)
    assert ended.decisions[1]["step"] == 2
    assert "What became of your last proposal" in str(provider.asked[1].body)
    assert ended.task.head.reason == "no_action"


def test_several_reads_at_once_are_made_where_the_machine_allows_them(run: Run) -> None:
    ended = run(TWO, ENOUGH)
    assert (ended.results[0], ended.looked) == (("accepted", None), 2)


def test_several_calls_where_one_is_allowed_are_told_and_none_is_made(run: Run) -> None:
    """Whatever the provider was told about parallel calls."""
    ended = run(TWO, ENOUGH, machine=swap(ROOMY, ("initial: LOOKING", "parallel_calls: 1\ninitial: LOOKING")))
    assert (ended.results[0], ended.looked) == (("invalid", "several_calls"), 0)


def test_broken_arguments_are_told_or_asked_for_again(run: Run, provider: Provider) -> None:
    ended = run(calls(Call("look", '{"thing": "bo')), ENOUGH)
    expected = ("failed", "model_unavailable") if provider.kind == "google" else ("invalid", "malformed_arguments")
    assert ended.results == [expected, ("accepted", None)]
    assert ended.looked == 0


@pytest.mark.filterwarnings("ignore:Failed to extract usage")
@pytest.mark.parametrize(
    "play",
    [Fails(500), Fails(529), Fails(connection="cut"), Fails(200, {}, "{"), Fails(200, {}, "<html>")],
    ids=["500", "529", "cut", "half", "html"],
)
def test_an_attempt_that_fails_is_a_row_of_its_own_and_costs_no_step(run: Run, provider: Provider, play: Fails) -> None:
    ended = run(play, play, calls(LOOK), ENOUGH)
    assert [(r["attempt"], r["step"], r["result"]) for r in ended.decisions] == [
        (1, 1, "failed"), (2, 1, "failed"), (3, 1, "accepted"), (1, 2, "accepted"),
    ]  # fmt: skip
    assert len(provider.asked) == 4
    booked = [r["input_tokens"] for r in ended.decisions]
    assert all(n > 0 for n in booked) and ended.task.head.usage.input_tokens == sum(booked)


def test_four_attempts_and_no_more(run: Run, provider: Provider) -> None:
    ended = run(Fails(503))
    assert (ended.task.head.status, ended.task.head.reason) == ("FAILED", "model_failed")
    assert (len(provider.asked), len(ended.decisions)) == (4, 4)
    assert ended.task.head.output == "fast answered 503: it was not to be"


def test_a_wait_that_the_provider_asks_for_is_waited(run: Run) -> None:
    ended = run(Fails(429, {"retry-after": "7"}), calls(LOOK), ENOUGH)
    assert 7.0 in ended.environment.slept
    assert ended.results[:2] == [("failed", "model_unavailable"), ("accepted", None)]


def test_a_server_that_hangs_costs_its_time_and_its_tokens(run: Run) -> None:
    ended = run(
        Fails(connection="hang"), ENOUGH, made=None, timeout="1500ms", price={"input": 1000.0, "output": 1000.0}
    )
    assert ended.results == [("failed", "model_unavailable"), ("accepted", None)]
    assert ended.decisions[0]["latency_ms"] >= 1400
    assert ended.decisions[0]["cost_usd"] not in (0, "0") and ended.task.head.usage.cost_usd > 0


def test_a_key_that_is_not_accepted_ends_the_task_at_once_and_is_nowhere_to_be_found(
    run: Run, provider: Provider, tmp_path: Path
) -> None:
    ended = run(Fails(401, body={"error": {"code": 401, "message": f"wrong key {KEY}"}}))
    assert (ended.task.head.reason, len(provider.asked)) == ("model_failed", 1)
    assert ended.task.head.output == "fast does not accept the key"
    for file in tmp_path.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes()


@pytest.mark.filterwarnings("ignore:Failed to extract usage")
def test_a_provider_cannot_give_budget_back(run: Run) -> None:
    ended = run(calls(LOOK, usage=(-1_000_000, -1_000_000)), ENOUGH)
    assert all(r["input_tokens"] > 0 and r["output_tokens"] > 0 for r in ended.decisions)
    assert ended.task.head.usage.input_tokens == sum(r["input_tokens"] for r in ended.decisions)


def test_a_claim_beyond_measure_uses_the_budget_up(run: Run) -> None:
    ended = run(calls(LOOK, usage=(10**30, 5)), ENOUGH)
    assert ended.task.head.status == "BUDGET_EXHAUSTED"


# ---------------------------------------------------------------- one behind the other


def test_where_one_fails_twice_the_other_is_asked(run: Run, provider: Provider) -> None:
    with served("openai") as other:
        other.plays = [calls(LOOK)]
        ended = run(
            Fails(500), Fails(500), ENOUGH,
            made=lambda e: FallbackModel(model(provider, e), model(other, e)),
        )  # fmt: skip
        assert [(r["step"], r["attempt"], r["result"]) for r in ended.decisions] == [
            (1, 1, "failed"), (1, 2, "failed"), (1, 3, "accepted"), (2, 1, "accepted"),
        ]  # fmt: skip
        assert (len(provider.asked), len(other.asked)) == (3, 1)
        assert ended.decisions[2]["model"] == "openai:gpt-5-mini"


def test_where_one_will_never_answer_the_other_is_asked_next(run: Run, provider: Provider) -> None:
    with served("openai") as other:
        other.plays = [ENOUGH]
        ended = run(Fails(401), made=lambda e: FallbackModel(model(provider, e), model(other, e)))
        assert [r["result"] for r in ended.decisions] == ["failed", "accepted"]


def test_what_is_wrong_with_a_reply_is_no_reason_to_ask_another(run: Run, provider: Provider) -> None:
    """A bad proposal is told to whoever made it."""
    with served("openai") as other:
        other.plays = [ENOUGH]
        run(Says(text="done"), ENOUGH, made=lambda e: FallbackModel(model(provider, e), model(other, e)))
        assert other.asked == []
