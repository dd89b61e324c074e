"""Reports are stored with what they teach, whoever else learns of the same job meanwhile."""

from collections.abc import Mapping, Sequence

import pytest

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.control.estimating import Distances, job_estimates
from scheduler.control.learning import TRIES_MAX, take_in
from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.ids import JobId, NodeName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Attempt
from scheduler.domain.progress import Progress
from scheduler.domain.step_times import LearnedStepTimes
from scheduler.network.workload import Source
from scheduler.ports.job_store import StoredStepTimes
from scheduler.ports.unit import InsertJob, SaveAttempt, SaveStepTimes, Unit
from tests.builders import a_cluster, a_job, a_placement, an_attempt

CLUSTER = a_cluster("r1: 8 8\nr2: 8 8")
DECLARED = CommunicationProfile(gradient_bytes=10**9, compute_s=0.1)
JOB = a_job("train", workers=2, gpus=8, communication=DECLARED)
ATTEMPT = an_attempt(JOB, a_placement(CLUSTER, JOB, {"r1-n0": 1, "r1-n1": 1}))
DISTANCES = Distances(CLUSTER.levels, CLUSTER.nodes)


def a_report(step_s: float) -> Progress:
    return Progress(step=1, step_seconds=step_s, reported_at=Instant(1))


def filled(store: MemoryStore) -> MemoryStore:
    store.write(Unit(changes=(InsertJob(job=JOB), SaveAttempt(attempt=ATTEMPT))))
    return store


def learned(store: MemoryStore) -> LearnedStepTimes:
    return store.step_times([JOB.id])[JOB.id].times


def test_what_reports_teach_is_stored_and_corrects_the_estimate() -> None:
    store = filled(MemoryStore())
    for _ in range(20):
        take_in(store, JOB, ATTEMPT, a_report(3.0), DISTANCES)
    (tier,) = learned(store).tiers
    assert (tier.level, tier.samples) == ("rack", 20)
    (estimate,) = job_estimates(store, JOB, DISTANCES)
    rack = next(t for t in estimate.sensitivity.tiers if t.level == "rack")
    assert rack.source is Source.MEASURED
    assert rack.measured_s == pytest.approx(3.0)
    assert len(store.progress(JOB.id)) == 20


def test_a_step_that_took_no_time_is_stored_and_teaches_nothing() -> None:
    store = filled(MemoryStore())
    take_in(store, JOB, ATTEMPT, a_report(0.0), DISTANCES)
    assert learned(store).tiers == ()
    assert len(store.progress(JOB.id)) == 1


def test_an_attempt_whose_node_is_gone_teaches_nothing() -> None:
    store = filled(MemoryStore())
    others = [node for node in CLUSTER.nodes if node.name != NodeName("r1-n1")]
    take_in(store, JOB, ATTEMPT, a_report(3.0), Distances(CLUSTER.levels, others))
    assert learned(store).tiers == ()
    assert len(store.progress(JOB.id)) == 1


class Contested(MemoryStore):
    """A store in which another learns of the job just after each of the first reads."""

    def __init__(self, attempt: Attempt, *, times: int) -> None:
        super().__init__()
        self.attempt = attempt
        self.times = times

    def step_times(self, job_ids: Sequence[JobId]) -> Mapping[JobId, StoredStepTimes]:
        """As before the other wrote."""
        found = super().step_times(job_ids)
        if self.times:
            self.times -= 1
            stored = found.get(JOB.id, StoredStepTimes())
            taught = DISTANCES.learned(JOB.spec, self.attempt, a_report(3.0), stored.times)
            save = SaveStepTimes(job_id=JOB.id, times=taught, expected_revision=stored.revision)
            self.write(Unit(changes=(save,)))
        return found


def test_nothing_of_what_two_learn_at_once_is_lost() -> None:
    store = filled(Contested(ATTEMPT, times=2))
    take_in(store, JOB, ATTEMPT, a_report(3.0), DISTANCES)
    (tier,) = learned(store).tiers
    assert tier.samples == 3
    assert len(store.progress(JOB.id)) == 1


def test_a_report_is_stored_even_when_others_learn_all_the_time() -> None:
    store = filled(Contested(ATTEMPT, times=TRIES_MAX))
    take_in(store, JOB, ATTEMPT, a_report(3.0), DISTANCES)
    (tier,) = learned(store).tiers
    assert tier.samples == TRIES_MAX
    assert len(store.progress(JOB.id)) == 1
