"""Identities: what the operating system says, what a token proves, and what is only claimed."""

from __future__ import annotations

import hashlib
import hmac
from base64 import urlsafe_b64encode
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unit.policy.making import people

from statemachine_agent.environment import Environment, SimulatedEnvironment
from statemachine_agent.errors import RefusedError, SettingsError, SmaError, UsageError
from statemachine_agent.policy.identity import Identity, actor_of, establish, has_scopes, key_of, mint

KEY = "0123456789abcdef0123456789abcdef"
OTHER = KEY[::-1]
LEAD = "lead@example.com"
CLOCK = SimulatedEnvironment()
HOUR = timedelta(hours=1)


class Somebody(Environment):
    def user(self) -> str:
        return "mallory"


def shown(token: str | None, claim: str | None = None, *, key: str | None = KEY, clock: Any = CLOCK) -> Identity:
    return establish(claim, "token", clock, token=token, key=key)


def reason(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(SmaError) as caught:
        establish(*args, **kwargs)
    assert caught.value.hint
    return caught.value.reason


def test_the_operating_system_says_who_one_is_and_a_claim_changes_nothing() -> None:
    assert establish(None, "os", Somebody()) == Identity("mallory", "os")
    assert establish("mallory", "os", Somebody()) == Identity("mallory", "os")
    for claim in (LEAD, "", "Mallory", "mallory ", "root"):
        assert reason(claim, "os", Somebody()) == "wrong_identity"
    assert establish(None, "os", Environment()).id


def test_a_claim_is_believed_only_where_the_settings_say_so() -> None:
    assert establish(LEAD, "asserted", Somebody()) == Identity(LEAD, "asserted")
    for nobody in (None, ""):
        assert reason(nobody, "asserted", Somebody()) == "no_identity"


@pytest.mark.parametrize("how", ["", "OS", "none", "os ", "tokens", "application"])
def test_a_way_that_there_is_none_establishes_nobody(how: str) -> None:
    assert reason(LEAD, how, Somebody(), token=mint(LEAD, KEY, CLOCK.now() + HOUR), key=KEY) == "refused"


def test_a_refused_claim_is_shown_without_what_would_change_a_terminal() -> None:
    with pytest.raises(RefusedError) as caught:
        establish("\x1b[2J" + "x" * 500, "os", Somebody())
    assert caught.value.message.isprintable() and len(caught.value.message) < 150


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize("person", [LEAD, "cust-3391", "a.b.c", "ünï\u202e", "=", "x" * 200, "\U0001f4b8", " "])
def test_a_token_shows_the_person_it_was_made_for(person: str) -> None:
    token = mint(person, KEY, CLOCK.now() + HOUR)
    assert shown(token) == shown(token, person) == Identity(person, "token")
    assert token.startswith("sma1.") and token.count(".") == 3 and token.isascii() and " " not in token


def test_a_token_has_the_form_that_is_documented() -> None:
    token = mint(LEAD, KEY, datetime(2026, 10, 28, 12, 17, 43, tzinfo=UTC))
    signed = "sma1.bGVhZEBleGFtcGxlLmNvbQ.1793189863"
    assert token == f"{signed}.{hmac.new(KEY.encode(), signed.encode(), hashlib.sha256).hexdigest()}"


def test_a_token_for_one_is_no_token_for_another() -> None:
    token = mint(LEAD, KEY, CLOCK.now() + HOUR)
    for claim in ("cust-3391", "", LEAD.upper()):
        assert reason(claim, "token", CLOCK, token=token, key=KEY) == "wrong_identity"


def test_a_token_ends_at_its_second_and_not_before() -> None:
    clock = SimulatedEnvironment()
    token = mint(LEAD, KEY, clock.now() + HOUR)
    clock.advance(3599.999)
    assert shown(token, clock=clock).id == LEAD
    clock.advance(0.001)
    assert reason(None, "token", clock, token=token, key=KEY) == "token_expired"
    for past in (clock.now() - HOUR, datetime(1970, 1, 1, tzinfo=UTC), datetime(1900, 1, 1, tzinfo=UTC)):
        assert reason(None, "token", clock, token=mint(LEAD, KEY, past), key=KEY) == "token_expired"


def test_the_zone_of_an_expiry_counts_and_one_without_is_refused() -> None:
    there = timezone(timedelta(hours=5, minutes=30))
    end = CLOCK.now() + HOUR
    assert mint(LEAD, KEY, end) == mint(LEAD, KEY, end.astimezone(there))
    with pytest.raises(UsageError, match="names no zone"):
        mint(LEAD, KEY, end.replace(tzinfo=None))


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({}, "`SMA_KEY` is not set, and tokens are signed with it"),
        ({"SMA_KEY": ""}, "`SMA_KEY` is not set, and tokens are signed with it"),
        ({"SMA_KEY": KEY[1:]}, "`SMA_KEY` has fewer than 32 characters"),
    ],
)
def test_a_key_that_anybody_could_guess_is_none(environ: dict[str, str], said: str) -> None:
    """The error says how one is made, and shows nothing of what is there."""
    with pytest.raises(SettingsError) as caught:
        key_of(environ, "SMA_KEY")
    assert said in str(caught.value) and KEY[1:] not in str(caught.value)
    assert "secrets.token_hex(32)" in (caught.value.hint or "")
    assert key_of({"SMA_KEY": KEY}, "SMA_KEY") == KEY


