"""`bench.study live`: the real service, real workers, and their replay, in the smallest size."""

import pytest

from bench.study.live.replaying import recorded
from bench.study.live.running import real_run
from bench.study.live.workload import WorkloadSize

SMALLEST = WorkloadSize(jobs=4, length_median_s=1.0, length_max_s=2.0, length_min_s=0.5, looks=(3,))


@pytest.mark.slow
def test_a_real_run_is_lived_to_its_end_recorded_and_replayed() -> None:
    run = real_run("fifo", SMALLEST, 1)
    assert run.policy == "fifo"
    assert not run.cluster.pending
    assert not run.cluster.holding
    assert [life.name for life in run.lives] == [job.name for job in run.jobs]
    assert len(set(run.ids)) == SMALLEST.jobs
    for job, life in zip(run.jobs, run.lives, strict=True):
        assert life.attempts == 1
        assert len(life.nodes) == job.workers
        # A step takes what the service said that it takes there, and nobody can be faster.
        assert life.stepping_s >= 0.99 * job.steps * job.step_s[life.tiers[0]]
        assert life.submitted_s <= life.first_start_s < life.end_s
        assert life.overhead_s > 0
    assert len(run.starting_s) == len(run.ending_s) == SMALLEST.jobs
    for replay in recorded(run).replays:
        assert [life.name for life in replay.lives] == [job.name for job in run.jobs]
