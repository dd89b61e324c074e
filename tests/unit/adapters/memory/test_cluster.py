"""The fake cluster does what its script says, at the instant it says so, and nothing else."""

import random
from itertools import groupby

import pytest

from scheduler.adapters.memory.clock import ManualClock
from scheduler.adapters.memory.cluster import MemoryCluster
from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant, after, seconds
from scheduler.domain.job import Outcome
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import GangOrder, WorkerReport, WorkerState
from tests.builders import a_node
from tests.gangs import a_key, an_order, report_of
from tests.proof import times

KEY = a_key()


def a_cluster(*scripts: WorkerScript) -> tuple[MemoryCluster, ManualClock]:
    """Two nodes of 8; rank n follows the nth script, the last script goes for all further ranks."""
    clock = ManualClock(Instant(1_000_000))

    def script(_order: GangOrder, rank: int) -> WorkerScript:
        return scripts[min(rank, len(scripts) - 1)] if scripts else WorkerScript()

    return MemoryCluster(clock, [a_node("n0"), a_node("n1")], script=script), clock


def states(cluster: MemoryCluster) -> dict[int, WorkerState]:
    return {report.rank: report.state for report in cluster.observe().workers}


def test_a_worker_is_made_when_its_script_says_so() -> None:
    cluster, clock = a_cluster(WorkerScript(make_after=seconds(5)))
    cluster.prepare(an_order())
    assert states(cluster) == {}
    assert cluster.observe().attempts_complete == frozenset()
    assert cluster.next_change() == Instant(6_000_000)
    clock.advance(seconds(5))
    assert states(cluster) == {0: WorkerState.MADE}
    assert cluster.observe().attempts_complete == {KEY}


def test_a_gang_asked_to_run_early_runs_from_the_instant_its_last_worker_is_made() -> None:
    cluster, clock = a_cluster(WorkerScript(), WorkerScript(make_after=seconds(5)))
    cluster.prepare(an_order(nodes={"n0": 2}))
    cluster.release(KEY)
    clock.advance(seconds(4))
    assert states(cluster) == {0: WorkerState.MADE}
    clock.advance(seconds(60))
    assert states(cluster) == {0: WorkerState.RUNNING, 1: WorkerState.RUNNING}
    report = report_of(cluster.observe(), KEY, 0)
    assert report is not None
    assert report.started_at == Instant(6_000_000)


def test_a_gang_with_a_refused_worker_never_runs() -> None:
    cluster, clock = a_cluster(
        WorkerScript(), WorkerScript(refusal=Outcome.ADMISSION_REJECTED, message="no room")
    )
    cluster.prepare(an_order(nodes={"n0": 2}))
    cluster.release(KEY)
    clock.advance(seconds(60))
    assert states(cluster) == {0: WorkerState.MADE, 1: WorkerState.REFUSED}
    report = report_of(cluster.observe(), KEY, 1)
    assert report is not None
    assert (report.outcome, report.message) == (Outcome.ADMISSION_REJECTED, "no room")


def test_the_next_change_is_the_earliest_one_of_all_workers() -> None:
    cluster, clock = a_cluster(
        WorkerScript(run_for=seconds(30)), WorkerScript(run_for=seconds(20), exit_code=3)
    )
    cluster.prepare(an_order(nodes={"n0": 2}))
    cluster.release(KEY)
    assert cluster.next_change() == Instant(21_000_000)
    clock.advance_to(Instant(21_000_000))
    assert states(cluster) == {0: WorkerState.RUNNING, 1: WorkerState.ENDED}
    clock.advance_to(Instant(31_000_000))
    assert cluster.next_change() is None


def test_a_lost_node_takes_its_workers_and_leaves_the_others() -> None:
    cluster, _ = a_cluster()
    cluster.prepare(an_order(nodes={"n0": 1, "n1": 1}))
    cluster.release(KEY)
    cluster.lose_node("n1")
    view = cluster.observe()
    assert states(cluster) == {0: WorkerState.RUNNING, 1: WorkerState.GONE}
    assert [(node.name, node.is_ready) for node in view.nodes] == [("n0", True), ("n1", False)]
    report = report_of(view, KEY, 1)
    assert report is not None
    assert report.outcome is Outcome.NODE_LOST


