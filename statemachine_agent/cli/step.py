"""What a model was shown at one step of a task, and what it answered. It must not know how a prompt is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from statemachine_agent.cli.output import compact, say, show_json
from statemachine_agent.errors import UsageError
from statemachine_agent.store.port import Store

#: stands for the random tag of the fence, which was the model's alone
_TAG = "fence"

Prompted = tuple[Sequence[Mapping[str, Any]], Sequence[Sequence[str | None]] | None]


async def prompted(store: Store, task: str, step: int) -> Prompted:
    """The attempts at a step, and the parts of what each of them was shown; UsageError where there is no such step."""
    rows = [row for row in await store.history(task) if row["table"] == "decision"]
    found = [row for row in rows if row["step"] == step]
    if not found:
        last = max((row["step"] for row in rows), default=0)
        raise UsageError(f"the task has no step {step}", hint=f"it has {last}; `sma trace` lists them")
    return found, await store.prompt(found[-1]["prompt_hash"])


def show_step(prompt: Prompted, *, as_json: bool) -> None:
    """The prompt as text, and each attempt as a line."""
    rows, parts = prompt
    text = None if parts is None else "".join(_TAG if piece is None else piece for part in parts for piece in part)
    if as_json:
        show_json({"step": rows[-1]["step"], "prompt_hash": rows[-1]["prompt_hash"], "prompt": text, "attempts": rows})
        return
    say(f"prompt {rows[-1]['prompt_hash']}; its random tag is shown as `{_TAG}`")
    say(text if text is not None else "it was not kept")
    for row in rows:
        tokens = f"{row['input_tokens']:,} tokens read, {row['output_tokens']:,} written"
        say(f"attempt {row['attempt']} by {row['model']}: {row['result']}, {tokens}: {compact(row['response'], 2000)}")
