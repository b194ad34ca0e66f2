"""Machines to draw: the shipped one, one whose every text is hostile, one that is large, and some that hold states in states."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from nested.test_regions import HEAD, NESTED, TOOLS, TWO

from statemachine_agent import Catalogue
from statemachine_agent.chart.compile import CompiledMachine, checked_catalogue, compile_machine
from statemachine_agent.definition.source import Source
from support.refund import catalogue
from support.world import LOOK

ROOT = Path(__file__).resolve().parents[3]
#: the machines that are shipped, by the names of their files
SHIPPED = sorted(path.stem for path in (ROOT / "machines").glob("*.yaml"))

BIDI = "\N{RIGHT-TO-LEFT OVERRIDE}"
#: everything that means something to DOT, HTML, SVG, Mermaid, Markdown or a terminal
HOSTILE = (
    'quote " less < more > and & pipe | brace {x} bracket [y](z) colon: semi; hash # %%{init} back\\slash \\N \\n `tick` '
    "*star* _under_ $$x$$ ~~s~~ ![i](u) <b>bold</b> <!-- c --> --> <br/> ]]> &amp; #quot; https://example.com "
    'click s_NOTE href "javascript:x()" <script>y</script> '
    f"new\nline bell\x07 emoji 😀 bidi {BIDI} end note"
)

READ = """
tool: look
version: 1
summary: Look.
effect: read
source: svc
binding: {python: "nowhere:look"}
args: {text: {type: string}}
returns: {y: {type: integer}}
"""
WRITE = f"""
tool: change
version: 1
summary: {json.dumps(HOSTILE, ensure_ascii=False)}
effect: write
source: svc
binding: {{python: "nowhere:change"}}
args: {{text: {{type: string}}}}
returns: {{y: {{type: integer}}}}
idempotency: {{key: "change:{{text}}", replay: true}}
approval:
  - {{by: [boss, boss, auditor], because: {json.dumps(HOSTILE, ensure_ascii=False)}}}
at_most: 1
"""

_HOSTILE_MACHINE = """
machine: edge
version: 1
summary: HOSTILE
input: {text: {type: string}}
limits: {steps: 3}
guards:
  short: input.text == HOSTILE
  asked_well: call.args.text != HOSTILE
success: [short]
initial: NOTE
states:
  NOTE:
    brief: HOSTILE
    choose:
      look: {with: {text: {text: HOSTILE}}, rows: [{when: short, refuse: HOSTILE}, {unless: short, goto: CLASS}, {stay: true}]}
      change: [{unless: asked_well, refuse: HOSTILE}, {when: short, goto: STATE}]
      finish: SUCCEEDED
      ask_user: NEEDS_INPUT
    then: [{when: short, goto: NOTE}]
  CLASS:
    wait: {for: 90s, at_most: 2}
    then: {elapsed: NOTE, exhausted: FAILED}
  STATE:
    route:
      - {when: approval_required, goto: GRAPH}
      - {when: approval_not_required, goto: END}
      - {goto: DENIED, reason: policy}
  GRAPH:
    approval: {of: change, by: boss, expires: 90m}
    then: {approved: END, rejected: DENIED, expired: DENIED}
  END:
    call: change
    with: proposal
    then: {ok: SUCCEEDED, failed: FAILED, blocked: NOTE, unknown: SUBGRAPH}
  SUBGRAPH:
    reconcile: change
    then: {found: SUCCEEDED, absent: END, failed: FAILED}
"""


def built(machine: str, *tools: str) -> CompiledMachine:
    """A machine from its text; faults fail the test."""
    sources = [Source(f"tool{number}.yaml", text) for number, text in enumerate(tools)]
    catalogue = checked_catalogue(Catalogue.build([Source("machine.yaml", machine)], sources))
    assert not catalogue.report.errors, str(catalogue.report)
    return compile_machine(catalogue, next(iter(catalogue.machines)))


@cache
def shipped(name: str) -> CompiledMachine:
    return compile_machine(catalogue(), name)


def refund() -> CompiledMachine:
    return shipped("refund")


@cache
def hostile() -> CompiledMachine:
    """All kinds of states, all kinds of rows, states called like words of DOT and Mermaid."""
    said = json.dumps(HOSTILE, ensure_ascii=False)
    lines = []
    for line in _HOSTILE_MACHINE.splitlines():
        key, _, guard = line.partition(": ")
        quoted = key.strip() in ("short", "asked_well")  # CEL inside YAML
        text = json.dumps(guard.replace("HOSTILE", said), ensure_ascii=False)
        lines.append(f"{key}: {text}" if quoted else line.replace("HOSTILE", said))
    return built("\n".join(lines), READ, WRITE)


@cache
def large(states: int = 60) -> CompiledMachine:
    """Five written transitions in each state, most of them to somewhere else."""
    lines = ["machine: large", "version: 1", "summary: Large.", "input: {text: {type: string}}", "limits: {steps: 9}"]
    lines += [
        "at_most: {look: 99}",
        "guards:",
        *(f'  g{k}: input.text == "{k}"' for k in range(3)),
        "success: []",
        "initial: S0",
        "states:",
    ]
    for number in range(states):
        following = f"S{number + 1}" if number + 1 < states else "SUCCEEDED"
        lines += [f"  S{number}:", "    call: look", "    with: {text: input.text}", "    then:", "      ok:"]
        lines += [f"        - {{when: g{k}, goto: S{(number + 7 * k + 3) % states}}}" for k in range(3)]
        lines += [f"        - {{goto: {following}}}", "      failed: FAILED"]
    return built("\n".join(lines), READ)


#: three regions, in one of them a state of states; all of it in another, beside a state of its own
_THREE = (
    HEAD
    + """
guards: {looked: has(evidence.look), told: has(evidence.ask_about), sure: has(evidence.look)}
signals: {go: {}}
success: [looked]
initial: PLANNING
states:
  PLANNING: {route: [{unless: looked, goto: CASE}, {goto: SUCCEEDED}]}
  CASE:
    initial: ALL
    states:
      ALL:
        parallel: true
        states:
          ONE:
            initial: LOOKING
            states:
              LOOKING: {choose: {look: stay}, then: [{when: looked, goto: DEEP}]}
              DEEP:
                initial: WEIGHING
                states:
                  WEIGHING: {route: [{when: sure, goto: done}, {goto: PAUSING}]}
                  PAUSING: {wait: {for: 5m, at_most: 3}, then: {elapsed: WEIGHING, exhausted: done}}
                then:
                  done: [{when: sure, goto: done}, {goto: LOOKING}]
          TWO:
            initial: ASKING
            states:
              ASKING: {choose: {ask_about: stay}, then: [{when: told, goto: done}]}
          THREE:
            initial: OPENING
            states:
              OPENING:
                wait: {until: 'now + duration("2h")', at_most: 3}
                then: {elapsed: LISTENING, exhausted: done}
              LISTENING: {wait: {signal: go, expires: 2h}, then: {received: done, expired: done}}
        then: {done: [{when: told, goto: SUMMING}, {goto: DENIED}]}
      SUMMING: {route: done}
    then:
      done: [{when: [looked, told], goto: SUCCEEDED}, {goto: DENIED, reason: not_done}]
"""
)


@cache
def two() -> CompiledMachine:
    return built(TWO, *TOOLS)


@cache
def nested() -> CompiledMachine:
    return built(NESTED, LOOK)


@cache
def three() -> CompiledMachine:
    return built(_THREE, *TOOLS)


NESTING = {"two": two, "nested": nested, "three": three}
MACHINES = {"refund": refund, "hostile": hostile, "large": large, **NESTING}
