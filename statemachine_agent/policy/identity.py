"""Identities: who somebody is, and how that was established. `--as` and `--actor` only say who one claims to be.

A token is `sma1.<id>.<expiry>.<signature>`: the id in URL-safe base64, the expiry in seconds since 1970, and the
HMAC-SHA256 over what stands before it. Whoever has the key can be anybody. Only starting a task and answering need it: a
worker that resumes does not, and one that runs Python tools, which can read its environment, must not have it. It must not
know what the person wants.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from statemachine_agent.definition.people import People
from statemachine_agent.environment import Environment
from statemachine_agent.errors import RefusedError, SettingsError, UsageError
from statemachine_agent.text import did_you_mean, one_line

_VERSION = "sma1"
_LONGEST_ID = 200
_LONGEST_TOKEN = 2000
#: characters of a key, at least
SHORTEST_KEY = 32
_MAKES_A_KEY = "python3 -c 'import secrets; print(secrets.token_hex(32))'"
#: what a person does who is alone, where nobody approves for themselves
_ALONE = '; to try approvals alone, on your own computer only, write identity = "asserted"'


@dataclass(frozen=True)
class Identity:
    """A person, and how it was established that it is they: `os`, `token`, `application`, or only `asserted`."""

    id: str
    established: str


def establish(
    claim: str | None, how: str, environment: Environment, *, token: str | None = None, key: str | None = None
) -> Identity:
    """The identity behind `claim` under the setting `how`; RefusedError where it is not who was claimed.

    `token` and `key` are for `how = "token"`: what the person shows, and what it must be signed with.
    """
    match how:
        case "asserted":
            if not claim:
                raise UsageError("nobody was named", hint="say who with --as or --actor", reason="no_identity")
            return Identity(claim, "asserted")
        case "os":
            return _same(claim, Identity(environment.user(), "os"), "by the operating system", _ALONE)
        case "token":
            return _same(claim, Identity(_holder(token, key, environment.now()), "token"), "by a token")
    raise RefusedError(f"identities cannot be established by `{how}`", hint="set `identity` to os, token or asserted")


def _same(claim: str | None, identity: Identity, how: str, advice: str = "") -> Identity:
    if claim not in (None, identity.id):
        told = f'identities are established {how} (`identity = "{identity.established}"` in the settings)'
        raise RefusedError(
            f"you are `{one_line(identity.id, 60)}` here, not `{one_line(claim or '', 60)}`",
            hint=f"{told}{advice}",
            reason="wrong_identity",
        )
    return identity


# ---------------------------------------------------------------- tokens


def key_of(environ: Mapping[str, str], name: str) -> str:
    """The key that tokens are signed with, from the variable `name`; SettingsError where it is not there or too short."""
    key = environ.get(name, "")
    if len(key) < SHORTEST_KEY:
        what = f"has fewer than {SHORTEST_KEY} characters" if key else "is not set, and tokens are signed with it"
        raise SettingsError(
            f"`{name}` {what}", hint=f'export {name}="$({_MAKES_A_KEY})" makes one; keep it, and keep it secret'
        )
    return key


def mint(person: str, key: str, expires: datetime) -> str:
    """A token that shows `person` until `expires`; SettingsError where the key is too short to sign with."""
    if not 0 < len(person) <= _LONGEST_ID:
        raise RefusedError("nobody was named", hint=f"an id has 1 to {_LONGEST_ID} characters", reason="no_identity")
    if expires.tzinfo is None:
        raise UsageError("the expiry of a token names no zone", hint="write it with Z, or another offset")
    name = urlsafe_b64encode(person.encode()).decode().rstrip("=")
    text = f"{_VERSION}.{name}.{int(expires.timestamp())}"
    return f"{text}.{_signature(text, key)}"


def _holder(token: str | None, key: str | None, now: datetime) -> str:
    """Who shows this token; RefusedError for one that was not signed with `key`, or whose time is over."""
    if not token:
        raise RefusedError("no token was shown", hint="ask whoever runs this for one", reason="no_identity")
    text, _, signature = token[:_LONGEST_TOKEN].rpartition(".")
    right = _signature(text, key or "")
    # In constant time: how long it takes must not tell how much of a guess was right.
    if not hmac.compare_digest(signature.encode(errors="replace"), right.encode()):
        raise _invalid()
    version, name, expiry = text.split(".")  # signed by us, so it has this form
    if version != _VERSION:
        raise _invalid()
    if now.timestamp() >= int(expiry):
        raise RefusedError("the token has expired", hint="ask for a new one", reason="token_expired")
    return urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()


def _signature(text: str, key: str) -> str:
    if len(key) < SHORTEST_KEY:
        raise SettingsError(
            f"the key of tokens has fewer than {SHORTEST_KEY} characters",
            hint="put 32 random bytes, written as text, into the variable that holds it",
        )
    return hmac.digest(key.encode(errors="replace"), text.encode(errors="replace"), "sha256").hex()


def _invalid() -> RefusedError:
    return RefusedError("the token is not valid here", hint="ask for a new one", reason="token_invalid")


# ---------------------------------------------------------------- what an identity may do


def actor_of(people: People, identity: Identity) -> dict[str, Any]:
    """The actor that a task keeps; RefusedError for somebody unknown."""
    person = people.people.get(identity.id)
    if person is None:
        raise RefusedError(
            f"nobody is called `{one_line(identity.id, 60)}`",
            hint=f"people are listed in the people file; {did_you_mean(identity.id, people.people)}",
            reason="unknown_person",
        )
    return {
        "id": identity.id,
        "tenant": person.tenant,
        "roles": sorted(person.roles),
        "scopes": sorted(person.scopes),
        "established": identity.established,
    }


def has_scopes(actor: Mapping[str, Any], scopes: tuple[str, ...]) -> str | None:
    """The first scope that the actor lacks, or None."""
    return next((scope for scope in scopes if scope not in actor["scopes"]), None)
