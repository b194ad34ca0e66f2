"""Budgets: what is left, and which one is used up. Functions of a head and the machine's limits."""

from __future__ import annotations

from typing import Any

from statemachine_agent.loop.context import Context
from statemachine_agent.records import Head


def exhausted(context: Context, head: Head, *, before_decision: bool) -> str | None:
    """The budget that is used up, as a reason code; None where all hold.

    Time counts everywhere. Steps, tokens, money and tool calls are asked for only where a decision would follow: what the
    machine does without a model needs none of them, and is bounded by the calls that it can make.
    """
    limits = context.machine.definition.limits
    if active_ms(context, head) >= limits.active_time.total_seconds() * 1000:
        return "deadline"
    if not before_decision:
        return None
    if head.steps >= limits.steps:
        return "max_steps"
    if head.usage.tokens >= limits.tokens:
        return "max_tokens"
    if head.usage.cost_usd >= limits.cost_usd:
        return "max_cost"
    if head.usage.tool_calls >= limits.tool_calls:
        return "max_tool_calls"
    return None


def active_ms(context: Context, head: Head) -> int:
    """Active time so far, that of the running lap included."""
    return head.usage.active_ms + context.watch.running_ms()


def seconds_left(context: Context, head: Head) -> float:
    """Active time that is left."""
    return max(0.0, context.machine.definition.limits.active_time.total_seconds() - active_ms(context, head) / 1000)


def remaining(context: Context, head: Head) -> dict[str, Any]:
    """What is left of each budget, for the prompt and for people."""
    limits = context.machine.definition.limits
    return {
        "steps": max(0, limits.steps - head.steps),
        "tokens": max(0, limits.tokens - head.usage.tokens),
        "tool_calls": tool_calls_left(context, head),
        "seconds": int(seconds_left(context, head)),
    }


def tool_calls_left(context: Context, head: Head) -> int:
    """How many calls of tools the budget has left."""
    return max(0, context.machine.definition.limits.tool_calls - head.usage.tool_calls)


def calls_left(context: Context, head: Head, tool: str) -> int | None:
    """How often `tool` may still be called in this task; None: as often as the budget allows."""
    most = context.machine.at_most(tool)
    return None if most is None else max(0, most - head.calls.get(tool, 0))
