"""Whole histories as a text file: every row of some tasks, and what is known at the end of each.

A history is what a person reads when something went wrong, and what an auditor reads long after. After it was changed on purpose:
`PYTHONPATH=tests python tests/unit/loop/test_loop_history.py` writes `histories.txt` anew, and the difference is read like code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from statemachine_agent import ScriptedModel, SimulatedEnvironment
from statemachine_agent.canonical import digest
from statemachine_agent.models.port import Prompt, Reply
from statemachine_agent.records import Checkpoint
from statemachine_agent.tools.outcome import LostError, NotSentError, RefusedByServiceError
from support.peeks import PEEKS, TEXTS, after, batch, call
from support.playing import play, swap, to_its_end
from support.world import ACT, BAD, BOB, CEO, DONE, FIND, GOOD, LOOK, LOOK_STEP, MACHINE, NONE, ONE, World, act_step

FILE = Path(__file__).parent / "histories.txt"
#: what stands there as the hash of something else, and the store's own numbers
LEFT_OUT = {"table", "version", "row", "chain", "head", "token", "prompt_hash", "payload_hash"}
LOST = LostError("the line went dead", reason="timeout")
GONE = NotSentError("no route", reason="unavailable")
CLOSED = RefusedByServiceError("we have closed", reason="closed")
PRICED = {"tokens": {"input": 30, "output": 20}, "cost_usd": 0.01}
GIVE_UP = {"call": "cannot_continue", "with": {"reason": "there is\n nothing left"}}
TOUCHING = tuple(f"{t}touches: {{{how}: [boxes]}}\n" for t, how in ((LOOK, "reads"), (ACT, "writes"), (FIND, "reads")))
#: read again just before, and sent again where nobody knows
REPLAYED = ACT[: ACT.index("  reconcile:")] + "  replay: true\n" + ACT[ACT.index("approval:") :]
TOUCHES = "touches: {writes: [boxes]}\n"
REPLAYED += "precondition: {tool: look, with: {thing: args.thing}, holds: result.good, reason: gone}\n"
#: comes back after the write, whatever became of it, and gives up where the model says so
AGAIN = swap(
    MACHINE,
    ("then: {ok: SUCCEEDED, failed: FAILED, blocked: FAILED", "then: {ok: LOOKING, failed: LOOKING, blocked: LOOKING"),
)

#: within another machine it looks, and says what it found
ASKER = """
machine: asker
version: 1
summary: Look, and say what it is.
input: {item: {type: string}}
limits: {steps: 3}
output: {verdict: {enum: [keep, drop]}}
success: []
initial: LOOKING
states:
  LOOKING: {choose: {look: {with: {thing: input.item}}, finish: SUCCEEDED}}
"""
HOLDER = """
machine: tiny
version: 1
summary: Ask, and be done.
input: {thing: {type: string}}
limits: {steps: 5}
guards: {keep: evidence.asker.verdict == "keep"}
success: []
initial: CHECK
states:
  CHECK:
    machine: asker@1
    with: {item: input.thing}
    then: {SUCCEEDED: [{when: keep, goto: SUCCEEDED}, {goto: DENIED}], FAILED: FAILED}
"""
#: two models side by side
SIDES = """
machine: tiny
version: 1
summary: Look from two sides.
input: {thing: {type: string}}
limits: {steps: 2}
guards: {seen: has(evidence.look)}
success: []
initial: BOTH
states:
  BOTH:
    parallel: true
    states:
      LEFT: {initial: LOOKING, states: {LOOKING: {choose: {look: stay}, then: [{when: seen, goto: done}]}}}
      RIGHT: {initial: FINDING, states: {FINDING: {choose: {find: stay}, then: [{when: seen, goto: done}]}}}
    then: {done: SUCCEEDED}
