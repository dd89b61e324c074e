"""Exit code, report or stop cause -> outcome -> whose failure -> what becomes of the job."""

from dataclasses import replace

import pytest

from scheduler.domain.exit_codes import outcome_of_exit_code
from scheduler.domain.failures import BLAME, OUTCOME_OF_CAUSE, Blame, after_end, backoff
from scheduler.domain.instants import HOUR, MINUTE, Duration, seconds
from scheduler.domain.job import FailurePolicy, FailureRule, JobPhase, Outcome, StopCause
from scheduler.domain.knobs import PolicyKnobs
from tests.builders import a_job

AGAIN, FAILED = JobPhase.PENDING, JobPhase.FAILED
KNOBS = PolicyKnobs()


FAILURES: list[tuple[int | str | StopCause, Outcome, Blame, JobPhase]] = [
    # Exit codes of a worker that nobody told to stop.
    (0, Outcome.COMPLETED, Blame.NOBODY, JobPhase.SUCCEEDED),
    (1, Outcome.USER_ERROR, Blame.USER, AGAIN),
    (2, Outcome.USER_ERROR, Blame.USER, AGAIN),
    (3, Outcome.USER_ERROR, Blame.USER, FAILED),  # the rule below: 3 fails at once
    (4, Outcome.USER_ERROR, Blame.USER, AGAIN),  # the rule below: 4 restarts
    (64, Outcome.USER_ERROR, Blame.USER, AGAIN),
    (126, Outcome.USER_ERROR, Blame.USER, AGAIN),
    (127, Outcome.USER_ERROR, Blame.USER, AGAIN),
    (128, Outcome.USER_ERROR, Blame.USER, AGAIN),
    (129, Outcome.KILLED, Blame.USER, AGAIN),  # SIGHUP
    (130, Outcome.KILLED, Blame.USER, AGAIN),  # SIGINT
    (131, Outcome.KILLED, Blame.USER, AGAIN),  # SIGQUIT
    (132, Outcome.KILLED, Blame.USER, AGAIN),  # SIGILL: built for another CPU
    (134, Outcome.KILLED, Blame.USER, AGAIN),  # SIGABRT
    (135, Outcome.KILLED, Blame.USER, AGAIN),  # SIGBUS
    (136, Outcome.KILLED, Blame.USER, AGAIN),  # SIGFPE
    (137, Outcome.KILLED, Blame.USER, AGAIN),  # SIGKILL without a word of memory
    (138, Outcome.KILLED, Blame.USER, AGAIN),  # SIGUSR1
    (139, Outcome.KILLED, Blame.USER, AGAIN),  # SIGSEGV
    (141, Outcome.KILLED, Blame.USER, AGAIN),  # SIGPIPE
    (143, Outcome.KILLED, Blame.USER, AGAIN),  # SIGTERM that we did not send
    (152, Outcome.KILLED, Blame.USER, AGAIN),  # SIGXCPU
    (153, Outcome.KILLED, Blame.USER, AGAIN),  # SIGXFSZ
    (159, Outcome.KILLED, Blame.USER, AGAIN),  # SIGSYS
    (192, Outcome.KILLED, Blame.USER, AGAIN),  # the last signal
    (193, Outcome.USER_ERROR, Blame.USER, AGAIN),
    (255, Outcome.USER_ERROR, Blame.USER, AGAIN),
    # What the cluster reports beside or instead of an exit code.
    ("OutOfMemory", Outcome.OUT_OF_MEMORY, Blame.USER, AGAIN),
    ("LaunchFailed", Outcome.LAUNCH_FAILED, Blame.USER, AGAIN),
    ("ImagePullFailed", Outcome.IMAGE_PULL_FAILED, Blame.USER, AGAIN),
    ("NodeLost", Outcome.NODE_LOST, Blame.CLUSTER, AGAIN),
    ("GpuUnhealthy", Outcome.GPU_UNHEALTHY, Blame.CLUSTER, AGAIN),
    ("AdmissionRejected", Outcome.ADMISSION_REJECTED, Blame.CLUSTER, AGAIN),
    ("WorkerLost", Outcome.WORKER_LOST, Blame.CLUSTER, AGAIN),
    ("SystemError", Outcome.SYSTEM_ERROR, Blame.CLUSTER, AGAIN),
    # Why we stopped the gang.
    (StopCause.CANCEL, Outcome.CANCELLED_BY_USER, Blame.FINAL, JobPhase.CANCELLED),
    (StopCause.DEADLINE, Outcome.DEADLINE_EXCEEDED, Blame.FINAL, FAILED),
    (StopCause.HANG, Outcome.HUNG, Blame.USER, AGAIN),
    (StopCause.START_TIMEOUT, Outcome.START_TIMEOUT, Blame.CLUSTER, AGAIN),
    (StopCause.NODE_LOST, Outcome.NODE_LOST, Blame.CLUSTER, AGAIN),
    (StopCause.PREEMPT, Outcome.PREEMPTED, Blame.SCHEDULER, AGAIN),
    (StopCause.UPGRADE, Outcome.UPGRADED, Blame.SCHEDULER, AGAIN),
    (StopCause.DRAIN, Outcome.DRAINED, Blame.SCHEDULER, AGAIN),
]
"""What was found, and the outcome, the culprit and the next phase of a job with one restart."""


