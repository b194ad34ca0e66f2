"""What users of comparable systems ran into, one line for each, and the test that holds us to it. `test_held.py` verifies it.

A test is named as `FILE::NAME` below `tests/`, or, where it is one case of a table, as `FILE::NAME[CASE]`; a file below
`invalid/` is a definition that is refused with the text beside it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ask:
    """One line."""

    #: what must hold, in our words
    what: str
    #: the tests that hold it
    by: tuple[str, ...] = ()
    #: what of it is not held, and why: it is not ours to do, or not built
    without: str = ""
    #: the command that it waits for; once there is one, the line needs its test
    waits_for: str = ""


COMPLETE = "unit/diagrams/test_diagrams_complete.py"
C, F, G = "asks/test_group_c.py", "asks/test_group_f.py", "asks/test_group_g.py"
APPROVALS, BATCHES, CUT = "approvals/test_approvals.py", "batches/test_admission.py", "batches/test_cut_short.py"
ENDINGS, RARE, KILLED = "endings/test_endings.py", "endings/test_rare_reasons.py", "recovery/test_killed.py"
MALFORMED, FILES = "proposals/test_malformed.py", "invalid/test_unreadable_files.py"
FAULTS = "machines/test_refund_faults.py"
STORE = "unit/store/test_store_"

ASKS: dict[str, Ask] = {
    # ------------------------------------------------------------ duplicates, and work that is lost when a task goes on
    "A1": Ask(
        "A crash cannot decide whether an effect happens once: the intent is committed before anything is sent.",
        (f"{KILLED}::test_killed_before_the_intent", f"{KILLED}::test_killed_in_flight_after_the_service_committed"),
    ),
    "A3": Ask(
        "Of two answers that a state waits for, the first makes nothing run again.",
        (f"{APPROVALS}::test_two_roles_need_two_people",),
    ),
    "A5": Ask(
        "Each wait takes one answer, and each answer belongs to its wait.",
        (
            "outside/test_waits.py::test_a_reply_becomes_evidence_and_the_task_goes_on",
            "outside/test_conversation.py::test_a_yes_is_to_the_question_that_was_shown",
        ),
    ),
    "A6": Ask("An answer is final; a second one is refused with a reason.", (f"{APPROVALS}::test_twice",)),
    "A8": Ask(
        "A later call that fails repeats no earlier one.",
        (
            f"{KILLED}::test_killed_before_the_notification_is_intended",
            f"{FAULTS}::test_refuses_a_message_and_gets_another",
        ),
    ),
    "A10": Ask(
        "The same action under another attempt or task is answered from the ledger.",
        (f"{RARE}::test_effect_done", f"{FAULTS}::test_two_tasks_for_one_order_share_one_effect"),
    ),
    "A12": Ask(
        "Two equal calls at once are not both made.", (f"{BATCHES}::test_equal_calls_in_another_order_or_spacing",)
    ),
    "A14": Ask(
        "Two workers at once: one effect, and the other stops before the tool.",
        ("races/test_races.py::test_at_the_claim",),
    ),
    "A16": Ask(
        "A task that is at work in this very process is not adopted by it.",
        (f"{STORE}leases.py::test_the_owner_is_not_adopted_in_its_own_process",),
    ),
    "A19": Ask("A write without a key of its own does not load.", ("invalid/tool/write_without_key.yaml",)),
    "A20": Ask(
        "No crash leaves a task in no state, or finished although work remains.",
        (
            f"{STORE}processes.py::test_a_process_killed_while_it_commits_loses_nothing_that_was_said_to_be_durable",
            "nested/test_restoring.py::test_save_restore_save_gives_the_same_bytes_and_the_same_tools",
        ),
    ),
    "A21": Ask(
        "What waits for an answer is listed by a process that never saw the task.",
        ("cli/test_story.py::test_run_approve_resume_each_in_a_process_of_its_own",),
    ),
    "A23": Ask(
        "No provider is sent a history that lacks a call or its result: each decision is one message of its own.",
        ("providers/test_providers_wire.py::test_one_call_is_one_request_with_exactly_the_tools_that_are_offered",),
    ),
    # ------------------------------------------------------------ approvals
    "B1": Ask("A no is kept by the runtime: the tool is never called.", (f"{ENDINGS}::test_rejected_by_a_person",)),
    "B2": Ask(
        "What a text says of limits changes none.", ("trust/test_poisoned.py::test_what_a_text_orders_is_not_done",)
    ),
    "B3": Ask(
        "While somebody is asked, no other tool of that state runs.",
        ("proposals/test_every_pair.py::test_a_proposal_of_every_pair",),
    ),
    "B6": Ask(
        "A yes counts under whatever runtime the task goes on.",
        (f"{F}::test_f2_a_waiting_state_that_is_called_otherwise_by_now",),
    ),
    "B8": Ask(
        "A yes is to this tool and these arguments.",
        (
            f"{APPROVALS}::test_a_stored_amount_changed_after_the_answer",
            "unit/policy/test_policy_approvals.py::test_it_covers_exactly_the_action_that_was_shown",
        ),
    ),
    "B10": Ask(
        "There is no way to a tool beside the check.",
        (
            "unit/loop/test_loop_authorise.py::test_the_effect_on_record_must_be_the_one_that_was_approved",
            "unit/loop/test_loop_phases.py::test_what_a_phase_is_given_comes_from_the_one_before",
        ),
    ),
    "B11": Ask(
        "One no takes nothing from what others were given a yes for.",
        (f"{C}::test_c5_all_that_is_waited_for_is_listed_and_each_is_answered_by_itself",),
    ),
    "B13": Ask(
        "The task's own tools cannot approve.",
        ("endings/test_own_tools_cannot_approve.py::test_a_tasks_own_tools_cannot_approve",),
    ),
    "B14": Ask("A request expires, and the machine says where to.", (f"{ENDINGS}::test_approval_that_expires",)),
    "B17": Ask(
        "An expiry without a zone is met on every path, and ends the permission.",
        (
            f"{APPROVALS}::test_a_malformed_expiry_in_the_store_fails_closed",
            "unit/policy/test_policy_approvals.py::test_an_expiry_that_is_no_instant_has_passed",
            "invalid/machine/durations.yaml",
        ),
    ),
    "B19": Ask(
        "Whoever must answer is warned before the time is over, and somebody entitled can extend it.",
        without="not built: there is no warning and no extension; the expiry itself leads where the machine says",
    ),
    "B20": Ask("2000.0 and 2000 are one amount.", (f"{MALFORMED}::test_two_thousand_is_two_thousand",)),
    # ------------------------------------------------------------ tool calls
    "C1": Ask(
        "An unknown tool is an observation with the allowed ones, and costs a step.",
        (
            f"{MALFORMED}::test_is_an_observation_with_its_error_class[unknown tool]",
            "providers/test_providers_loop.py::test_what_cannot_be_taken_is_told_and_costs_the_step[delete_everything]",
        ),
    ),
    "C3": Ask(
        "Broken arguments are kept as they came, told, and break no later request.",
        (f"{C}::test_c3_broken_arguments_are_kept_as_they_came_and_the_next_request_is_whole",),
    ),
    "C5": Ask(
        "All that waits is listed.",
        (
            f"{C}::test_c5_all_that_is_waited_for_is_listed_and_each_is_answered_by_itself",
            f"{C}::test_c5_a_program_is_told_of_every_wait_as_a_person_is",
        ),
        without="two approvals in one batch cannot be: a task has one proposal at a time",
    ),
    "C6": Ask("A call that was cut short has a result, too.", (f"{CUT}::test_cancelled_while_it_runs",)),
    "C9": Ask(
        "Of more calls than are allowed each gets its answer.",
        (
            f"{BATCHES}::test_so_many_calls_and_no_more",
            f"{BATCHES}::test_every_call_is_named_however_many",
            "providers/test_providers_loop.py::test_several_calls_where_one_is_allowed_are_told_and_none_is_made",
        ),
        without="none of them runs: which of them was meant would be a guess",
    ),
    "C10": Ask(
        "Tools of one name are told apart, or refused.",
        (f"{C}::test_c10_two_servers_may_call_their_tools_alike", "invalid/tool/there_already.yaml"),
    ),
    "C11": Ask(
        "Arguments that were cut off never run, however whole they look.",
        (
            "providers/test_providers_wire.py::test_arguments_that_were_cut_off_are_never_mended",
            "providers/test_providers_stream.py::test_a_call_that_was_sent_whole_is_none_without_the_end_of_the_answer",
        ),
    ),
    "C13": Ask(
        "A limit of calls is looked at before the first of them.",
        (f"{BATCHES}::test_the_limit_is_looked_at_before_the_first_begins",),
    ),
    "C14": Ask(
        "A tool can have a limit of its own.",
        (f"{C}::test_c14_a_tool_that_was_called_as_often_as_it_may_stops_nobody_but_itself",),
    ),
    "C15": Ask(
        "An empty answer ends nothing.", (f"{MALFORMED}::test_is_an_observation_with_its_error_class[nothing]",)
    ),
    # ------------------------------------------------------------ loops, budgets, cancellation
    "D1": Ask(
        "Going in circles is found out and named.", (f"{ENDINGS}::test_no_progress_after_one_correction[repeat]",)
    ),
    "D5": Ask(
        "A task that used its budget up goes on under another limit, and it is recorded who raised it.",
        ("outside/test_fork.py::test_a_budget_that_ran_out_can_be_raised",),
    ),
    "D6": Ask(
        "Ctrl+C keeps what was finished, and repeats nothing of it.", (f"{CUT}::test_interrupted_while_it_runs",)
    ),
    # ------------------------------------------------------------ the store
    "E1": Ask(
        "Many writers on one file lose nothing.",
        (f"{STORE}processes.py::test_eight_processes_commit_to_tasks_of_their_own",),
    ),
    "E3": Ask(
        "Who lost a task can write nothing more to it.", (f"{STORE}commits.py::test_only_the_newest_token_writes",)
    ),
    "E4": Ask(
        "What a step writes does not grow with the task.",
        (f"{STORE}disk.py::test_two_hundred_steps_of_ten_kilobytes_stay_small",),
    ),
    "E5": Ask("Old rows can be taken out.", without="not built", waits_for="prune"),
    "E7": Ask(
        "A value that cannot be stored is named by its path.",
        (f"{STORE}payloads.py::test_a_value_that_cannot_be_stored_is_named_by_its_path_and_nothing_is_written",),
    ),
    "E9": Ask(
        "What is masked is written nowhere.", ("endings/test_redaction.py::test_what_is_masked_is_written_nowhere",)
    ),
    # ------------------------------------------------------------ a definition that changes
    "F2": Ask(
        "A waiting state that was renamed stops nothing silently.",
        (
            f"{F}::test_f2_a_waiting_state_that_is_called_otherwise_by_now",
            "docs/test_peer_table.py::test_our_column_is_what_our_trial_yields[Waiting state renamed; resumed]",
        ),
    ),
    "F3": Ask("A task belongs to one definition, by its hash.", (f"{F}::test_f3_another_machine_under_the_same_name",)),
    "F5": Ask(
        "What was saved is what is restored, and what cannot be restored says which state is meant.",
        (
            "nested/test_restoring.py::test_save_restore_save_gives_the_same_bytes_and_the_same_tools",
            "unit/chart/test_configuration.py::test_a_restored_configuration_must_be_legal",
        ),
    ),
    "F6": Ask(
        "A deployment breaks no task that is under way.",
        (
            f"{F}::test_f6_tasks_in_five_states_outlive_a_deployment",
            f"{F}::test_f6_a_verdict_for_each_task_before_a_deployment",
        ),
    ),
    "F8": Ask(
        "Going back is a new task, with approvals of its own; what was done is answered from the ledger.",
        (
            "outside/test_fork.py::test_people_are_asked_again_and_the_ledger_answers",
            "outside/test_fork.py::test_it_stands_as_the_other_stood",
        ),
    ),
    # ------------------------------------------------------------ guards and files
    "G1": Ask("A guard that errs takes no way.", (f"{G}::test_g1_a_guard_without_its_limit_takes_no_way_at_all",)),
    "G3": Ask(
        "A name that leads nowhere does not load, and what is not there is no small number.",
        (
            f"{G}::test_g3_a_word_that_leads_nowhere_does_not_load_and_null_is_less_than_nothing",
            "invalid/machine/cel_unknown_field.yaml",
            "invalid/machine/cel_unknown_root.yaml",
        ),
    ),
    "G4": Ask(
        "What the language does not know is not skipped.",
        (
            f"{G}::test_g4_what_the_language_does_not_know_is_not_skipped",
            "invalid/machine/unknown_key.yaml",
            "invalid/machine/misspelt_verb.yaml",
        ),
    ),
    "G6": Ask(
        "A key that stands twice is an error with both lines.",
        ("invalid/machine/duplicate_key.yaml", "invalid/machine/duplicate_key_quoted.yaml"),
    ),
    "G8": Ask(
        "A target or an event that there is none of does not load.",
        (
            "invalid/machine/unknown_target.yaml",
            "invalid/machine/misspelt_outcome.yaml",
            "invalid/machine/signal_unknown.yaml",
        ),
    ),
    "G9": Ask(
        "Between two conditions nothing falls through.",
        (
            f"{G}::test_g9_between_two_conditions_nothing_falls_through",
            "invalid/machine/list_without_end.yaml",
            "invalid/machine/outcome_list_without_end.yaml",
        ),
    ),
    "G13": Ask(
        "A small file cannot become a large one, nor a large one fill the memory.",
        (
            f"{FILES}::test_an_alias_bomb_stays_small",
            f"{FILES}::test_a_file_over_the_limit_is_not_even_read",
            f"{FILES}::test_an_alias_to_what_holds_it_ends",
        ),
    ),
    # ------------------------------------------------------------ timers, and what is loaded
    "H1": Ask(
        "A time that is over while nobody is there has its effect once somebody comes.",
        ("nested/test_machines_in_machines.py::test_a_task_is_finished_on_the_texts_that_it_began_with",),
    ),
    "H3": Ask(
        "Nobody ever reads half a step.",
        (f"{STORE}processes.py::test_a_reader_sees_only_committed_states_while_another_process_writes",),
    ),
    "H5": Ask(
        "What was begun and never heard of is on record and is looked up.",
        (
            f"{KILLED}::test_killed_in_flight_before_the_service_commits",
            f"{FAULTS}::test_sent_and_gone_for_good_stays_open_until_a_person_settles_it",
        ),
    ),
    # ------------------------------------------------------------ diagrams
    "I1": Ask(
        "The picture has the arrows of the chart and no other.",
        (f"{COMPLETE}::test_every_arrow_of_the_dot_source_is_a_transition_and_the_other_way_round",),
    ),
    "I2": Ask(
        "No text of an author breaks a picture.",
        ("unit/diagrams/test_diagrams_hostile.py::test_every_line_of_the_mermaid_text_is_of_its_grammar",),
    ),
    "I4": Ask(
        "A machine of sixty states is still drawn, with each of its transitions.",
        (f"{COMPLETE}::test_the_svg_keeps_the_numbers_of_the_transitions",),
        without="how legible it is on a page is looked at by people; nothing is folded",
    ),
}

#: the lines of each group, so that none is lost
GROUPS = {
    "A": (1, 3, 5, 6, 8, 10, 12, 14, 16, 19, 20, 21, 23),
    "B": (1, 2, 3, 6, 8, 10, 11, 13, 14, 17, 19, 20),
    "C": (1, 3, 5, 6, 9, 10, 11, 13, 14, 15),
    "D": (1, 5, 6),
    "E": (1, 3, 4, 5, 7, 9),
    "F": (2, 3, 5, 6, 8),
    "G": (1, 3, 4, 6, 8, 9, 13),
    "H": (1, 3, 5),
    "I": (1, 2, 4),
}
