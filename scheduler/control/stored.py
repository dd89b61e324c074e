"""The snapshot of a store: what a decision would look at, read whole, by whoever asks."""

from scheduler.domain.cordon import with_cordons
from scheduler.domain.history import PastJobs
from scheduler.domain.ids import JobId
from scheduler.domain.instants import Instant
from scheduler.domain.job import JobPhase
from scheduler.domain.left_alone import with_exclusions
from scheduler.domain.reservation import Reservation
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.domain.topology import topology_tree
from scheduler.ports.job_store import JobStore


def stored_snapshot(store: JobStore, now: Instant) -> Snapshot:
    """Nodes, jobs, queues, knobs and what past jobs teach, as stored."""
    levels, told = store.topology()
    cordoned = with_cordons(told, {cordon.node: cordon for cordon in store.cordons()})
    nodes = with_exclusions(cordoned, store.exclusions(), now)
    state = store.live()
    jobs = {job.id: job for job in state.jobs}
    held: dict[JobId, list[Reservation]] = {}
    for reservation in sorted(state.reservations, key=lambda each: each.rank):
        held.setdefault(reservation.attempt.job_id, []).append(reservation)
    holding = tuple(
        RunningGang(
            job=jobs[attempt.job_id],
            attempt=attempt,
            reservations=tuple(held.get(attempt.job_id, ())),
        )
        for attempt in state.attempts
    )
    return Snapshot(
        version=state.sequence,
        now=now,
        levels=levels,
        nodes=nodes,
        pending=tuple(
            job
            for job in state.jobs
            if job.phase is JobPhase.PENDING and job.stop_requested is None
        ),
        holding=holding,
        held_besides=state.held_by_stuck,
        queues={queue.name: queue for queue in store.queues()},
        knobs=store.knobs(),
        tree=topology_tree(levels, nodes),
        steps_done={job_id: times.steps for job_id, times in store.live_step_times().items()},
        past_waits=store.past_waits(),
        past_jobs=PastJobs(ends=store.ended_jobs()),
    )
