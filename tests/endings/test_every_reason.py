"""Each reason code of the product has a test that is named here: a code without one is a promise that nobody checks."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from statemachine_agent.reasons import REASONS

TESTS = Path(__file__).parents[1]

ENDINGS, RARE = "endings/test_endings.py", "endings/test_rare_reasons.py"
REQUESTS, HTTP_READS = "unit/tools/test_tools_http_requests.py", "unit/tools/test_tools_http_reads.py"

#: code → where a task, a call or a request is seen to come to it
NAMED = {
    "completed": (ENDINGS, "test_verified_success"),
    "ask_user": (ENDINGS, "test_clarification_needed"),
    "expired": (ENDINGS, "test_approval_that_expires"),
    "no_action": (ENDINGS, "test_no_actionable_next_step"),
    "rejected": (ENDINGS, "test_rejected_by_a_person"),
    "policy": (ENDINGS, "test_policy_denial_of_a_write_is_read_by_its_route"),
    "missing_scope": (ENDINGS, "test_policy_denial_of_a_read"),
    "max_steps": (ENDINGS, "test_budget_exhausted"),
    "max_tokens": (ENDINGS, "test_budget_exhausted"),
    "max_cost": (ENDINGS, "test_budget_exhausted"),
    "max_tool_calls": (ENDINGS, "test_budget_exhausted"),
    "deadline": (ENDINGS, "test_deadline_counts_active_time_and_is_asked_after_the_observation"),
    "repeated_action": (ENDINGS, "test_no_progress_after_one_correction"),
    "no_state_change": (ENDINGS, "test_no_progress_after_one_correction"),
    "oscillation": (ENDINGS, "test_oscillation_between_two_calls"),
    "cancelled": (ENDINGS, "test_cancelled"),
    "cancelled_after_effect": (ENDINGS, "test_cancel_while_an_effect_is_open_is_remembered"),
    "model_failed": (ENDINGS, "test_model_failed"),
    "dependency_failed": (ENDINGS, "test_dependency_failed"),
    "guard_error": (ENDINGS, "test_guard_error_ends_the_task_naming_guard_and_field"),
    "not_verified": (ENDINGS, "test_not_verified"),
    "crashing": (ENDINGS, "test_crashing"),
    "exhausted": ("machines/test_small_machines.py", "test_the_wait_runs_out"),
    "at_most": (ENDINGS, "test_lost_and_absent_for_ever_is_bounded_by_at_most"),
    "approval_required": ("effects/test_replay.py", "test_a_used_approval_never_covers_a_second_effect"),
    "approval_expired": ("approvals/test_approvals.py", "test_expires_between_the_yes_and_the_call"),
    "action_changed": ("approvals/test_approvals.py", "test_a_stored_amount_changed_after_the_answer"),
    "approver_not_entitled": ("effects/test_replay.py", "test_what_is_denied_by_now_is_not_sent_again"),
    "policy_changed": ("approvals/test_approvals.py", "test_roles_taken_out_of_the_stored_request"),
    "stale_proposal": (RARE, "test_stale_proposal"),
    "precondition_unreadable": (RARE, "test_precondition_unreadable"),
    "key_reused": (RARE, "test_key_reused"),
    "key_taken": (RARE, "test_key_taken"),
    "effect_open": (RARE, "test_effect_open"),
    "effect_done": (RARE, "test_effect_done"),
    "unresolved": (RARE, "test_unresolved"),
    "masked_argument": ("endings/test_masks_hold.py", "test_masked_argument"),
    "invalid_arguments": (RARE, "test_invalid_arguments"),
    "invalid_argument": (REQUESTS, "test_a_path_segment_that_would_move_is_refused"),
    "not_configured": ("unit/tools/test_tools_python.py", "test_what_cannot_be_had_is_known_before_anything_was_done"),
    "host_not_allowed": (REQUESTS, "test_only_the_hosts_of_the_list_are_reached"),
    "address_not_allowed": (
        "unit/tools/test_tools_http_addresses.py",
        "test_one_address_inside_is_enough_to_trust_none",
    ),
    "tls_required": ("unit/tools/test_tools_http_tls.py", "test_without_tls_nobody_is_asked_but_this_machine"),
    "token_unavailable": (
        "unit/tools/test_tools_oauth2.py",
        "test_a_service_that_may_be_better_in_a_moment_is_asked_again",
    ),
    "token_refused": (
        "unit/tools/test_tools_oauth2.py",
        "test_an_answer_without_a_token_sends_nothing_and_is_not_quoted",
    ),
    "unavailable": (ENDINGS, "test_nothing_could_be_sent"),
    "timeout": (HTTP_READS, "test_slowness_is_a_timeout_and_tried_again"),
    "rate_limited": (HTTP_READS, "test_only_the_errors_of_the_manifest_are_tried_again"),
    "bad_result": (ENDINGS, "test_in_doubt_stops_for_a_person"),
    "too_large": (
        "unit/tools/test_tools_http_limits.py",
        "test_a_read_that_is_too_large_tells_its_head_its_tail_and_its_size",
    ),
    "exception": (
        "unit/tools/test_tools_python.py",
        "test_whatever_a_function_raises_is_an_outcome_and_ends_nothing_else",
    ),
    "in_doubt": (ENDINGS, "test_in_doubt_stops_for_a_person"),
    "worker_lost": (RARE, "test_worker_lost"),
    "cannot_continue": ("machines/test_small_machines.py", "test_cannot_continue_goes_where_the_machine_says"),
}


@cache
def texts(file: str) -> dict[str, set[str]]:
    """The literal texts of each test of a file, those of its parameters included."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {
        one.name: {c.value for c in ast.walk(one) if isinstance(c, ast.Constant) and isinstance(c.value, str)}
        for one in tree.body
        if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef)) and one.name.startswith("test_")
    }


@pytest.mark.parametrize("code", REASONS)
def test_a_code_has_its_test(code: str) -> None:
    """The test is there, and names the code."""
    assert code in NAMED, f"`{code}` has no test yet: write one, and name it here"
    file, test = NAMED[code]
    assert code in texts(file).get(test, ()), f"{file}::{test} does not name `{code}`"


def test_no_code_is_named_that_is_none() -> None:
    """What a release takes away, it takes away here too."""
    assert NAMED.keys() - REASONS.keys() == set()