"""


class Slow:
    """A script that takes a second and a half for each step."""

    spec = "slow"

    def __init__(self, environment: SimulatedEnvironment, *steps: Any) -> None:
        self.environment, self.script = environment, ScriptedModel.of(*steps)

    async def decide(self, prompt: Prompt) -> Reply:
        await self.environment.sleep(1.5)
        return await self.script.decide(prompt)


async def answered(here: World) -> Checkpoint:
    """Run, and go on after everybody said yes."""
    task = await here.run()
    for person in (BOB, CEO)[: len(task.approvals[0].roles)]:
        await here.runtime.approve(task.approvals[0].id, person)
    return await here.runtime.resume(task.task.id)


async def rejected(here: World) -> Checkpoint:
    task = await here.run()
    await here.runtime.reject(task.approvals[0].id, BOB, why="not this one")
    return await here.runtime.resume(task.task.id)


async def twice(here: World) -> Checkpoint:
    """Another task did the same thing before."""
    await here.run()
    return await here.run()


async def peeks(here: World) -> Checkpoint:
    return await here.run(machine="peeks")


#: what happens; who runs it, what the model says, and how the tools play
STORIES: Mapping[str, tuple[Any, list[Any], dict[str, Any]]] = {
    "two say yes, the answer is lost, the look-up finds it": (
        answered,
        [{**LOOK_STEP, **PRICED, "say": "I look."}, {**act_step(700), **PRICED, "fail": 1}],
        {"look": [GONE, after(2, {"good": True, "note": "x"})], "act": [LOST], "find": [ONE], "texts": TOUCHING},
    ),
    "somebody says no": (rejected, [LOOK_STEP, act_step(200)], {}),
    "it is absent, is sent again and refused, and the model gives up": (
        to_its_end,
        [LOOK_STEP, act_step(), GIVE_UP],
        {"act": [LOST, CLOSED], "find": [NONE], "machine": AGAIN},
    ),
    "read just before, and sent again until it is answered": (
        to_its_end,
        [LOOK_STEP, act_step()],
        {"act": [LOST, after(1, DONE)], "texts": (TOUCHING[0], REPLAYED + TOUCHES, FIND)},
    ),
    "read just before, and no longer true": (
        to_its_end,
        [LOOK_STEP, act_step()],
        {"look": [GOOD, BAD], "texts": (LOOK, REPLAYED, FIND)},
    ),
    "another task did it before": (twice, [LOOK_STEP, act_step()], {"texts": TOUCHING}),
    "the machine writes by itself, and another task did it before": (
        twice,
        [LOOK_STEP],
        {
            "machine": swap(
                MACHINE,
                ("      look: stay\n", "      look: [{goto: ACTING}]\n"),
                ("with: proposal", "with: {thing: input.thing, amount: 10}"),
            )
        },
    ),
    "it is refused": (to_its_end, [LOOK_STEP, act_step()], {"act": [CLOSED]}),
    "it cannot be sent": (to_its_end, [LOOK_STEP, act_step()], {"act": [GONE]}),
    "what cannot be proposed, and a circle": (
        to_its_end,
        [
            act_step(),
            {"call": "look", "with": {"thing": 7}},
            {"calls": [LOOK_STEP, act_step()]},
            LOOK_STEP,
            LOOK_STEP,
            LOOK_STEP,
        ],
        {"machine": swap(MACHINE, ("steps: 6", "steps: 9"))},
    ),
    "several reads at once, one of which fails, and another state": (
        peeks,
        [
            batch(call("look", "c1"), call("peek", "c2")),
            batch(call("look", "c1"), call("peek", "c2", "bag")),
            batch(call("peek", "c1"), call("peek", "c1")),
            GIVE_UP,
        ],
        {"look": [after(3, GOOD)], "peek": [LOST, GOOD], "machine": PEEKS, "texts": TEXTS},
    ),
    "a read fails for good, twice, while an effect is in doubt": (
        to_its_end,
        [LOOK_STEP, act_step(), LOOK_STEP, LOOK_STEP],
        {
            "machine": swap(AGAIN, ("absent: ACTING, failed: FAILED}", "absent: ACTING, failed: LOOKING}")),
            "look": [GOOD, GONE],
            "act": [LOST],
            "find": [LOST],
        },
    ),
    "a machine within this one answers": (
        to_its_end,
        [{"call": "look"}, {"call": "finish", "with": {"answer": {"verdict": "keep"}}}],
        {"machine": HOLDER, "held": (ASKER,)},
    ),
    "two models, each told what became of its own": (
        to_its_end,
        [LOOK_STEP, {"calls": [{"call": "find", "with": {"key": key}} for key in ("k1", "k2")]}],
        {"machine": SIDES, "look": [GONE]},
    ),
    "two models, each told why not": (
        to_its_end,
        [act_step(), {"call": "find", "with": {"key": "k"}}],
        {"machine": SIDES, "find": [CLOSED]},
    ),
    "no model answers": (to_its_end, [{**LOOK_STEP, "fail": 9}], {}),
    "a question": (to_its_end, [{"call": "ask_user", "with": {"question": "Which of\nthem?"}}], {}),
}


def line(row: Mapping[str, Any], seen: dict[str, str]) -> str:
    """What stands in it, on one line, with numbers for ids and hashes."""
    told = {k: v for k, v in row.items() if v and v != "0" and k not in LEFT_OUT}
    text = " ".join(f"{k}={json.dumps(v, ensure_ascii=False, sort_keys=True, default=str)}" for k, v in told.items())

    def number(found: re.Match[str]) -> str:
        kind = found[1] or "hash-"
        return seen.setdefault(found[0], f"{kind}{sum(v.startswith(kind) for v in seen.values()) + 1}")

    return re.sub(r"([a-z]+-)?(?:[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}|\b[0-9a-f]{12}\b)", number, text)


def history(folder: Path, story: str) -> str:
    body, steps, how = STORIES[story]
    environment, seen = SimulatedEnvironment(), dict[str, str]()

    async def told(here: World) -> list[str]:
        end = await body(here)
        assert all(e.payload_hash == digest(e.payload) and isinstance(e.asked, dict) for e in end.evidence)
        rows = [f"{r['version']} {r['table']} {line(r, seen)}" for r in await here.rows(end)]
        known = {"head": [end.head], "effect": end.effects, "approval": end.approvals}
        return [*rows, *(f"{name} {line(asdict(one), seen)}" for name, all_ in known.items() for one in all_)]

    lines = play(folder, told, model=Slow(environment, *steps), environment=environment, **how)
    return "\n".join([f"## {story}", *lines])


@pytest.mark.parametrize("story", STORIES)
def test_the_whole_history_is_what_somebody_has_read(tmp_path: Path, story: str) -> None:
    stories = FILE.read_text(encoding="utf-8").split("\n\n")
    (written,) = [one for one in stories if one.startswith(f"## {story}\n")]
    assert history(tmp_path, story).splitlines() == written.splitlines()


if __name__ == "__main__":
    found = []
    for name in STORIES:
        with TemporaryDirectory() as made:
            found.append(history(Path(made), name))
    FILE.write_text("\n\n".join(found) + "\n", encoding="utf-8")
