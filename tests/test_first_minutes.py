"""What a newcomer expects of the first quarter of an hour, and the tests that hold it.

The numbers are those of the list the product was planned with. A point without a test is one that
waits for a later version.
"""

from collections.abc import Mapping

import pytest

from tests.source_tree import modules

EXPECTED: Mapping[str, tuple[str, ...]] = {
    "1 one line starts a server, which says where it is": (
        "tests.server.test_serve.test_the_first_start_prints_a_token_and_a_command_that_uses_it",
        "tests.server.test_serve.test_the_command_itself_serves_a_configured_cluster_and_stops_on_sigint",
    ),
    "2 a job of twelve lines works, and explain shows the defaults": (
        "tests.cli.test_submitting.test_a_job_of_twelve_lines_runs_and_streams_its_log",
        "tests.unit.cli.test_pure_parts.test_a_field_is_explained_with_type_and_default",
    ),
    "3 a job without a file": (
        "tests.cli.test_submitting.test_a_job_without_a_file_is_the_same_object",
    ),
    "4 apply reads stdin, folders and several documents": (
        "tests.cli.test_submitting.test_apply_reads_stdin_folders_and_several_documents",
    ),
    "5 a typo is found, with its place and the nearest name": (
        "tests.cli.test_submitting.test_every_mistake_of_a_file_is_told_with_its_place",
        "tests.unit.api.job_files.test_hints.test_an_unknown_field_comes_with_a_hint",
    ),
    "6 all errors at once": (
        "tests.cli.test_submitting.test_every_mistake_of_a_file_is_told_with_its_place",
    ),
    "8 the table of jobs fits 80 columns": (
        "tests.cli.test_reading.test_the_table_of_jobs_fits_80_columns",
    ),
    "9 one command says why a job waits, with numbers and what would help": (
        "tests.cli.test_reading.test_why_names_numbers_and_what_would_fix_it",
        "tests.cli.test_reading.test_describe_shows_workers_and_ends_with_why",
    ),
    "10 logs are streamed, and Ctrl-C does not end the job": (
        "tests.cli.test_submitting.test_run_streams_the_log_and_ends_as_the_job_did",
        "tests.cli.test_following.test_ctrl_c_leaves_the_job_alone",
    ),
    "11 logs of rank 0, of one rank, of all, of an attempt before": (
        "tests.cli.test_following.test_logs_are_those_of_rank_0_unless_said_otherwise",
        "tests.cli.test_following.test_all_ranks_have_their_number_before_each_line",
        "tests.cli.test_following.test_tail_since_and_timestamps_choose_lines",
        "tests.cli.test_following.test_the_attempt_before_the_last_can_be_read",
    ),
    "12 wait gives scripts an exit code": (
        "tests.cli.test_following.test_wait_gives_scripts_an_exit_code",
        "tests.cli.test_submitting.test_run_streams_the_log_and_ends_as_the_job_did",
    ),
    "14 cancel is gentle, and can be harsh; both may be repeated": (
        "tests.cli.test_following.test_cancel_is_gentle_and_now_is_not",
        "tests.server.test_serve.test_cancel_gives_the_grace_and_now_does_not",
    ),
    "17 contexts; a variable wins over the file, a flag over the variable": (
        "tests.cli.test_reading.test_contexts_are_kept_and_flags_win",
        "tests.unit.cli.test_pure_parts.test_a_flag_wins_over_a_variable_and_a_variable_over_the_file",
    ),
    "18 version shows both sides and warns when they are far apart": (
        "tests.cli.test_reading.test_versions_of_client_and_server_are_shown",
        "tests.unit.cli.test_surroundings.test_a_server_more_than_a_minor_version_away_is_warned_of",
    ),
    "20 every command shows two examples, and each works": (
        "tests.unit.cli.test_pure_parts.test_every_command_shows_two_examples_or_more",
        "tests.cli.test_reading.test_every_example_of_every_help_works",
    ),
    "21 an error names its reason and the next step": (
        "tests.cli.test_submitting.test_an_error_names_its_reason_and_the_way_out",
        "tests.api.test_problems.test_a_problems_type_leads_to_its_explanation",
    ),
    "22 it works behind a proxy, without a terminal, without colours": (
        "tests.unit.cli.test_surroundings.test_a_proxy_named_by_a_variable_is_used",
        "tests.unit.cli.test_surroundings.test_without_a_terminal_nothing_is_coloured",
        "tests.cli.test_submitting.test_an_error_names_its_reason_and_the_way_out",
    ),
}


@pytest.mark.parametrize("point", EXPECTED)
def test_the_tests_of_a_point_exist(point: str) -> None:
    there = {f"{module.name}.{f.name}" for module in modules("tests") for f in module.functions()}
    assert set(EXPECTED[point]) <= there