def test_calls_made_while_the_cluster_is_cut_off_are_carried_out_when_it_is_back() -> None:
    cluster, clock = a_cluster(WorkerScript(run_for=seconds(10)))
    cluster.prepare(an_order())
    cluster.release(KEY)
    cluster.cut()
    cluster.prepare(an_order(job="job-2"))
    clock.advance(seconds(20))
    view = cluster.observe()
    assert not view.is_reachable
    assert [(report.attempt, report.state) for report in view.workers] == [
        (KEY, WorkerState.RUNNING)
    ]
    cluster.mend()
    view = cluster.observe()
    assert view.is_reachable
    assert [(report.attempt.job_id, report.state) for report in view.workers] == [
        ("job-1", WorkerState.ENDED),
        ("job-2", WorkerState.MADE),
    ]


def test_a_forgotten_gang_keeps_its_log_and_is_not_made_again() -> None:
    cluster, _ = a_cluster(WorkerScript(log=b"one\ntwo\n", run_for=seconds(0)))
    cluster.prepare(an_order())
    cluster.release(KEY)
    cluster.forget(KEY)
    cluster.prepare(an_order())
    assert cluster.observe().workers == ()
    assert len(cluster.orders) == 1
    start = cluster.tail_offset(KEY, Rank(0), lines=1)
    chunk = cluster.read(KEY, Rank(0), offset=start, bytes_max=100)
    assert (chunk.data, chunk.is_end) == (b"two\n", True)


def test_the_check_finds_gpus_given_twice() -> None:
    cluster, _ = a_cluster()
    cluster.prepare(an_order(gpus_per_worker=8))
    cluster.check()
    cluster.prepare(an_order(job="job-2", gpus_per_worker=1))
    with pytest.raises(AssertionError, match="n0: 9 of 8 GPUs"):
        cluster.check()


def test_the_check_finds_two_attempts_of_one_job_that_run_at_once() -> None:
    cluster, _ = a_cluster()
    for number in (0, 1):
        cluster.prepare(an_order(number=number))
        cluster.release(a_key(number=number))
    with pytest.raises(AssertionError, match="run at once"):
        cluster.check()


def test_a_change_set_holds_what_calls_and_time_have_changed_and_nothing_else() -> None:
    cluster, clock = a_cluster(WorkerScript(run_for=seconds(10)))
    for job in ("job-1", "job-2", "job-3"):
        cluster.prepare(an_order(job=job))
    cluster.release(a_key("job-1"))
    first = cluster.observe()
    cluster.release(a_key("job-2"))
    second = cluster.observe(first.sequence)
    assert [report.attempt.job_id for report in second.workers] == ["job-2"]
    clock.advance(seconds(10))
    third = cluster.observe(second.sequence)
    assert [report.attempt.job_id for report in third.workers] == ["job-1", "job-2"]
    assert third.nodes is first.nodes
    assert cluster.observe(third.sequence).workers == ()


@pytest.mark.proof
@pytest.mark.parametrize("seed", range(times(ci=20, proof=2_000)))
def test_the_change_sets_of_a_random_run_add_up_to_the_whole_view(seed: int) -> None:
    rng = random.Random(seed)
    scripts = [
        WorkerScript(
            make_after=seconds(rng.randrange(3)),
            run_for=rng.choice([None, seconds(rng.randrange(9))]),
            stop_after=rng.choice([None, seconds(rng.randrange(3))]),
        )
        for _ in range(4)
    ]
    cluster, clock = a_cluster(*scripts)
    keys = [a_key(f"job-{number}") for number in range(5)]
    seen: dict[AttemptKey, tuple[WorkerReport, ...]] = {}
    sequence = None
    for _ in range(60):
        key = rng.choice(keys)
        match rng.randrange(4):
            case 0:
                cluster.prepare(an_order(job=key.job_id, nodes={"n0": 2, "n1": 2}))
            case 1:
                cluster.release(key)
            case 2:
                cluster.stop(key, kill_at=after(clock.now(), seconds(rng.randrange(4))))
            case _:
                clock.advance(seconds(rng.randrange(3)))
        changes = cluster.observe(sequence)
        sequence = changes.sequence
        for attempt, reports in groupby(changes.workers, key=lambda report: report.attempt):
            seen[attempt] = tuple(reports)
        whole = [report for _, reports in sorted(seen.items()) for report in reports]
        assert tuple(whole) == cluster.observe().workers, f"reproduce with {seed=}"
