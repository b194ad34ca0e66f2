"""Which model a name stands for, with which key and at which price; and what is said where the libraries are missing."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from providers.asking import KEY, NAMES, model, prompt, reply
from providers.wire import Call, Provider, calls, served
from statemachine_agent.cli.main import run
from statemachine_agent.definition.named_models import NamedModel
from statemachine_agent.definition.settings import load_project
from statemachine_agent.environment import Environment
from statemachine_agent.errors import SettingsError, UsageError
from statemachine_agent.models.fallback import FallbackModel
from statemachine_agent.models.prices import Tariff
from statemachine_agent.models.provider import ProviderModel
from statemachine_agent.models.spec import model_of

LOOK = calls(Call("look", '{"thing": "box"}'))


def named(folder: Path, text: str) -> Mapping[str, NamedModel]:
    (folder / "statemachine-agent.toml").write_text(text, encoding="utf-8")
    return load_project(folder, {}).settings.models


# ---------------------------------------------------------------- the settings


def test_a_model_of_the_settings_has_defaults_that_work(tmp_path: Path) -> None:
    found = named(tmp_path, '[models.fast]\nuse = "openai:gpt-5-mini"\n')["fast"]
    assert (found.max_tokens, found.timeout.total_seconds(), found.tool_choice) == (4096, 60, "required")
    assert (found.url, found.key, found.fallback, found.price) == (None, None, None, None)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ('use = "gpt-5"', "`models.fast.use`: this names no model of a provider", "openai:NAME"),
        ('use = "scripted:x"', "this names no model of a provider", "openai:NAME"),
        ('use = "openai:"', "this names no model of a provider", "openai:NAME"),
        ('use = "openai:x"\nurl = "ftp://x"', "`models.fast.url`: this is no address of a provider", "http://"),
        ('use = "openai:x"\nurl = "http://"', "this is no address of a provider", "http://"),
        ('use = "openai:x"\nurl = "http://x:port"', "this is no address of a provider", "http://"),
        ('use = "openai:x"\nurl = "http://a b"', "this is no address", "http://"),
        ('use = "openai:x"\nmax_tokens = 0', "`models.fast.max_tokens`", ""),
        ('use = "openai:x"\ntemperature = "hot"', "`models.fast.temperature`", ""),
        ('use = "openai:x"\ntimeout = "0s"', "`models.fast.timeout`", ""),
        ('use = "openai:x"\ntop = 1', "unknown setting `models.fast.top`", "top_p"),
        ('use = "openai:x"\nprice = {input = 1.0}', "`models.fast.price.output`", ""),
        ('use = "openai:x"\nprice = {input = -1.0, output = 1.0}', "`models.fast.price.input`", ""),
        ('use = "openai:x"\nprice = {input = nan, output = 1.0}', "`models.fast.price.input`", ""),
        ("", "`models.fast.use`", ""),
    ],
)
def test_what_cannot_be_used_is_refused_with_advice(tmp_path: Path, text: str, message: str, hint: str) -> None:
    with pytest.raises(SettingsError) as caught:
        named(tmp_path, f"[models.fast]\n{text}\n")
    assert message in caught.value.message and hint in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text",
    [
        f'key = "{KEY}"', f'key = "{KEY.upper()}"', f'api_key = "{KEY}"', f'url = "https://me:{KEY}@host/v1"',
        f'url = "https://host/v1?key={KEY}"', f'url = "https://host/{KEY} "', f'url = "{KEY}"', f'use = "{KEY}"',
    ],
)  # fmt: skip
def test_a_key_that_somebody_wrote_into_the_settings_is_not_shown(tmp_path: Path, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        named(
            tmp_path,
            f"[models.fast]\n{text}\n{'' if text.startswith('use') else 'use = ' + chr(34) + 'openai:x' + chr(34)}\n",
        )
    assert KEY.lower() not in str(caught.value).lower()


# ---------------------------------------------------------------- names, keys, addresses


def found(spec: str, models: Mapping[str, Any] | None = None, **environ: str) -> Any:
    settings = {name: NamedModel.model_validate(about) for name, about in (models or {}).items()}
    return model_of(spec, Environment(), settings, environ)


def test_a_provider_is_named_as_it_is_or_by_a_name_of_the_settings() -> None:
    assert isinstance(found("openai:gpt-5-mini", OPENAI_API_KEY="k"), ProviderModel)
    assert isinstance(found("google:gemini-2.5-flash", GEMINI_API_KEY="k"), ProviderModel)
    fast = {"use": "anthropic:claude-haiku-4-5", "key": "OTHER_KEY"}
    made = found("fast", {"fast": fast}, OTHER_KEY="k")
    assert isinstance(made, ProviderModel) and made.spec == "fast"


def test_a_name_that_nobody_gave_is_told_which_there_are() -> None:
    with pytest.raises(UsageError, match="there is no model `slow`") as caught:
        found("slow", {"fast": {"use": "openai:x"}})
    assert "in the settings: `fast`" in (caught.value.hint or "")


@pytest.mark.parametrize(("spec", "variable"), [("openai:x", "OPENAI_API_KEY"), ("anthropic:x", "ANTHROPIC_API_KEY")])
def test_a_key_that_is_not_there_is_missed_before_anything_begins(spec: str, variable: str) -> None:
    for environ in ({}, {variable: ""}, {variable: "  "}):
        with pytest.raises(UsageError, match="there is no key") as caught:
            found(spec, **environ)
        assert variable in (caught.value.hint or "")


@pytest.mark.parametrize("key", ["a\nb", "schlüssel", "a\x00b", "a\x7fb"])
def test_a_key_that_no_header_can_hold_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(UsageError, match="the value of OPENAI_API_KEY is no key") as caught:
        found("openai:x", OPENAI_API_KEY=key)
    assert key not in str(caught.value)


def test_the_providers_own_key_is_never_sent_to_another_address() -> None:
    with served("openai") as own:
        own.plays = [LOOK]
        made = found("own", {"own": {"use": "openai:qwen3:8b", "url": own.url}}, OPENAI_API_KEY=KEY)
        sent = asked(made, own)
        assert KEY not in str(sent.headers) and sent.body["model"] == "qwen3:8b"
        made = found("own", {"own": {"use": "openai:qwen3:8b", "url": own.url, "key": "OWN_KEY"}}, OWN_KEY="mine")
        assert asked(made, own).headers["authorization"] == "Bearer mine"


def asked(made: Any, provider: Provider) -> Any:
    asyncio.run(made.decide(prompt()))
    return provider.asked[-1]


def test_a_fallback_is_another_name_of_the_settings() -> None:
    models = {"fast": {"use": "openai:a", "fallback": "strong"}, "strong": {"use": "anthropic:b"}}
    made = found("fast", models, OPENAI_API_KEY="k", ANTHROPIC_API_KEY="k")
    assert isinstance(made, FallbackModel) and made.spec == "fast"
    with pytest.raises(UsageError, match="there is no key for the model `strong`"):
        found("fast", models, OPENAI_API_KEY="k")
    with pytest.raises(UsageError, match="falls back to `strange`") as caught:
        found("fast", {**models, "fast": {"use": "openai:a", "fallback": "strange"}}, OPENAI_API_KEY="k")
    assert "strong" in (caught.value.hint or "")


# ---------------------------------------------------------------- without the libraries


def test_without_the_libraries_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    for missing, package in (("pydantic_ai", "pydantic-ai"), ("openai", "openai")):
        monkeypatch.setattr(
            "statemachine_agent.models.clients.find_spec", lambda name, m=missing: None if name == m else real(name)
        )
        with pytest.raises(UsageError, match=f"need the package `{package}`") as caught:
            found("openai:x", OPENAI_API_KEY="k")
        assert caught.value.hint == "pip install 'statemachine-agent[providers]'"


def test_nothing_is_imported_before_a_model_is_asked() -> None:
    """Not even for a task that has one."""
    code = (
        "import sys\nfrom statemachine_agent.environment import Environment\n"
        "from statemachine_agent.models.spec import model_of\n"
        "import statemachine_agent, statemachine_agent.cli.main\n"
        "model_of('openai:x', Environment(), {}, {'OPENAI_API_KEY': 'k'})\n"
        "print(sorted({m.split('.')[0] for m in sys.modules} & "
        "{'pydantic_ai', 'openai', 'anthropic', 'genai_prices', 'httpx2'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "[]", done.stderr


# ---------------------------------------------------------------- prices


@pytest.mark.parametrize("kind", ["openai", "anthropic", "google"])
def test_the_price_of_a_known_model_is_known(kind: str) -> None:
    tariff = Tariff(kind, NAMES[kind])
    cost = tariff.cost(None, 1_000_000, 1_000_000)
    assert Decimal("0.1") < cost < Decimal(100)
    assert tariff.cost(f"{NAMES[kind]}-of-tomorrow-that-nobody-knows", 1_000_000, 1_000_000) > 0
    assert tariff.cost(None, 1_000_000, 0, 1_000_000) < tariff.cost(None, 1_000_000, 0)  # read from a cache


def test_the_price_of_a_model_that_nobody_knows_is_what_the_settings_say_or_nothing() -> None:
    assert Tariff("openai", "qwen3:8b", "http://127.0.0.1:1/v1").cost(None, 10**6, 10**6) == 0
    price = NamedModel.model_validate({"use": "openai:x", "price": {"input": 0.1, "output": 0.2}}).price
    assert Tariff("openai", "gpt-5-mini", None, price).cost(None, 10**6, 10**6) == Decimal("0.3")


def test_a_reply_of_a_known_model_is_priced() -> None:
    with served("openai") as provider:
        assert reply(provider, LOOK).spent.cost_usd == 0  # at an address that is not the provider's
        made = model(provider)
        made._tariff = Tariff("openai", "gpt-5-mini")
        assert asyncio.run(made.decide(prompt())).spent.cost_usd > 0


# ---------------------------------------------------------------- from the command line


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    named(
        tmp_path,
        '[models.fast]\nuse = "openai:x"\nfallback = "own"\nprice = {input = 0.5, output = 1.0}\n'
        '[models.own]\nuse = "openai:y"\nurl = "http://127.0.0.1:1/v1"\n'
        '[models.other]\nuse = "anthropic:z"\nkey = "OTHER_KEY"\n',
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OTHER_KEY", KEY)
    return tmp_path


def test_the_settings_in_force_name_models_and_show_no_key(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["config"]) == 0
    told = capsys.readouterr().out
    assert "fast = use openai:x, fallback own, timeout 60.0" in told and KEY not in told
    assert run(["config", "--json"]) == 0
    told = capsys.readouterr().out
    models = json.loads(told)["settings"]["models"]
    assert {name: about["key"] for name, about in models.items()} == {
        "fast": "OPENAI_API_KEY, not set", "own": "none", "other": "OTHER_KEY, set in the environment",
    }  # fmt: skip
    assert models["fast"]["price"] == {"input": 0.5, "output": 1.0} and KEY not in told