@pytest.mark.parametrize(("found", "outcome", "blame", "phase"), FAILURES, ids=str)
def test_an_end_has_an_outcome_a_culprit_and_a_consequence(
    found: int | str | StopCause, outcome: Outcome, blame: Blame, phase: JobPhase
) -> None:
    if isinstance(found, int):
        assert outcome_of_exit_code(found) is outcome
    elif isinstance(found, StopCause):
        assert OUTCOME_OF_CAUSE[found] is outcome
    else:
        assert Outcome(found) is outcome
    assert BLAME[outcome] is blame
    rules = (
        FailureRule(exit_codes=(4,), action="Restart"),
        FailureRule(exit_codes=(3, 4), action="Fail"),
    )
    job = a_job(failure_policy=FailurePolicy(restarts_max=1, rules=rules))
    code = found if isinstance(found, int) else None
    after = after_end(job, outcome, exit_code=code, run_time=seconds(1), knobs=KNOBS)
    assert after.phase is phase
    assert after.restarts_user == int(blame is Blame.USER and phase is AGAIN)
    assert after.restarts_infra == int(blame is Blame.CLUSTER)


def test_the_table_of_failures_has_forty_rows_and_each_outcome() -> None:
    # The type too: a report and a stop cause may have one name.
    rows = {(type(found), found) for found, *_ in FAILURES}
    assert len(rows) == len(FAILURES) >= 40
    assert {outcome for _, outcome, _, _ in FAILURES} == set(Outcome)


def test_every_outcome_has_a_culprit() -> None:
    assert set(BLAME) == set(Outcome)


def test_every_stop_cause_but_an_ended_worker_has_an_outcome() -> None:
    assert set(OUTCOME_OF_CAUSE) == set(StopCause) - {StopCause.WORKER_ENDED}


def test_a_user_failure_past_max_restarts_fails_the_job() -> None:
    job = replace(a_job(failure_policy=FailurePolicy(restarts_max=2)), restarts_user=2)
    after = after_end(job, Outcome.USER_ERROR, exit_code=1, run_time=Duration(HOUR), knobs=KNOBS)
    assert after.phase is FAILED


def test_cluster_failures_do_not_count_against_max_restarts() -> None:
    job = replace(a_job(), restarts_infra=9)
    after = after_end(job, Outcome.NODE_LOST, exit_code=None, run_time=seconds(0), knobs=KNOBS)
    assert (after.phase, after.restarts_user, after.restarts_infra) == (AGAIN, 0, 10)


def test_too_many_cluster_failures_without_a_healthy_run_fail_the_job() -> None:
    job = replace(a_job(), restarts_infra=10)
    short = after_end(job, Outcome.NODE_LOST, exit_code=None, run_time=seconds(5), knobs=KNOBS)
    assert short.phase is FAILED
    healthy = after_end(
        job, Outcome.NODE_LOST, exit_code=None, run_time=Duration(10 * MINUTE), knobs=KNOBS
    )
    assert (healthy.phase, healthy.restarts_infra) == (AGAIN, 1)


@pytest.mark.parametrize(
    ("rules", "phase"),
    [
        pytest.param((), AGAIN, id="no rule: the budget decides"),
        pytest.param((FailureRule(exit_codes=(7,), action="Fail"),), FAILED, id="fail at once"),
        pytest.param((FailureRule(exit_codes=(8,), action="Fail"),), AGAIN, id="another code"),
        pytest.param(
            (
                FailureRule(exit_codes=(7,), action="Restart"),
                FailureRule(exit_codes=(7, 8), action="Fail"),
            ),
            AGAIN,
            id="the first rule that names the code wins",
        ),
    ],
)
def test_exit_code_rules(rules: tuple[FailureRule, ...], phase: JobPhase) -> None:
    job = a_job(failure_policy=FailurePolicy(restarts_max=1, rules=rules))
    after = after_end(job, Outcome.USER_ERROR, exit_code=7, run_time=seconds(1), knobs=KNOBS)
    assert after.phase is phase


def test_the_backoff_doubles_up_to_its_bound() -> None:
    waits = [backoff(failures, KNOBS) for failures in range(8)]
    assert waits == [seconds(s) for s in (10, 20, 40, 80, 160, 300, 300, 300)]
    assert backoff(10_000, KNOBS) == seconds(300)


def test_a_healthy_run_resets_the_backoff() -> None:
    job = replace(a_job(failure_policy=FailurePolicy(restarts_max=9)), failures_in_row=4)
    short = after_end(job, Outcome.USER_ERROR, exit_code=1, run_time=seconds(599), knobs=KNOBS)
    healthy = after_end(job, Outcome.USER_ERROR, exit_code=1, run_time=seconds(600), knobs=KNOBS)
    assert (short.backoff, short.failures_in_row) == (seconds(160), 5)
    assert (healthy.backoff, healthy.failures_in_row) == (seconds(10), 1)


def test_a_preempted_job_comes_back_at_once_and_uncounted() -> None:
    job = replace(a_job(), restarts_infra=2, failures_in_row=2)
    after = after_end(job, Outcome.PREEMPTED, exit_code=None, run_time=seconds(1), knobs=KNOBS)
    assert (after.phase, after.backoff) == (AGAIN, 0)
    assert (after.restarts_user, after.restarts_infra, after.failures_in_row) == (0, 2, 2)
