"""A text from outside, shown: on a terminal, as JSON, in pictures. It moves no cursor, turns nothing around, makes no line."""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from statemachine_agent.cli import output
from support.cli import Here, Result

#: what a terminal, HTML, DOT, Mermaid or JSON gives a meaning to; behind each line break a line that looks like ours
HOSTILE = (
    'Q" <script>alert(1)</script> <img src=x onerror=y> click s href "javascript:alert(1)" %%{init: {"x": 1}}%% --> {a|b} \\N '
    "\x1b[2J\x1b]0;title\x07 \x9b31m \u202eesrever\u202c \u2066x\u2069 a\u200bb \x7f \U000e0041 \u2028FORGED \r\n"
    "FORGED   approved by bob\nFORGED version 9: SUCCEEDED"
)

MACHINE = """
machine: m
version: 1
summary: Look, ask, act.
input: {thing: {type: string, untrusted: true}}
limits: {steps: 9, active_time: 60s, tokens: 99000, tool_calls: 10, cost_usd: 1.00}
signals: {reply: {text: {type: string}}}
success: []
initial: LOOKING
states:
  LOOKING:
    brief: Look, ask, act.
    choose:
      look: stay
      act: PROPOSED
      ask_user: LISTENING
      finish: SUCCEEDED
  LISTENING:
    wait: {signal: reply, expires: 1d}
    then: {received: LOOKING, expired: FAILED}
  PROPOSED: {route: [{when: approval_required, goto: ASKING}, {goto: DENIED, reason: policy}]}
  ASKING:
    approval: {of: act, by: boss, expires: 1h}
    then: {approved: ACTING, rejected: LOOKING, expired: FAILED}
  ACTING: {call: act, with: proposal, then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED, unknown: LOOKED_UP}}
  LOOKED_UP: {reconcile: act, then: {found: SUCCEEDED, absent: ACTING, failed: FAILED}}
"""
TOOL = """
tool: {name}
version: 1
summary: Does it.
effect: {effect}
source: things
binding: {{python: "shown_tools:{name}"}}
args: {{thing: {{type: string}}}}
returns: {{note: {{type: string, untrusted: true}}}}
"""
WRITES = """
idempotency: {key: "act:{thing}", replay: true}
approval: [{by: boss, because: a rule}]
at_most: 2
"""
CODE = f"""
said = {HOSTILE!r}
def look(thing):
    if thing == "bad":
        raise ValueError(said)
    return {{"note": said}}
def act(thing):
    return {{"note": said}}
"""
STEPS: list[dict[str, Any]] = [
    {"call": "look", "with": {"thing": HOSTILE}},
    {"call": "look", "with": {"thing": "bad"}},
    {"call": HOSTILE, "with": {HOSTILE: HOSTILE}},
    {"say": HOSTILE},
    {"call": "ask_user", "with": {"question": HOSTILE}},
    {"call": "act", "with": {"thing": HOSTILE}},
    {"call": "finish", "with": {"answer": HOSTILE}},
]


