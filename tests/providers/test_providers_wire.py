"""What a provider is sent, and what becomes of its answer, over real HTTP in each provider's own words."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from providers.asking import KEY, KINDS, NAMES, SCHEMA, TEXT, Quick, ask, failed, model, prompt, reply
from providers.wire import READ, WRITTEN, Call, Fails, Provider, Says, calls, served
from statemachine_agent.environment import Environment
from statemachine_agent.models import clients
from statemachine_agent.models.decision import InvalidDecision, ToolCall, ToolCalls, decision_of
from statemachine_agent.models.port import MOST, ModelUnavailableError, Reply

BOX = '{"thing": "box"}'
LOOK = Call("look", BOX)


@pytest.fixture(params=KINDS)
def provider(request: pytest.FixtureRequest) -> Iterator[Provider]:
    with served(request.param) as found:
        yield found


def sent_tools(body: Any, kind: str) -> list[tuple[str, str, Any]]:
    """Names, descriptions and schemas as they went over the wire."""
    match kind:
        case "openai":
            functions = [t["function"] for t in body["tools"]]
            return [(f["name"], f["description"], f["parameters"]) for f in functions]
        case "anthropic":
            return [(t["name"], t["description"], t["input_schema"]) for t in body["tools"]]
        case _:
            functions = [f for t in body["tools"] for f in t["functionDeclarations"]]
            return [(f["name"], f["description"], f["parameters_json_schema"]) for f in functions]


def sent_text(body: Any, kind: str) -> Any:
    match kind:
        case "openai":
            (message,) = body["messages"]
            return message["role"], message["content"]
        case "anthropic":
            (message,) = body["messages"]
            (part,) = message["content"]
            return message["role"], part["text"]
        case _:
            (message,) = body["contents"]
            (part,) = message["parts"]
            return message["role"], part["text"]


# ---------------------------------------------------------------- what is sent


def test_one_call_is_one_request_with_exactly_the_tools_that_are_offered(provider: Provider) -> None:
    found = reply(provider, calls(LOOK))
    (asked,) = provider.asked
    names = [(name, summary) for name, summary, _ in sent_tools(asked.body, provider.kind)]
    assert names == [("look", "Look at a thing."), ("peek", "Peek.")]
    assert sent_tools(asked.body, provider.kind)[0][2] == SCHEMA
    assert sent_text(asked.body, provider.kind) == ("user", TEXT)
    assert not asked.body.get("system") and not asked.body.get("systemInstruction")
    assert found.model == f"{provider.kind}:{NAMES[provider.kind]}"


def test_a_call_is_required_and_several_only_where_the_prompt_allows_them(provider: Provider) -> None:
    reply(provider, calls(LOOK))
    reply(provider, calls(LOOK), at_once=4)
    reply(provider, calls(LOOK), how={"tool_choice": "auto"})
    one, several, auto = (a.body for a in provider.asked)
    match provider.kind:
        case "openai":
            assert [b["tool_choice"] for b in (one, several, auto)] == ["required", "required", "auto"]
            assert (one["parallel_tool_calls"], several["parallel_tool_calls"]) == (False, True)
        case "anthropic":
            assert one["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
            assert several["tool_choice"] in ({"type": "any"}, {"type": "any", "disable_parallel_tool_use": False})
            assert auto["tool_choice"]["type"] == "auto"
        case _:
            modes = [b["toolConfig"]["functionCallingConfig"]["mode"] for b in (one, several, auto)]
            assert modes == ["ANY", "ANY", "AUTO"]


def limit(body: Any) -> int:
    return next(
        int(found)
        for found in (body.get("max_tokens"), body.get("generationConfig", {}).get("maxOutputTokens"))
        if found is not None
    )


def test_a_reply_is_never_longer_than_what_the_budget_has_left(provider: Provider) -> None:
    reply(provider, calls(LOOK))
    reply(provider, calls(LOOK), how={"max_tokens": 900})
    reply(provider, calls(LOOK), remaining={"tokens": 1000})
    reply(provider, calls(LOOK), remaining={"tokens": 0})
    limits = [limit(a.body) for a in provider.asked]
    assert limits[:2] == [4096, 900] and 256 < limits[2] < 1000 and limits[3] == 256


def test_parameters_go_where_the_provider_wants_them(provider: Provider) -> None:
    how: dict[str, Any] = {"temperature": 0.25, "top_p": 0.5}
    name = {"openai": "gpt-4o-mini"}.get(provider.kind, NAMES[provider.kind])
    reply(provider, calls(LOOK), how={**how, "use": f"{provider.kind}:{name}"})
    body = provider.asked[0].body
    found = body.get("generationConfig", body)
    assert found["temperature"] == 0.25 and found.get("top_p", found.get("topP")) == 0.5


def test_what_prompts_have_in_common_is_marked_for_a_cache_only_where_that_is_wanted(provider: Provider) -> None:
    """The text is the same to the letter; OpenAI and Google look into their caches without marks."""
    stable = len(TEXT) // 2
    reply(provider, calls(LOOK), stable=stable)
    reply(provider, calls(LOOK), stable=stable, how={"cache": True})
    reply(provider, calls(LOOK), stable=0, how={"cache": True})
    plain, marked, nothing = (a.body for a in provider.asked)
    assert "cache_control" not in json.dumps(plain) and "cache_control" not in json.dumps(nothing)
    if provider.kind != "anthropic":
        assert marked == plain
        return
    first, second = marked["messages"][0]["content"]
    assert (first["text"], second["text"]) == (TEXT[:stable], TEXT[stable:])
    assert first["cache_control"]["type"] == "ephemeral" and "cache_control" not in second


def test_the_key_goes_to_the_address_of_the_settings_and_nowhere_else(provider: Provider) -> None:
    with served(provider.kind) as elsewhere:
        elsewhere.plays = [calls(LOOK)]
        problem = failed(provider, Fails(307, {"location": elsewhere.url + provider_path(provider.kind)}))
        assert elsewhere.asked == [] and len(provider.asked) == 1
    assert KEY in " ".join(provider.asked[0].headers.values())
    assert KEY not in str(problem)


def provider_path(kind: str) -> str:
    return {"openai": "/chat/completions", "anthropic": "/v1/messages"}.get(kind, "/v1beta/models/x:generateContent")


# ---------------------------------------------------------------- what comes back

ONE = ToolCalls((ToolCall("call_1", "look", {"thing": "box"}),))


def test_a_call_comes_back_as_it_was_made(provider: Provider) -> None:
    found = reply(provider, calls(LOOK))
    assert decision_of(found.raw) == ONE
    assert (found.spent.input_tokens, found.spent.output_tokens) == (READ, WRITTEN)
    assert found.raw.stop_reason in ("tool_call", "stop")


def test_parallel_calls_keep_their_ids_and_their_order(provider: Provider) -> None:
    found = reply(provider, calls(LOOK, Call("peek", "{}", "call_2"), Call("look", '{"thing": "hat"}', "call_3")))
    decided = decision_of(found.raw)
    assert isinstance(decided, ToolCalls)
    assert [(c.id, c.tool, c.args) for c in decided.calls] == [
        ("call_1", "look", {"thing": "box"}), ("call_2", "peek", {}), ("call_3", "look", {"thing": "hat"}),
    ]  # fmt: skip


def test_a_text_beside_a_call_is_kept_and_decides_nothing(provider: Provider) -> None:
    found = reply(provider, calls(LOOK, text="I approve the refund myself."))
    assert decision_of(found.raw) == ONE
    assert found.raw.text == "I approve the refund myself."


@pytest.mark.parametrize(
    ("says", "error_class"),
    [
        (Says(), "empty"),
        (Says(text=""), "empty"),
        (Says(text="I looked at it."), "text_without_call"),
        (Says(text="I looked", cut=True), "text_without_call"),
        (calls(LOOK, cut=True), "truncated"),
        (calls(LOOK, LOOK), "duplicate_call_id"),
        (calls(LOOK, Call("finish", '{"answer": "done"}', "call_2")), "mixed"),
        (calls(Call("finish", '{"answer": 5}')), "malformed_arguments"),
        (calls(Call("look", '{"thing": "\\ud800"}')), "malformed_arguments"),
    ],
)
def test_what_is_no_decision_is_an_observation(provider: Provider, says: Says, error_class: str) -> None:
    found = decision_of(reply(provider, says).raw)
    assert isinstance(found, InvalidDecision) and found.error_class == error_class


@pytest.mark.parametrize(
    "arguments", ['{"thing": "bo', '{"thing": "box"} and so on', "[1]", '"box"', "5", "{'thing': 'box'}"]
)
def test_arguments_that_are_broken_never_become_a_call(provider: Provider, arguments: str) -> None:
    """One of the libraries refuses the whole answer: then it is a failed attempt, and asked for again."""
    found = ask(provider, calls(Call("look", arguments)))
    if provider.kind == "google":
        assert isinstance(found, ModelUnavailableError) and found.retryable
    else:
        assert isinstance(found, Reply)
        decided = decision_of(found.raw)
        assert isinstance(decided, InvalidDecision) and decided.error_class == "malformed_arguments"


def test_arguments_that_were_cut_off_are_never_mended(provider: Provider) -> None:
    found = ask(provider, calls(Call("look", '{"thing": "box", "many": 20'), cut=True))
    if isinstance(found, Reply):
        decided = decision_of(found.raw)
        assert isinstance(decided, InvalidDecision) and decided.error_class == "truncated"
    else:
        assert provider.kind == "google" and found.retryable


def test_a_tool_that_nobody_offered_keeps_its_name_for_whoever_knows_the_list(provider: Provider) -> None:
    found = decision_of(reply(provider, calls(Call("delete_everything", "{}"))).raw)
    assert found == ToolCalls((ToolCall("call_1", "delete_everything", {}),))


# ---------------------------------------------------------------- what does not come back


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_request_that_is_refused_is_not_sent_again(provider: Provider, status: int) -> None:
    problem = failed(provider, Fails(status))
    assert (len(provider.asked), problem.retryable) == (1, provider.kind == "google" and status == 422)
    assert f"fast answered {status}: it was not to be" in problem.message


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_a_server_in_trouble_is_asked_again_and_by_the_loop_alone(provider: Provider, status: int) -> None:
    problem = failed(provider, Fails(status))
    assert (len(provider.asked), problem.retryable, problem.retry_after) == (1, True, None)
    assert problem.spent is not None and problem.spent.input_tokens >= len(TEXT) // 4


@pytest.mark.parametrize(("header", "seconds"), [("7", 7.0), ("-4", None), ("soon", None), ("nan", None)])
def test_how_long_a_provider_wants_to_be_left_alone(provider: Provider, header: str, seconds: float | None) -> None:
    problem = failed(provider, Fails(429, {"retry-after": header}))
    assert problem.retry_after == seconds


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_that_is_not_accepted_is_said_without_it(provider: Provider, status: int) -> None:
    body = {"error": {"code": status, "status": "UNAUTHENTICATED", "message": f"Incorrect API key provided: {KEY[:9]}"}}
    problem = failed(provider, Fails(status, body=body))
    assert (problem.message, problem.retryable) == ("fast does not accept the key", False)


def test_an_error_that_quotes_the_key_is_shown_without_it(provider: Provider) -> None:
    problem = failed(provider, Fails(500, body={"error": {"code": 500, "message": f"\x1b[2J cannot use {KEY} now"}}))
    assert KEY not in problem.message and problem.message.isprintable()
    for cause in (problem.__cause__, problem.__context__ if not problem.__suppress_context__ else None):
        assert cause is None  # the library's error holds the request with its headers


@pytest.mark.parametrize("before", [0, 100, 150, 165, 175, 185, 300])
@pytest.mark.parametrize("quoted", [KEY, f"{KEY[:11]}...{KEY[-10:]}", f"{KEY[3:15]}…"], ids=["whole", "middle", "part"])
def test_what_is_left_of_the_key_where_a_text_was_cut_is_not_shown(before: int, quoted: str) -> None:
    """A library quotes what it could not read; it leaves out its middle, or we its end."""
    clients.load("openai")
    said = clients.failure(ValueError("x" * before + f" {quoted}' and more"), "fast", KEY).message
    assert said.startswith("fast gave an answer that cannot be read: ValueError: ")
    assert not any(KEY[at : at + 8] in said for at in range(len(KEY) - 7)), said


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{",
        "<html>",
        "null",
        "5",
        "[]",
        "{}",
        '{"choices": []}',
        '{"content": 5}',
        '{"candidates": [5]}',
        "[" * 5000,
    ],
)
def test_an_answer_that_is_none_is_a_failed_attempt_or_an_empty_one(provider: Provider, body: str) -> None:
    found = ask(provider, Fails(200, {}, body or " "))
    if isinstance(found, Reply):
        assert isinstance(decision_of(found.raw), InvalidDecision)
    else:
        assert found.retryable and found.spent is not None and found.spent.input_tokens > 0


def test_a_connection_that_breaks_is_a_failed_attempt(provider: Provider) -> None:
    problem = failed(provider, Fails(connection="cut"))
    assert problem.retryable and len(provider.asked) == 1
    assert problem.message.startswith("fast cannot be reached, or broke off")


def test_a_server_that_is_not_there_is_a_failed_attempt() -> None:
    for kind in KINDS:
        with served(kind) as gone:
            pass
        assert failed(gone, calls(LOOK)).retryable


def test_a_server_that_hangs_is_given_up_in_its_own_time(provider: Provider) -> None:
    problem = failed(provider, Fails(connection="hang"), how={"timeout": "300ms"})
    assert (problem.message, problem.retryable) == ("fast gave no answer within 0.3 s", True)
    assert problem.spent is not None and problem.spent.input_tokens > 0


def test_one_inference_gets_at_most_half_of_the_time_that_is_left(provider: Provider) -> None:
    problem = failed(provider, Fails(connection="hang"), remaining={"seconds": 2})
    assert problem.message == "fast gave no answer within 1 s"


def test_whoever_stops_waiting_stops_the_request(provider: Provider) -> None:
    """Cancelled from outside, it is over at once, and no attempt."""
    provider.plays = [Fails(connection="hang")]

    async def main() -> None:
        asked = asyncio.create_task(model(provider).decide(prompt()))
        while not provider.asked:
            await asyncio.sleep(0.01)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

    asyncio.run(main())
    assert len(provider.asked) == 1


# ---------------------------------------------------------------- what it cost


@pytest.mark.filterwarnings("ignore:Failed to extract usage")
@pytest.mark.parametrize(
    "usage", [None, (-5000, -3), (0, 0), (float("nan"), float("inf")), (-1, 10**30), (10**30, -1), (1.5, 2.5)]
)
def test_whatever_a_provider_says_of_usage_no_budget_comes_back(provider: Provider, usage: Any) -> None:
    found = ask(provider, calls(LOOK, usage=usage), how={"price": {"input": 1.0, "output": 2.0}})
    spent = found.spent
    assert spent is not None
    assert len(TEXT) // 4 <= spent.input_tokens <= MOST
    assert 0 <= spent.output_tokens <= MOST
    assert spent.cost_usd.is_finite() and spent.cost_usd > 0
    if isinstance(found, Reply):
        assert spent.output_tokens > 0


def test_a_price_of_the_settings_counts_for_answers_and_for_attempts_that_may_be_charged(provider: Provider) -> None:
    how = {"price": {"input": 2.0, "output": 10.0}}
    found = reply(provider, calls(LOOK), how=how)
    assert found.spent.cost_usd == (Decimal(2) * READ + Decimal(10) * WRITTEN) / 1_000_000
    hung = failed(provider, Fails(connection="hang"), how={**how, "timeout": "300ms"})
    refused = failed(provider, Fails(429), how=how)
    assert hung.spent is not None and refused.spent is not None
    assert hung.spent.cost_usd > 0 and refused.spent.cost_usd == 0
    assert hung.spent.input_tokens == refused.spent.input_tokens > 0


# ---------------------------------------------------------------- many at once, anywhere


def test_many_ask_at_once_and_each_gets_its_own(provider: Provider) -> None:
    provider.plays = [calls(LOOK)]

    async def main() -> list[Reply]:
        asked = model(provider, Environment())
        return await asyncio.gather(*(asked.decide(prompt()) for _ in range(8)))

    assert [decision_of(r.raw) for r in asyncio.run(main())] == [ONE] * 8
    assert len(provider.asked) == 8


def test_a_model_shows_its_name_and_no_key(provider: Provider) -> None:
    assert repr(model(provider, Quick())) == "ProviderModel('fast')"
