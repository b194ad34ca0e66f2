"""The shipped machines and their manifests use every key of the language between them, so that a reader finds each in a place."""

from __future__ import annotations

import re

import pytest
import yaml

from statemachine_agent.definition import machine, manifest
from statemachine_agent.definition.names import CONTROLS, ROOTS
from statemachine_agent.definition.node import Node
from statemachine_agent.definition.states import VERBS, Inlined
from support.refund import MACHINES, TOOLS

#: keys that no shipped file needs: what tools besides HTTP are bound to, names of a project's own models, the finer points of
#: values and of promises
ELSEWHERE = {
    "python", "command", "mcp", "server", "schema_hash", "key_argument", "headers", "oauth2",
    "model", "use", "fallback", "trusted", "minItems", "optional", "never", "or_ends", "replay", "window", "max_bytes", "input",
}  # fmt: skip
TEXTS = [path.read_text(encoding="utf-8") for path in (*MACHINES.glob("*.yaml"), *TOOLS.rglob("*.yaml"))]


def keys(value: object) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*map(keys, value.values()))
    return set().union(*map(keys, value)) if isinstance(value, list) else set()


def models(base: type[Node] = Node) -> list[type[Node]]:
    below = [one for kind in base.__subclasses__() for one in (kind, *models(kind))]
    mine = {vars(module)[name] for module in (machine, manifest) for name in vars(module) if name[0].isupper()}
    return [one for one in below if one in mine or one.__module__.rpartition(".")[2] in ("states", "rows", "redaction")]


USED = set().union(*(keys(yaml.safe_load(text)) for text in TEXTS))


@pytest.mark.parametrize("model", [m for m in dict.fromkeys(models()) if m is not Inlined], ids=lambda m: m.__name__)
def test_every_key_is_used_somewhere(model: type[Node]) -> None:
    assert model.keys() - USED - ELSEWHERE == set()


@pytest.mark.parametrize("word", [*VERBS, *(c for c in CONTROLS if c != "request_approval")])
def test_every_verb_and_every_control_choice(word: str) -> None:
    assert word in USED


@pytest.mark.parametrize("root", [r for r in ROOTS if r not in ("approval", "usage", "now")])
def test_every_root_but_those_that_count_and_tell_the_time(root: str) -> None:
    assert any(re.search(rf"\b{root}\.\w|\b{root}\.exists|\b{root}\.all", text) for text in TEXTS)