@pytest.mark.parametrize("person", ["", "x" * 201])
def test_no_token_is_made_for_nobody(person: str) -> None:
    """Nor for a name that no list of people can hold."""
    with pytest.raises(RefusedError, match="nobody was named"):
        mint(person, KEY, CLOCK.now() + HOUR)
    assert mint("x" * 200, KEY, CLOCK.now() + HOUR)


@pytest.mark.parametrize("nothing", [None, ""])
def test_without_a_token_nobody_is_anybody(nothing: str | None) -> None:
    assert reason(LEAD, "token", CLOCK, token=nothing, key=KEY) == "no_identity"


@pytest.mark.parametrize("key", [None, "", "short", KEY[:-1]])
def test_a_key_that_can_be_guessed_is_no_key(key: str | None) -> None:
    token = mint(LEAD, KEY, CLOCK.now() + HOUR)
    with pytest.raises(SettingsError, match="fewer than 32 characters"):
        shown(token, key=key)
    with pytest.raises(SettingsError):
        mint(LEAD, key or "", CLOCK.now() + HOUR)


def test_another_key_signs_nothing_here() -> None:
    token = mint(LEAD, OTHER, CLOCK.now() + HOUR)
    assert reason(None, "token", CLOCK, token=token, key=KEY) == "token_invalid"


def test_changing_any_character_of_a_token_breaks_it() -> None:
    token = mint(LEAD, KEY, CLOCK.now() + HOUR)
    for place, old in enumerate(token):
        for new in ("A", "a", "0", ".", "\n", "é", ""):
            changed = token[:place] + new + token[place + 1 :]
            if new != old:
                assert reason(None, "token", CLOCK, token=changed, key=KEY) == "token_invalid", changed
    for changed in (
        f"{token} ",
        f" {token}",
        f"{token}\n",
        token.upper(),
        token * 2,
        token[:-1],
        f"{token}0",
        f"{token}.",
    ):
        assert reason(None, "token", CLOCK, token=changed, key=KEY) == "token_invalid", changed


def test_parts_of_two_tokens_make_no_third() -> None:
    mine, theirs = (mint(name, KEY, CLOCK.now() + HOUR) for name in ("cust-3391", LEAD))
    late = mint("cust-3391", KEY, CLOCK.now() + 100 * HOUR)
    parts = [t.split(".") for t in (mine, theirs, late)]
    for name, expiry, signature in ((1, 0, 0), (0, 2, 0), (1, 1, 0), (0, 0, 1), (0, 2, 1)):
        made = ".".join(["sma1", parts[name][1], parts[expiry][2], parts[signature][3]])
        assert reason(None, "token", CLOCK, token=made, key=KEY) == "token_invalid"


@pytest.mark.parametrize(
    "token",
    ["sma1", "sma1...", "....", ".", "sma1.bGVhZA.99999999999.", "sma2.x.1.y", "none", "null", "{}", "a.b.c",
     urlsafe_b64encode(b'{"alg":"none"}').decode() + ".e30.", "x" * 1_000_000, "." * 100_000, "\ud800", "\x00"],
)  # fmt: skip
def test_what_is_no_token_is_refused_and_never_an_exception(token: str) -> None:
    assert reason(None, "token", CLOCK, token=token, key=KEY) == "token_invalid"


@settings(max_examples=200, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(token=st.text(max_size=80) | st.from_regex(r"sma1\.[A-Za-z0-9_-]{0,12}\.-?[0-9]{0,12}\.[0-9a-f]{0,64}"))
def test_nothing_that_somebody_makes_up_is_a_token(token: str) -> None:
    with pytest.raises(SmaError):
        shown(token)


def test_nobody_in_particular_gets_no_token() -> None:
    for person in ("", "x" * 201):
        with pytest.raises(RefusedError):
            mint(person, KEY, CLOCK.now() + HOUR)


# ---------------------------------------------------------------- actors


def test_an_actor_is_what_the_people_file_says_of_the_identity() -> None:
    team = people(**{LEAD: ["support_lead", "auditor"]})
    assert actor_of(team, Identity(LEAD, "token")) == {
        "id": LEAD, "tenant": "default", "roles": ["auditor", "support_lead"], "scopes": [], "established": "token",
    }  # fmt: skip
    with pytest.raises(RefusedError, match=r"nobody is called `Lead@example\.com`") as caught:
        actor_of(team, Identity("Lead@example.com", "os"))
    assert caught.value.reason == "unknown_person" and f"did you mean `{LEAD}`?" in str(caught.value)


def test_the_first_missing_scope_is_named() -> None:
    actor = {"scopes": ["a:read", "b:read"]}
    assert has_scopes(actor, ()) is None
    assert has_scopes(actor, ("a:read", "b:read")) is None
    assert has_scopes(actor, ("b:read", "c:read", "d:read")) == "c:read"
