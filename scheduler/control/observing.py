"""Ports -> Snapshot: what the loop knows, as one immutable view."""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.control.cluster_watch import ClusterWatch
from scheduler.control.live_jobs import LiveJobs
from scheduler.domain.copying import maker_of, quickly_made
from scheduler.domain.history import NOTHING_PAST, PastJobs
from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.job import submission_order
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import Blocked, ClusterUnreachable, StoreOutdated
from scheduler.domain.queue import Queue
from scheduler.domain.snapshot import Lengths, Measurements, Snapshot, StepTimes
from scheduler.domain.waits import WaitObservation


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """What is neither a job nor the cluster."""

    now: Instant
    knobs: PolicyKnobs
    queues: Mapping[QueueName, Queue]
    lengths: Lengths | None = None
    measured: Measurements | None = None
    step_times: StepTimes | None = None
    past_waits: tuple[WaitObservation, ...] = ()
    past_jobs: PastJobs = NOTHING_PAST


_snapshot = maker_of(Snapshot)


def snapshot_of(live: LiveJobs, watch: ClusterWatch, observed: Observed) -> Snapshot:
    """Everything a decision may look at, now."""
    assert live.sequence is not None
    return _snapshot(
        version=live.sequence,
        now=observed.now,
        levels=watch.levels,
        nodes=watch.nodes,
        pending=tuple(live.pending.values()),
        holding=tuple(live.attempts.values()),
        held_besides=live.held_besides,
        queues=observed.queues,
        knobs=observed.knobs,
        tree=watch.tree,
        lengths=observed.lengths,
        measured=observed.measured,
        step_times=observed.step_times,
        past_waits=observed.past_waits,
        past_jobs=observed.past_jobs,
        spread=tuple(live.spread.values()),
    )


def outage_answers(live: LiveJobs, since: Instant) -> dict[JobId, Blocked]:
    """Why jobs wait while the cluster does not answer."""
    return {
        job.id: ClusterUnreachable(since=since)
        for job in sorted(live.pending.values(), key=submission_order)
    }


def safe_mode_answers(live: LiveJobs, outdated: StoreOutdated) -> dict[JobId, Blocked]:
    """Why jobs wait while the store is known to be older than the cluster."""
    return {job.id: outdated for job in sorted(live.pending.values(), key=submission_order)}
