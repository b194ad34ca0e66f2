"""What somebody who is refused reads: a sentence that says why, and what to do; and what a policy's version stands for."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from unit.policy.making import NOW, STARTER, TEAM, answered, asked, people, who

from statemachine_agent.chart.compile import CompiledMachine, compile_machine
from statemachine_agent.environment import Environment, SimulatedEnvironment
from statemachine_agent.errors import SmaError
from statemachine_agent.policy.action import policy_version
from statemachine_agent.policy.approvals import approve, check_answerable, check_entitled, reject
from statemachine_agent.policy.identity import Identity, establish, mint
from statemachine_agent.records import ApprovalStatus
from support.playing import swap
from support.world import ACT, FIND, LOOK, MACHINE, catalogue

KEY = "0123456789abcdef0123456789abcdef"
MADE_UP, SIGNED = "sma1.x.1.y", ".\udcff"
CLOCK = SimulatedEnvironment()
HOUR = timedelta(hours=1)


class Somebody(Environment):
    def user(self) -> str:
        return "mallory"


def entitled(name: str, *roles: str, said_yes: tuple[str, ...] = (), team: Any = TEAM) -> str:
    return check_entitled(answered(asked(*roles), *said_yes), who(name), team, STARTER)


REFUSALS: dict[str, tuple[Any, str, str]] = {
    "too late": (
        lambda: check_answerable(asked("finance"), NOW + 2 * HOUR),
        "the request expired at 2026-10-28T13:17:43.000000Z: too late",
        "resume the task; it goes its way",
    ),
    "answered": (
        lambda: check_answerable(replace(asked("finance"), status=ApprovalStatus.REJECTED), NOW),
        "the request was answered before: it is rejected",
        "an answer is final",
    ),
    "nobody of that name": (
        lambda: entitled("stranger" + "!" * 100, "finance"),
        f"nobody is called `stranger{'!' * 51}…`",
        "approvers are listed in the people file",
    ),
    "the starter": (
        lambda: entitled(STARTER, "finance", team=people(**{STARTER: ["finance"]})),
        f"`{STARTER}` started the task, and nobody approves for themselves",
        "ask somebody else",
    ),
    "twice": (
        lambda: entitled("both", "finance", "support_lead", said_yes=("both",)),
        "`both` has said yes already; each role is filled by another person",
        "ask somebody else",
    ),
    "another role": (
        lambda: entitled("guest", "finance", "support_lead"),
        "`guest` has none of the roles finance, support_lead",
        "ask somebody who is finance, support_lead",
    ),
    "a role that is filled": (
        lambda: entitled("second", "finance", "support_lead", said_yes=("lead",)),
        "the role that `second` could fill is filled",
        "needed: finance, support_lead",
    ),
    "an earlier yes that no longer counts": (
        lambda: entitled(
            "money", "finance", "support_lead", said_yes=("lead",), team=people(lead=["auditor"], money=["finance"])
        ),
        "somebody who said yes before no longer may: another yes does not help",
        "reject the request, or let it expire",
    ),
    "nobody was named": (
        lambda: establish(None, "asserted", CLOCK),
        "nobody was named",
        "say who with --as or --actor",
    ),
    "somebody else here": (
        lambda: establish("lead", "os", Somebody()),
        "you are `mallory` here, not `lead`",
        (
            'identities are established by the operating system (`identity = "os"` in the settings); '
            'to try approvals alone, on your own computer only, write identity = "asserted"'
        ),
    ),
    "another's token": (
        lambda: establish("lead", "token", CLOCK, token=mint("me", KEY, CLOCK.now() + HOUR), key=KEY),
        "you are `me` here, not `lead`",
        'identities are established by a token (`identity = "token"` in the settings)',
    ),
    "no such way": (
        lambda: establish("lead", "oath", CLOCK),
        "identities cannot be established by `oath`",
        "set `identity` to os, token or asserted",
    ),
    "no token": (
        lambda: establish(None, "token", CLOCK, key=KEY),
        "no token was shown",
        "ask whoever runs this for one",
    ),
    "a made-up token": (
        lambda: establish(None, "token", CLOCK, token=MADE_UP, key=KEY),
        "the token is not valid here",
        "ask for a new one",
    ),
    "an old token": (
        lambda: establish(None, "token", CLOCK, token=mint("me", KEY, CLOCK.now()), key=KEY),
        "the token has expired",
        "ask for a new one",
    ),
    "no key": (
        lambda: mint("me", "short", CLOCK.now()),
        "the key of tokens has fewer than 32 characters",
        "put 32 random bytes, written as text, into the variable that holds it",
    ),
    "a token for nobody": (lambda: mint("", KEY, CLOCK.now()), "nobody was named", "an id has 1 to 200 characters"),
    "a time without a zone": (
        lambda: mint("me", KEY, CLOCK.now().replace(tzinfo=None)),
        "the expiry of a token names no zone",
        "write it with Z, or another offset",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_refusal_says_why_and_what_to_do(case: str) -> None:
    """Word for word: it is all that somebody at a terminal gets."""
    refused, message, hint = REFUSALS[case]
    with pytest.raises(SmaError) as problem:
        refused()
    assert (problem.value.message, problem.value.hint) == (message, hint)


def test_a_token_for_nobody_is_refused_as_such() -> None:
    """A program tells it from a key that is too short."""
    with pytest.raises(SmaError) as problem:
        mint("", KEY, CLOCK.now())
    assert problem.value.reason == "no_identity"


@pytest.mark.parametrize("person", [*("a" * n for n in range(1, 40)), "xxW", "W", "xxxxxW", "WWW"])
def test_a_name_of_any_length_comes_back_from_its_token(person: str) -> None:
    """However the id ends when it is written in base64."""
    token = mint(person, KEY, CLOCK.now() + HOUR)
    assert establish(None, "token", CLOCK, token=token, key=KEY) == Identity(person, "token")


def test_a_key_of_any_bytes_signs() -> None:
    """A variable that holds bytes of no encoding reaches Python as halves of characters: no traceback comes of it."""
    key = "\udcff" * 32
    assert establish(None, "token", CLOCK, token=mint("me", key, CLOCK.now() + HOUR), key=key).id == "me"
    with pytest.raises(SmaError) as problem:
        establish(None, "token", CLOCK, token="sma1.\udcff.9" + SIGNED, key=key)
    assert problem.value.reason == "token_invalid"


# ---------------------------------------------------------------- the version of the rules


def compiled(machine: str = MACHINE, act: str = ACT) -> CompiledMachine:
    return compile_machine(catalogue(machine, LOOK, act, FIND), "tiny")


def version(machine: str = MACHINE, act: str = ACT) -> str:
    made = compiled(machine, act)
    return policy_version(made, made.tools["act"])


@pytest.mark.parametrize(
    ("machine", "act"),
    [
        (swap(MACHINE, ("by: boss, expires", "by: chief, expires")), ACT),
        (swap(MACHINE, ("by: boss, expires", "by: [boss, boss], expires")), ACT),
        (MACHINE, swap(ACT, ("[things:write]", "[things:write, things:more]"))),
        (MACHINE, swap(ACT, ("args.amount > 100", "args.amount > 101"))),
        (MACHINE, swap(ACT, ("by: boss, because: rule 1", "by: chief, because: rule 1"))),
    ],
    ids=["another role in the machine", "two of that role", "another scope", "another limit", "another role in a rule"],
)
def test_other_rules_are_another_version(machine: str, act: str) -> None:
    """An approval binds to the rules that it was given under: whatever of them changes, it covers nothing any more."""
    assert version(machine, act) != version()


@pytest.mark.parametrize(
    ("machine", "act"),
    [
        (swap(MACHINE, ("brief: Look, then act.", "brief: Look first.")), ACT),
        (MACHINE, swap(ACT, ("summary: Do something to a thing.", "summary: Do it."))),
    ],
    ids=["a brief", "a summary"],
)
def test_other_words_are_the_same_version(machine: str, act: str) -> None:
    """What rules nothing does not void an approval."""
    assert version(machine, act) == version()


def test_the_version_of_shipped_rules_never_changes_by_itself() -> None:
    """Stored approvals hold this hash: a release that computes another one would void all of them."""
    assert version() == "6d1198c69b4ac717cc95b956e333b16032e32e9788012c2cd5850a247491bb1c"


def test_each_yes_is_kept_with_the_role_that_it_fills() -> None:
    """The history says who stood for what; a no keeps the yes of the others."""
    half = answered(asked("finance", "support_lead"), "both")
    full = approve(half, who("lead"), TEAM, STARTER, NOW)
    assert [(a["by"], a["role"], a["established"]) for a in full.answers] == [
        ("both", "finance", "os"),
        ("lead", "support_lead", "os"),
    ]
    refused = reject(half, who("lead"), TEAM, STARTER, NOW)
    assert (refused.status, len(refused.answers)) == (ApprovalStatus.REJECTED, 1)
