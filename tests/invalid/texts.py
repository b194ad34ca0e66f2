"""A machine that uses its tools in every way, and ways to break a manifest."""

from __future__ import annotations

from collections.abc import Callable

MACHINE = """\
machine: m
version: 1
summary: Offers, pins, calls, asks, reconciles, and reads evidence of everything.
input: {id: {type: string}}
limits: {steps: 5}
guards:
  seen: evidence.look.ok && asked.look.id == input.id && results.look.size() > 0
  fits: call.args.id == input.id && call.args.n > 1
  made: evidence.make.made_id != "" && evidence.find.found.size() == 1
  many: proposal.args.n > 3
  told: effects.exists(e, e.tool == "make" && e.status == "executed")
success: [told]
at_most: {make: 2}
initial: A
states:
  A:
    choose:
      look: {with: {id: input.id}, rows: [{when: seen, goto: A}, {stay: true}]}
      make: {with: {id: evidence.look.id}, rows: [{unless: fits, refuse: not so many}, {goto: B}]}
      finish: SUCCEEDED
  B: {route: [{when: approval_required, goto: C}, {when: many, goto: C}, {goto: D}]}
  C: {approval: {of: make, by: boss, expires: 1h}, then: {approved: D, rejected: DENIED, expired: FAILED}}
  D:
    call: make
    with: proposal
    then: {ok: [{when: made, confirms: make, goto: F}, {goto: F}], failed: FAILED, blocked: FAILED, unknown: E}
  E: {reconcile: make, then: {found: F, absent: D, failed: FAILED}}
  F: {call: look, with: {id: effects.make.key}, then: {ok: A, failed: FAILED}}
"""

_HEAD = 'version: 1\nsummary: A tool.\nsource: here\nbinding: {python: "a:b"}\n'

TOOLS = {
    "look": f"tool: look\n{_HEAD}effect: read\nargs: {{id: {{type: string}}}}\n"
    "returns: {ok: {type: boolean}, id: {type: string}}\n",
    "find": f"tool: find\n{_HEAD}effect: read\nargs: {{key: {{type: string}}}}\n"
    "returns: {found: {type: array, items: {type: object, properties: {made_id: {type: string}}}}}\n",
    "make": f"tool: make\n{_HEAD}effect: write\nargs: {{id: {{type: string}}, n: {{type: integer}}}}\n"
    "returns: {made_id: {type: string}}\n"
    'idempotency: {key: "make:{id}", reconcile: {tool: find, with: {key: effect.key},'
    ' found: result.found.size() == 1, absent: result.found.size() == 0, result: "result.found[0]"}}\n'
    "precondition: {tool: look, with: {id: args.id}, holds: result.ok, reason: gone}\n"
    "approval: [{when: args.n > 10, by: boss, because: rules}]\n",
}  # fmt: skip

PEOPLE = "people:\n  ann: {roles: [boss]}\n"

BROKEN_TOOLS: dict[str, Callable[[str], str]] = {
    "unknown key": lambda text: text + "colour: blue\n",
    "duplicate key": lambda text: text + "version: 2\n",
    "not YAML": lambda text: text + "tail: [\n",
    "anchor": lambda text: text.replace("source: here", "source: &here here"),
    "alias": lambda text: text.replace("source: here", "source: *here"),
    "no returns": lambda text: text.replace("returns:", "retuns:"),
    "one field": lambda text: text.replace("returns: {", "returns: {bad-name: {type: string}, "),
    "field type": lambda text: text.replace("type: string", "type: strin"),
    "no args": lambda text: text.replace("args:", "arguments:"),
    "effect": lambda text: text.replace("effect: ", "effect: un"),
    "binding": lambda text: text.replace("a:b", "a-b"),
    "version": lambda text: text.replace("version: 1", "version: one"),
    "name": lambda text: text.replace("tool: ", "tool: The "),
    "empty": lambda _text: "",
}