class Own(Here):
    """`sma` in a project of its own, whose output is kept."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.said: list[tuple[str, Result]] = []

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, "SMA_SETTINGS": str(self.folder / "statemachine-agent.toml")}

    def __call__(self, *arguments: str, **how: Any) -> Result:
        found = super().__call__(*arguments, **how)
        self.said.append((" ".join(arguments[:1]) + (" --json" if "--json" in arguments else ""), found))
        return found


@pytest.fixture
def sma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Own]:
    for name, text in {
        "machines/m.yaml": MACHINE,
        "tool_manifests/look.yaml": TOOL.format(name="look", effect="read"),
        "tool_manifests/act.yaml": TOOL.format(name="act", effect="write") + WRITES,
        "shown_tools.py": CODE,
        "people.yaml": "people: {ann: {}, bob: {roles: [boss]}}\n",
        "script.yaml": yaml.safe_dump({"script": "s", "steps": STEPS}),
        "statemachine-agent.toml": 'identity = "asserted"\npython_packages = ["shown_tools"]\nmodel = "scripted:script.yaml"\n',
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield Own(tmp_path)
    sys.modules.pop("shown_tools", None)


def hidden(text: str) -> set[str]:
    """What is not seen, or changes how others are seen, but for the line breaks that we make."""
    return {c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")} - {"\n"}


def through_it_all(sma: Own) -> str:
    """Every command that shows a task, on one whose every text is hostile; the task's id."""
    sma("run", "m", "-i", f"thing={HOSTILE}", "--actor", "ann")
    task = sma("tasks", "--json").json[0]["id"]
    sma("show", task)
    sma("signal", task, "reply", json.dumps({"text": HOSTILE}), "--as", "ann")
    sma("resume", task)
    (waiting,) = sma("approvals", "--json").json
    sma("approvals")
    sma("reject", waiting["approval"]["id"], "--as", "bob", "--why", HOSTILE)
    sma("resume", task)
    for command in (("show", task), ("trace", task), ("tasks",), ("effects",), ("approvals", "--all")):
        sma(*command)
        sma(*command, "--json")
    for bad in (
        ("show", HOSTILE),
        ("run", HOSTILE),
        ("signal", task, HOSTILE, "{}"),
        ("approve", HOSTILE, "--as", HOSTILE),
    ):
        sma(*bad)
    return str(task)


def test_no_command_lets_a_text_do_anything_to_a_terminal(sma: Own) -> None:
    """Nothing unseen is written, and no text begins a line of its own; JSON says the same to a program."""
    task = through_it_all(sma)
    for command, result in sma.said:
        assert not hidden(result.out + result.err), (command, hidden(result.out + result.err))
        lines = (result.out + result.err).splitlines()
        assert not [line for line in lines if line.strip().startswith("FORGED")], command
    shown = json.loads(next(r.out for c, r in reversed(sma.said) if c == "show --json"))
    assert shown["checkpoint"]["task"]["input"]["thing"] == HOSTILE
    assert HOSTILE in [e["payload"].get("note") for e in shown["checkpoint"]["evidence"]]
    assert [e["status"] for e in shown["checkpoint"]["effects"]] != ["executed"], task


def test_a_talk_shows_what_is_asked_in_one_line(sma: Own, monkeypatch: pytest.MonkeyPatch) -> None:
    sma("run", "m", "-i", "thing=box", "--actor", "ann")
    task = sma("tasks", "--json").json[0]["id"]
    monkeypatch.setattr("sys.stdin", io.StringIO(HOSTILE.replace("\n", " ") + "\n"))
    talked = sma("talk", task, "--as", "ann")
    assert "agent    Q" in talked.out
    assert not hidden(talked.out + talked.err)
    assert not [line for line in talked.out.splitlines() if line.strip().startswith("FORGED")]


@pytest.mark.parametrize("form", ["svg", "dot", "mmd", "md"])
def test_a_picture_of_the_task_holds_nothing_of_its_texts(sma: Own, form: str) -> None:
    """Where it is and the way it went, in the machine's own words."""
    sma("run", "m", "-i", f"thing={HOSTILE}", "--actor", "ann")
    task = sma("tasks", "--json").json[0]["id"]
    assert sma("diagram", "m", "--task", task, "-o", f"picture.{form}").code == 0
    text = (sma.folder / f"picture.{form}").read_text()
    assert not hidden(text) - {"\t"}
    for word in ("script", "javascript", "onerror", "FORGED", "%%{", "click "):
        assert word not in text
    if form == "svg":
        tags = {one.tag.partition("}")[2] for one in ET.parse(io.StringIO(text)).iter()}  # noqa: S314  our own
        assert not tags & {"script", "a", "image", "foreignObject", "style"}


def test_json_on_a_terminal_says_the_same_and_shows_what_is_not_seen(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the terminal can show any letter, letters stay; what would move its cursor is written as JSON escapes it."""
    monkeypatch.setattr(output, "_is_utf8", lambda: True)
    given = {HOSTILE: [HOSTILE, "₹2000 ü"]}
    output.show_json(given)
    output.show_json_line(given)
    whole, line = (out := capsys.readouterr().out).rstrip("\n").rsplit("\n", 1)
    assert not hidden(out) and out.count("₹2000 ü") == 2
    assert json.loads(whole) == json.loads(line) == given
