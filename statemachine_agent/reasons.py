"""The reason codes that the product itself gives, what each means, and who acts next. Machines and manifests add their own.

`terminal` is the word of the ten terminal reasons that agent loops commonly report (source 001). It must not know how a task
came to its end.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """One reason code."""

    code: str
    #: the statuses that it comes with
    ends: tuple[str, ...]
    meaning: str
    #: who acts next
    next: str
    terminal: str = ""


_LIST = (
    Reason("completed", ("SUCCEEDED",), "every success guard held on recorded evidence", "nobody", "completed"),
    Reason("ask_user", ("NEEDS_INPUT",), "the model needs a fact that only the user has", "the user"),
    Reason("expired", ("NEEDS_INPUT",), "nobody answered in time", "whoever should have answered", "approval_required"),
    Reason("no_action", ("FAILED",), "the model has nothing useful left to propose", "the author or a person"),
    Reason("rejected", ("DENIED", "FAILED"), "a person (DENIED) or the service (FAILED) said no", "the requester"),
    Reason("policy", ("DENIED",), "the policy denies the proposed write", "whoever grants scopes"),
    Reason("missing_scope", ("DENIED", "FAILED"), "the actor lacks a scope that the tool needs", "whoever grants scopes"),
    Reason("max_steps", ("BUDGET_EXHAUSTED",), "all decisions are used up", "the author", "max_steps"),
    Reason("max_tokens", ("BUDGET_EXHAUSTED",), "all tokens are used up", "the author", "max_steps"),
    Reason("max_cost", ("BUDGET_EXHAUSTED",), "all money for the model is used up", "the author", "max_steps"),
    Reason("max_tool_calls", ("BUDGET_EXHAUSTED",), "all calls are used up", "the author", "tool_budget_exhausted"),
    Reason("deadline", ("BUDGET_EXHAUSTED",), "all active time is used up", "the author", "deadline_exceeded"),
    Reason("repeated_action", ("NO_PROGRESS",), "the same call with the same result again and again", "a person", "no_progress"),
    Reason("no_state_change", ("NO_PROGRESS",), "no new fact for several decisions, text without calls included", "a person", "no_progress"),
    Reason("oscillation", ("NO_PROGRESS",), "back and forth between two calls", "a person", "no_progress"),
    Reason("cancelled", ("CANCELLED",), "somebody entitled called it off", "nobody", "cancelled"),
    Reason("cancelled_after_effect", ("CANCELLED",), "called off after an effect had happened", "a person looks at the effect", "cancelled"),
    Reason("model_failed", ("FAILED",), "the model gave no answer in four attempts", "the operator", "model_error"),
    Reason("dependency_failed", ("FAILED",), "a read failed for good twice running", "the operator"),
    Reason("guard_error", ("FAILED",), "a guard was neither true nor false; `show` names it and the field", "the author"),
    Reason("not_verified", ("FAILED",), "a row leads to SUCCEEDED and `success` does not hold", "a person looks at the effects"),
    Reason("crashing", ("FAILED",), "the task lost its worker ten times running", "the operator"),
    Reason("exhausted", ("FAILED",), "a wait was entered more often than it may be", "a person"),
    Reason("at_most", ("FAILED",), "the tool was called as often as a task may", "a person"),
    Reason("approval_required", ("FAILED",), "no approval was given for this call", "the author"),
    Reason("approval_expired", ("FAILED",), "approved, and run too late", "start again"),
    Reason("action_changed", ("FAILED",), "the stored action is not the one that was approved", "security"),
    Reason("approver_not_entitled", ("FAILED",), "who approved may no longer", "another approver"),
    Reason("policy_changed", ("FAILED",), "the rules ask for more than was asked for", "start again"),
    Reason("stale_proposal", ("FAILED",), "the row that accepted the proposal no longer does", "start again"),
    Reason("precondition_unreadable", ("FAILED",), "the precondition could not be read", "the operator"),
    Reason("key_reused", ("FAILED",), "the key was used with other arguments", "the author"),
    Reason("key_taken", ("FAILED",), "another task was about to send the same effect", "look at that task"),
    Reason("effect_open", ("FAILED",), "the same effect of another task is not settled", "settle that one"),
    Reason("effect_done", ("FAILED",), "another task executed it and kept no receipt, or less of it than is read here", "a person looks at the effect"),
    Reason("unresolved", ("FAILED",), "an argument refers to something that is not there", "the author"),
    Reason("masked_argument", ("FAILED",), "an argument of a write is the mask of a text that is not written", "the author"),
    Reason("invalid_arguments", ("FAILED",), "the arguments do not fit the manifest", "the author"),
    Reason("invalid_argument", ("FAILED",), "an argument cannot stand in the request", "the author"),
    Reason("not_configured", ("FAILED",), "a variable, package or function that the tool needs is not there", "the operator"),
    Reason("host_not_allowed", ("FAILED",), "the address is not in the list of hosts", "the operator"),
    Reason("address_not_allowed", ("FAILED",), "the host leads into a private network, and is not listed for that", "the operator"),
    Reason("tls_required", ("FAILED",), "a service that is not on this machine would be asked without TLS", "the operator"),
    Reason("token_unavailable", ("FAILED",), "the token service cannot be reached, or does not answer in time", "the operator"),
    Reason("token_refused", ("FAILED",), "the token service gave no usable token", "the operator"),
    Reason("unavailable", ("FAILED",), "the service cannot be reached, or answers that it cannot", "the operator"),
    Reason("timeout", ("FAILED",), "no answer in time", "the operator"),
    Reason("rate_limited", ("FAILED",), "the service asks for fewer requests", "the operator"),
    Reason("bad_result", ("FAILED",), "the answer is not what the manifest promises", "the author"),
    Reason("too_large", ("FAILED",), "the answer is larger than the manifest allows", "the author"),
    Reason("exception", ("FAILED",), "a Python tool raised", "the author"),
    Reason("in_doubt", ("FAILED",), "the look-up answered neither found nor absent; the effect stays open", "a person, with `sma resolve`"),
    Reason("worker_lost", ("FAILED",), "the worker was lost between sending and recording", "a person, with `sma resolve`"),
    Reason("cannot_continue", ("CANCELLED", "FAILED"), "the model gave up, and the machine says where to", "a person"),
)  # fmt: skip

REASONS = {reason.code: reason for reason in _LIST}
