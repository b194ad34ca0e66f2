"""The schemas that editors use: what loads fits them, and what is wrong in form mostly does not."""

from __future__ import annotations

import json
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml

from statemachine_agent.cli.schema import schema as command
from statemachine_agent.definition import node
from statemachine_agent.definition.catalogue import Catalogue
from statemachine_agent.definition.document import Document
from statemachine_agent.definition.node import Node
from statemachine_agent.definition.schemas import KINDS, model_of, schema, written
from statemachine_agent.definition.source import Source, read, read_text
from statemachine_agent.errors import UsageError
from support.refund import ROOT

SMALL = ROOT / "tests" / "machines" / "small"
INVALID = ROOT / "tests" / "invalid"
TOOLS = [*(ROOT / "tool_manifests").rglob("*.yaml"), *(SMALL / "tools").glob("*.yaml")]
PEOPLE = [ROOT / "people.yaml", SMALL / "people.yaml", INVALID / "context" / "people.yaml"]
FILES: dict[str, list[Path]] = {
    "machine": [*(ROOT / "machines").glob("*.yaml"), *(f for f in SMALL.glob("*.yaml") if f.stem != "people")],
    "tool": [*TOOLS, *(f for f in (INVALID / "context").glob("*.yaml") if f.stem != "people")],
    "people": PEOPLE,
    "script": [*(ROOT / "scripts").glob("*.yaml")],
    "settings": [ROOT / "statemachine-agent.toml"],
}


@cache
def schema_of(kind: str) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(schema(kind))


def data_of(path: Path) -> Any:
    return tomllib.loads(path.read_text()) if path.suffix == ".toml" else read(read_text(path)[0]).data


def complaints(kind: str, data: Any) -> list[str]:
    return [f"{'.'.join(map(str, e.instance_path))}: {e.message}" for e in schema_of(kind).iter_errors(data)]


def form_of(kind: str, data: Any) -> list[str]:
    """What the loader says of a file's form, before it looks at other files."""
    document = Document(Source("f", ""), data)
    node.validate(document, model_of(kind))
    return [f.message for f in document.faults]


# ---------------------------------------------------------------- the files in `schemas/`


@pytest.mark.parametrize("kind", KINDS)
def test_the_files_are_the_generated_ones(kind: str, tmp_path: Path) -> None:
    """`sma schema KIND -o FILE` writes the file that is in the repository."""
    assert command.main([kind, "-o", str(tmp_path / "new" / "x.json")], standalone_mode=False) == 0
    new = (tmp_path / "new" / "x.json").read_text(encoding="utf-8")
    assert (ROOT / "schemas" / f"{kind}.json").read_text(encoding="utf-8") == new, "run `make schemas`"
    assert json.loads(new) == schema(kind)


