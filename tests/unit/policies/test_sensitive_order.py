"""What goes first under Dally: attained service, learned lengths, or who communicates most."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import hypothesis.strategies as st
import pytest
from hypothesis import given

from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.history import PastJobs
from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import SECOND, Duration
from scheduler.domain.job import Job
from scheduler.domain.knobs import JobOrder, PolicyKnobs
from scheduler.domain.queue import DEFAULT_QUEUE
from scheduler.domain.snapshot import Measured, Snapshot
from scheduler.domain.topology import topology_tree
from scheduler.domain.waits import JobEnd
from scheduler.engine.ladders import Ladders
from scheduler.policies.dally import Dally
from scheduler.policies.sensitive_order import SensitiveOrder
from tests.builders import a_cluster, a_job, a_running_gang, a_snapshot, at
from tests.step_times import SaidStepTimes


@dataclass(frozen=True)
class SaidMeasurements:
    """Share of computation in the steps of jobs, by job, over an hour of run time."""

    shares: Mapping[JobId, float]

    def of(self, job_id: JobId) -> Measured | None:
        """See Measurements."""
        share = self.shares.get(job_id)
        if share is None:
            return None
        return Measured(steps=1, step_s=1.0, compute_s=3600 * share, best_s=3600, run_s=3600)


def ends(*ran_s: float) -> PastJobs:
    return PastJobs(
        version=1,
        ends=tuple(
            JobEnd(
                job_id=JobId(f"past-{number}"),
                queue=DEFAULT_QUEUE,
                gpus=1,
                ran_for=Duration(round(run_time * SECOND)),
                is_complete=True,
                at=at(0),
            )
            for number, run_time in enumerate(ran_s)
        ),
    )


def order(kind: JobOrder, *jobs: Job, **facts: object) -> list[str]:
    snapshot: Snapshot = replace(
        a_snapshot(pending=jobs, now=at(7200), knobs=PolicyKnobs(order=kind)),
        step_times=SaidStepTimes({}),
        **facts,  # type: ignore[arg-type]  # fields of a snapshot
    )
    return [job.name for job in sorted(jobs, key=SensitiveOrder(snapshot).key)]


def ran(name: str, seconds: float, *, priority: int = 0) -> Job:
    return replace(
        a_job(name, gpus=1, priority=priority), ran_for=Duration(round(seconds * SECOND))
    )


def test_under_five_ends_less_service_goes_first_class_by_class() -> None:
    jobs = (ran("old", 20_000), ran("young", 3_599))
    past = [20_100.0] * 4
    assert order(JobOrder.GITTINS, *jobs, past_jobs=ends(*past)) == ["young", "old"]
    assert order(JobOrder.GITTINS, *jobs, past_jobs=ends(*past, *past)) == ["old", "young"]


def test_learned_lengths_put_first_what_is_likely_to_end_soon() -> None:
    # Either over within a minute or five hours long: who has run for four ends soonest.
    past = ends(*[50] * 10, *[18_000] * 60)
    jobs = (ran("middle", 100), ran("nearly done", 17_000))
    assert order(JobOrder.GITTINS, *jobs, past_jobs=past) == ["nearly done", "middle"]
    assert order(JobOrder.LAS, *jobs, past_jobs=past) == ["middle", "nearly done"]


@pytest.mark.parametrize(
    ("begun_s", "first"),
    [
        # In a heavy tail an index falls by half with each class: 64 to 128, 128 to 256 ...
        pytest.param(200, "begun", id="half as likely"),
        pytest.param(1_000, "new", id="an eighth as likely"),
    ],
)
def test_who_has_begun_goes_on_unless_a_new_job_is_far_more_likely_to_end_soon(
    begun_s: float, first: str
) -> None:
    heavy = ends(*[40.0 * 2**k for k in range(12) for _ in range(2 ** (11 - k))])
    new, begun = ran("new", 0), ran("begun", begun_s)
    assert order(JobOrder.GITTINS, new, begun, past_jobs=heavy)[0] == first


def test_the_lengths_of_a_queue_order_its_own_jobs_and_those_of_all_the_others() -> None:
    past = ends(*[100.0] * 6, *[90_000.0] * 60)
    short = QueueName("short")
    of_short = tuple(replace(end, queue=short) for end in past.ends[:6])
    snapshot = replace(
        a_snapshot(now=at(7200)), past_jobs=replace(past, ends=of_short + past.ends[6:])
    )
    place = SensitiveOrder(snapshot).key
    new, other = (place(a_job("new", gpus=1, queue=queue))[1] for queue in ("short", "other"))
    alone = SensitiveOrder(replace(snapshot, past_jobs=replace(past, ends=of_short)))
    assert new == alone.key(a_job("new", gpus=1, queue="short"))[1]
    assert float(new) < float(other)


@given(
    ended_s=st.lists(st.integers(0, 10**7), max_size=12),
    ran_s=st.tuples(st.integers(0, 10**7), st.integers(0, 10**7)),
    priorities=st.tuples(st.integers(-1, 1), st.integers(-1, 1)),
    kind=st.sampled_from([JobOrder.GITTINS, JobOrder.LAS, JobOrder.N4]),
)
def test_who_is_stopped_for_a_job_does_not_come_back_before_it(
    ended_s: list[int], ran_s: tuple[int, int], priorities: tuple[int, int], kind: JobOrder
) -> None:
    knobs = PolicyKnobs(order=kind, order_stops=True)
    seen = a_snapshot(now=at(0), knobs=knobs)
    policy = Dally(replace(seen, past_jobs=ends(*ended_s), step_times=SaidStepTimes({})))
    jobs = [ran(n, s, priority=p) for n, s, p in zip("ab", ran_s, priorities, strict=True)]
    waits = [policy.key(job) for job in jobs]
    stays = [policy.rank(a_running_gang(a_cluster("r1: 8"), job, {"r1-n0": 1})) for job in jobs]
    assert not (waits[0] < stays[1] and waits[1] < stays[0])
    # Nor is one stopped for another that is just like it.
    assert all(stay < wait for stay, wait in zip(stays, waits, strict=True))


def test_a_gang_that_runs_stands_before_one_like_it_that_waits() -> None:
    """A stop has a certain price: by a fifth more than the same job waiting."""
    job = ran("waits", 4_000)
    runs = a_running_gang(a_cluster("r1: 8 8"), ran("runs", 4_000), {"r1-n0": 1}, since=at(7200))
    snapshot = replace(a_snapshot(now=at(7200)), past_jobs=ends(*[8_000.0] * 60))
    places = SensitiveOrder(snapshot)
    waiting = places.key(job)[1]
    assert places.standing_to_stay(runs)[0] == pytest.approx(1.2 * float(waiting))


@pytest.mark.parametrize("kind", list(JobOrder))
def test_priority_goes_before_every_order(kind: JobOrder) -> None:
    jobs = (ran("low", 0), ran("high", 50_000, priority=5))
    assert order(kind, *jobs) == ["high", "low"]


@pytest.mark.parametrize("kind", [JobOrder.N1, JobOrder.N2, JobOrder.N3])
def test_who_was_measured_to_communicate_most_goes_first(kind: JobOrder) -> None:
    jobs = (a_job("computes"), a_job("talks"))
    measured = SaidMeasurements({jobs[0].id: 0.99, jobs[1].id: 0.3})
    assert order(kind, *jobs, measured=measured) == ["talks", "computes"]


def test_n4_counts_only_the_computing_part_of_attained_service() -> None:
    jobs = (ran("computes", 4_000), ran("talks", 4_000))
    measured = SaidMeasurements({jobs[0].id: 1.0, jobs[1].id: 0.3})
    assert order(JobOrder.N4, *jobs, measured=measured) == ["talks", "computes"]


@pytest.mark.parametrize("kind", list(JobOrder))
def test_t14_what_a_job_declares_never_ranks_it(kind: JobOrder) -> None:
    tiny = CommunicationProfile(gradient_bytes=10**12, compute_s=1e-6)
    jobs = (a_job("a"), a_job("b", communication=tiny))
    assert order(kind, *jobs) == ["a", "b"]


@pytest.mark.parametrize("kind", list(JobOrder))
def test_jobs_without_a_quantum_are_ordered_as_well(kind: JobOrder) -> None:
    jobs = (a_job("a"), a_job("b"))
    knobs = PolicyKnobs(order=kind, quantum_restarts=0.0, quantum_checkpoints=0.0)
    assert order(kind, *jobs, knobs=knobs) == ["a", "b"]


@pytest.mark.parametrize("kind", JobOrder)
def test_places_are_given_anew_with_the_nodes_where_they_depend_on_them(kind: JobOrder) -> None:
    snapshot = a_snapshot("r1: 8 8", now=at(7200), knobs=PolicyKnobs(order=kind))
    tree = topology_tree(snapshot.levels, snapshot.nodes)
    snapshot = replace(snapshot, step_times=Ladders(tree, snapshot.nodes))
    other = replace(snapshot, step_times=Ladders(tree, snapshot.nodes[:1]))
    is_kept = SensitiveOrder(snapshot).version == SensitiveOrder(other).version
    assert is_kept is (kind in {JobOrder.GITTINS, JobOrder.LAS})
    assert SensitiveOrder(snapshot).version == SensitiveOrder(replace(snapshot)).version


def test_places_are_given_anew_when_the_knob_asks_for_more_ends() -> None:
    """A queue with ends enough for one number and too few for the other goes by another table."""
    snapshot = replace(a_snapshot(now=at(7200)), past_jobs=ends(*[60.0] * 12))
    more = replace(snapshot, knobs=PolicyKnobs(ends_min=10))
    assert SensitiveOrder(snapshot).version != SensitiveOrder(more).version
