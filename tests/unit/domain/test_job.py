"""The lives of jobs and attempts follow their tables."""

import pytest

from scheduler.domain.errors import InvalidTransitionError
from scheduler.domain.job import (
    NEXT_ATTEMPT_PHASES,
    NEXT_JOB_PHASES,
    AttemptPhase,
    JobPhase,
)
from tests.builders import a_cluster, a_job, a_placement, an_attempt, at


@pytest.mark.parametrize("origin", list(JobPhase))
@pytest.mark.parametrize("target", list(JobPhase))
def test_a_job_moves_only_along_the_table(origin: JobPhase, target: JobPhase) -> None:
    job = a_job(phase=origin)
    if target in NEXT_JOB_PHASES[origin]:
        moved = job.moved_to(target, at=at(3))
        assert (moved.phase, moved.phase_since) == (target, at(3))
        assert (moved.ended_at is not None) == target.is_terminal
    else:
        with pytest.raises(InvalidTransitionError):
            job.moved_to(target, at=at(3))


@pytest.mark.parametrize("origin", list(AttemptPhase))
@pytest.mark.parametrize("target", list(AttemptPhase))
def test_an_attempt_moves_only_along_the_table(origin: AttemptPhase, target: AttemptPhase) -> None:
    job = a_job()
    attempt = an_attempt(job, a_placement(a_cluster("r1: 8"), job, {"r1-n0": 1}), phase=origin)
    if target in NEXT_ATTEMPT_PHASES[origin]:
        moved = attempt.moved_to(target, at=at(3))
        assert (moved.phase, moved.phase_since) == (target, at(3))
        assert (moved.ended_at is not None) == (target is AttemptPhase.ENDED)
    else:
        with pytest.raises(InvalidTransitionError):
            attempt.moved_to(target, at=at(3))


def test_terminal_is_for_ever() -> None:
    terminal = {phase for phase in JobPhase if phase.is_terminal}
    assert terminal == {JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED}
    assert all(not NEXT_JOB_PHASES[phase] for phase in terminal)


@pytest.mark.parametrize("phase", [phase for phase in JobPhase if not phase.is_terminal])
def test_from_every_phase_a_cancel_can_end(phase: JobPhase) -> None:
    targets = NEXT_JOB_PHASES[phase]
    assert JobPhase.CANCELLED in targets or JobPhase.STOPPING in targets


def test_a_job_whose_workers_all_ended_by_themselves_starts_again_without_stopping() -> None:
    assert JobPhase.PENDING in NEXT_JOB_PHASES[JobPhase.RUNNING]
    assert JobPhase.PENDING in NEXT_JOB_PHASES[JobPhase.STARTING]