def test_the_command_shows_a_schema_or_says_what_there_is(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert command.main(["people"], standalone_mode=False) == 0
    assert json.loads(capsys.readouterr().out) == schema("people")
    with pytest.raises(UsageError, match="did you mean `machine`"):
        command.main(["machne"], standalone_mode=False)
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        command.main(["people", "-o", str(tmp_path / "file" / "x.json")], standalone_mode=False)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_a_schema_without_an_address_of_its_own(kind: str) -> None:
    found = schema(kind)
    assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert jsonschema_rs.meta.is_valid(found)
    assert found["title"] and found["description"]
    assert "$id" not in json.dumps(found)
    patterns = [v for o in objects(found) for k, v in o.items() if k == "pattern" and isinstance(v, str)]
    assert not [p for p in patterns if "(?P" in p or not p.startswith("^")], "editors read the dialect of JavaScript"


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_as_closed_as_the_loader(kind: str) -> None:
    """Exactly the keys of each model; each is described, and none twice."""
    parts = {model_of(kind).__name__: schema(kind), **schema(kind).get("$defs", {})}
    for model in models(kind):
        part = parts[model.__name__]
        assert set(part["properties"]) == model.keys()
        assert part["additionalProperties"] is False
        assert sorted(part.get("required", ())) == sorted(model.needed())
        told = [value.get("description") for value in part["properties"].values()]
        assert all(told), model.__name__


def models(kind: str) -> list[type[Node]]:
    """The models of a kind of file: those that its schema names."""
    names = {model_of(kind).__name__, *schema(kind).get("$defs", {})}
    waiting, found = [*Node.__subclasses__()], []
    while waiting:
        model = waiting.pop()
        waiting += model.__subclasses__()
        if model.__name__ in names:
            found.append(model)
    return found


def objects(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(inner)


def test_defaults_are_written_as_an_author_would() -> None:
    parts = schema("machine")["$defs"]
    assert parts["Limits"]["properties"]["active_time"]["default"] == "5m"
    assert parts["Limits"]["properties"]["cost_usd"]["default"] == 1.0
    assert parts["Choice"]["properties"]["rows"]["default"] == "stay"
    assert schema("tool")["$defs"]["Retry"]["properties"]["backoff"]["default"] == "500ms"
    assert schema("tool")["$defs"]["Retry"]["properties"]["errors"]["default"] == ["timeout", "unavailable"]
    for whole in map(schema, KINDS):
        for part in (whole, *whole.get("$defs", {}).values()):
            for key, value in part.get("properties", {}).items():
                if "default" in value:
                    one = jsonschema_rs.Draft202012Validator({"$defs": whole.get("$defs", {}), **value})
                    assert one.is_valid(value["default"]), key
    assert written(()) is None and written(None) is None and written(object()) is None and written(True) is True


# ---------------------------------------------------------------- what loads, fits


@pytest.mark.parametrize(
    ("kind", "path"), [(k, p) for k, ps in FILES.items() for p in ps], ids=lambda v: getattr(v, "stem", v)
)
def test_every_good_file_fits(kind: str, path: Path) -> None:
    assert complaints(kind, data_of(path)) == []


@pytest.mark.parametrize("path", [*ROOT.glob("machines/*.yaml"), *TOOLS], ids=lambda p: p.stem)
def test_the_first_line_names_a_schema_that_is_there(path: Path) -> None:
    named = re.match(r"# yaml-language-server: \$schema=(\S+)", path.read_text())
    if SMALL in path.parents:
        assert named is None
        return
    assert named, path
    wanted = ROOT / "schemas" / f"{'machine' if path.parent.name == 'machines' else 'tool'}.json"
    assert (path.parent / named[1]).resolve() == wanted.resolve()


MACHINE: dict[str, Any] = {
    "machine": "m", "version": 1, "summary": "s", "limits": {"steps": 1}, "success": [], "initial": "A",
    "guards": {"g": "true", "h": ["g"]}, "states": {},
}  # fmt: skip
ANSWERED = {"approved": "A", "rejected": "A", "expired": "A"}
WAIT = {"wait": {"for": "1s"}, "then": {"elapsed": "A"}}


@pytest.mark.parametrize(
    ("state", "fits"),
    [
        ({"choose": ["t", "u"]}, True),
        ({"choose": ["t", "t"]}, False),
        ({"choose": ["t", "finish"]}, False),
        ({"choose": [{"t": "A"}]}, False),
        ({"choose": {}}, False),
        ({"choose": []}, False),
        ({"choose": ["t"], "brief": None}, False),
        ({"choose": {"t": {"rows": None}}}, False),
        ({"choose": {"t": [{"stay": 1}]}}, False),
        ({"route": [{"when": None, "goto": "A"}]}, False),
        ({"choose": {"t": "stay", "u": "A", "v": [{"when": "g", "goto": "A"}, {"refuse": "no"}]}}, True),
        ({"choose": {"t": {}, "u": {"with": {"x": 1}}, "v": {"rows": "stay"}}}, True),
        ({"choose": {"t": {"with": {"x": [1, {"text": "input.x"}]}, "rows": [{"stay": True}]}}}, True),
        ({"choose": {"t": None}}, False),
        ({"choose": {"t": {"goto": "A"}}}, False),
        ({"choose": {"t": []}}, False),
        ({"choose": {"t": "nowhere"}}, False),
        ({"choose": {"finish": "SUCCEEDED", "ask_user": [{"unless": ["g"], "goto": "NEEDS_INPUT"}]}}, True),
        ({"choose": {"finish": {"rows": [{"unless": "g", "refuse": "no"}, {"goto": "SUCCEEDED"}]}}}, True),
        ({"choose": {"finish": "A"}}, False),
        ({"choose": {"cannot_continue": "CANCELLED"}}, True),
        ({"choose": {"request_approval": "A"}}, False),
        ({"choose": ["t"], "then": "A", "brief": "b"}, True),
        ({"choose": ["t"], "then": [{"when": "g", "refuse": "no"}]}, False),
        ({"route": "A"}, True),
        ({"route": "stay"}, False),
        ({"route": [{"when": ["g", "h"], "goto": "A"}, {"goto": "FAILED", "reason": "r"}]}, True),
        ({"route": [{"when": "g", "unless": "h", "goto": "A"}]}, False),
        ({"route": [{"goto": "A", "stay": True}]}, False),
        ({"route": [{"reason": "r"}]}, False),
        ({"route": [{"refuse": "no", "reason": "r"}]}, False),
        ({"route": {"goto": "A"}}, False),
        ({"call": "t", "with": "proposal", "then": {"ok": "A", "failed": "A"}}, True),
        ({"call": "t", "with": "propsal", "then": {"ok": "A", "failed": "A"}}, False),
        ({"call": "t", "then": {"ok": "A", "failed": "A", "blocked": "A"}}, False),
        ({"call": "t", "then": {"ok": [{"goto": "A", "confirms": "t"}], "failed": "A", "blocked": "A", "unknown": "A"}}, True),
        ({"call": "t", "then": "A"}, False),
        ({"reconcile": "t", "then": {"found": "A", "absent": "A", "failed": "A"}}, True),
        ({"reconcile": "t", "then": {"found": "A", "failed": "A"}}, False),
        ({"approval": {"of": "t", "by": "r", "expires": "1h"}, "then": ANSWERED}, True),
        ({"approval": {"of": "t", "by": ["r", "r"], "expires": "1h"}, "then": {"approved": "A", "rejected": "A"}}, False),
        (WAIT, True),
        ({"wait": {"for": "0.5h", "at_most": 2}, "then": {"elapsed": "A", "exhausted": "A"}}, True),
        ({"wait": {"for": "1s", "at_most": 2}, "then": {"elapsed": "A"}}, False),
        ({"wait": {"for": "1s"}, "then": {"elapsed": "A", "exhausted": "A"}}, False),
        ({**WAIT, "wait": {"for": 30}}, False),
        ({**WAIT, "wait": {"for": "0.0s"}}, False),
        ({**WAIT, "wait": {"for": "1 s"}}, False),
        ({**WAIT, "wait": {"for": "1s", "signal": "x"}}, False),
        ({**WAIT, "route": "A"}, False),
        ({"machine": "m@1", "then": {}}, False),
        ({}, False),
    ],
)  # fmt: skip
def test_a_state_is_of_one_kind_and_its_short_forms_count(state: Any, fits: bool) -> None:
    assert (complaints("machine", {**MACHINE, "states": {"A": state}}) == []) is fits


def test_codes_are_numbers_that_stand_as_keys() -> None:
    tool = data_of(ROOT / "tool_manifests" / "refund" / "lookup_order.yaml")
    assert complaints("tool", {**tool, "errors": {"404": "not_found"}}) == []
    for errors in ({"200": "x"}, {"4o4": "x"}, {"404": "Not found"}):
        assert complaints("tool", {**tool, "errors": errors})


HTTP = {"url": "https://a/b", "method": "PUT", "idempotency_header": "Key"}
READ: dict[str, Any] = {
    "tool": "t", "version": 1, "summary": "s", "effect": "read", "source": "here", "binding": {"python": "a:b"}, "returns": {},
}  # fmt: skip
WRITE = {**READ, "effect": "write", "idempotency": {"key": "t:{x}", "replay": True}, "approval": [], "args": {"x": {}}}


@pytest.mark.parametrize(
    ("tool", "fits"),
    [
        (READ, True),
        (WRITE, True),
        ({**READ, "binding": {"http": {"url": "https://a/b", "method": "POST"}}}, True),
        ({**READ, "binding": {"http": {"url": "https://a/b", "method": "PUT"}}}, False),
        ({**READ, "binding": {"http": {"url": "https://a/b", "method": "DELETE"}}}, False),
        ({**WRITE, "binding": {"http": HTTP}, "errors": {"404": "gone", "410": "gone", "499": "odd"}}, True),
        *(({**WRITE, "errors": {status: "x"}}, False) for status in ("408", "425", "429", "500", "503", "599")),
        ({**READ, "errors": {"503": "x", "429": "y"}}, True),
        ({**READ, "errors": {"404": "unavailable"}}, False),
        ({**READ, "args": {"call": {}}}, False),
        ({**READ, "args": {"call": {}}, "binding": {"http": {"url": "https://a/b"}}}, True),
        ({**READ, "version": 2**31 - 1}, True),
        ({**READ, "version": 2**31}, False),
        ({**WRITE, "approval": [{"when": None, "by": "r", "because": "b"}]}, False),
        ({**WRITE, "precondition": None}, False),
    ],
)
def test_a_tool_promises_what_can_be_kept_for_the_loader_and_the_schema(tool: Any, fits: bool) -> None:
    assert (complaints("tool", tool) == []) is fits
    text = Source("t.yaml", yaml.safe_dump(tool))
    assert (Catalogue.build([], [text]).report.errors == []) is fits


@pytest.mark.parametrize("cost", ["0.5", True, None, -1, float("inf")])
def test_a_price_is_a_number(cost: object) -> None:
    script = {"script": "s", "steps": [{"say": "x", "cost_usd": cost}]}
    assert form_of("script", script) != []
    assert cost == float("inf") or complaints("script", script) != []  # JSON has no infinity


# ---------------------------------------------------------------- what is wrong in form

#: faults of a file's form that no schema sees, and why
UNSEEN = {
    "command_shell": "which programs are shells",
    "input_pattern": "whether a text is a regular expression",
    "key_runs_together": "what stands between two placeholders, and whether it parts them",
    "model_behind_itself": "whether two names are the same",
    "url_host": "which part of an address a placeholder stands in",
    "url_query": "which part of an address a placeholder stands in",
    "url_query_value": "how much of a part a placeholder fills",
    "url_segment": "how much of a part a placeholder fills",
    "url_variable_in_query": "which part of an address a variable stands in",
    "url_variable_later": "the order of variables and arguments",
    "url_variable_name": "what a variable is called",
}


def test_what_is_wrong_in_form_is_refused_by_the_schema_too() -> None:
    """Of each wrong file: whether its form is at fault, and whether the schema sees it. Texts that are no YAML are left out."""
    unseen, seen, beyond = set(), Counter[str](), Counter[str]()
    for kind in ("machine", "tool", "people"):
        for path in sorted((INVALID / kind).glob("*.yaml")):
            source, faults = read_text(path)
            document = read(source)
            if faults or document.faults:
                continue
            refused = bool(complaints(kind, document.data))
            if not form_of(kind, document.data):
                beyond[kind] += refused  # a rule across keys that the loader finds later
            elif refused:
                seen[kind] += 1
            else:
                unseen.add(path.stem)
    assert unseen == UNSEEN.keys()
    assert seen["machine"] > 50 and seen["tool"] > 20 and seen["people"] == 4
    assert beyond["machine"] > 10 and beyond["tool"] > 10


# ---------------------------------------------------------------- whatever is done to a good file

COUNT = 1500
POOL: list[Any] = [
    None, True, False, 0, 7, -1, 1.5, 2.0, 10**30, "", "x", "X", "stay", "proposal", "2h", "0s", "0.5s", "30", "input.order_id",
    "FAILED", "SUCCEEDED", "A b", "{a}", "422", "a:b", "read", "write", "irreversible", "string", "integer", "GET", "[", "finish",
    [], {}, ["a"], ["a", "a"], [{}], {"a": 1}, {"x": "SUCCEEDED"}, {"text": "a"}, [{"goto": "FAILED"}], [{"stay": True}],
    {"type": "string"},
]  # fmt: skip


def test_no_edit_of_a_good_file_gives_a_false_alarm_and_few_slip_through(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311  repeatable on purpose
    good = {kind: [data_of(path) for path in paths] for kind, paths in FILES.items()}
    keys = {kind: sorted({k for o in objects(schema(kind)) for k in o.get("properties", {})}) for kind in KINDS}
    found: Counter[str] = Counter()
    slipped = []
    for _ in range(COUNT):
        kind = chance.choice(["machine", "machine", "tool", "tool", "people", "script", "settings"])
        data = edited(chance, chance.choice(good[kind]), keys[kind])
        wrong, told = form_of(kind, data), complaints(kind, data)
        found["loads" if not wrong else "refused"] += 1
        if told and not wrong:
            assert not loads(kind, data), f"{kind}: {told[0]}\n{yaml.safe_dump(data)}"
        elif wrong and not told:
            slipped.append(f"{kind}: {wrong[0]}")
    assert found["loads"] > COUNT // 10 and found["refused"] > COUNT // 10
    assert len(slipped) <= found["refused"] // 50, slipped


def walk(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    yield path, value
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from walk(inner, (*path, key))


def at(data: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        data = data[step]
    return data


def edited(chance: random.Random, data: Any, keys: list[str]) -> Any:
    """One or two things lost, exchanged, renamed, added, wrapped or moved."""
    data = deepcopy(data)
    for _ in range(chance.choice([1, 1, 1, 2])):
        paths = [path for path, _ in walk(data) if path]
        if not paths:
            return data
        path = chance.choice(paths)
        parent, key = at(data, path[:-1]), path[-1]
        other = deepcopy(at(data, chance.choice(paths)))
        word = chance.choice([*keys, "x", "X", "colour"])
        match chance.choice(["drop", "value", "value", "rename", "add", "swap", "wrap"]):
            case "drop":
                del parent[key]
            case "value":
                parent[key] = deepcopy(chance.choice(POOL))
            case "rename" if isinstance(parent, dict):
                parent[word] = parent.pop(key)
            case "add" if isinstance(parent, dict):
                parent[word] = chance.choice([other, deepcopy(chance.choice(POOL))])
            case "add":
                parent.append(other)
            case "wrap":
                parent[key] = chance.choice([[parent[key]], {"x": parent[key]}])
            case _:
                parent[key] = other
    return data


def loads(kind: str, data: Any) -> bool:
    """Whether a file whose form is right loads among the good ones."""
    if kind not in ("machine", "tool"):
        return True
    name = data.get(kind)
    tools = [read_text(p)[0] for p in TOOLS if kind == "machine" or data_of(p)["tool"] != name]
    people = {k: v for p in PEOPLE for k, v in data_of(p)["people"].items()}
    source = Source("edited", yaml.safe_dump(data, sort_keys=False))
    catalogue = Catalogue.build(
        [source] if kind == "machine" else [],
        [*tools, source] if kind == "tool" else tools,
        Source("people", yaml.safe_dump({"people": people})),
    )
    return not any(f.file == "edited" for f in catalogue.report.errors)
