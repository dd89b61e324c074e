"""`why`: the last answer of the decision cycle for one job, in words and numbers."""

from collections.abc import Mapping

from api.dependencies import Services
from api.jobs.schemas import PositionView, RoundView, WhyView
from api.times import render_instant
from scheduler.control.loop import CYCLE_TOLD_EVERY
from scheduler.domain.explain import explain, explain_stop, verdict, ways_out
from scheduler.domain.instants import Duration, elapsed, in_seconds
from scheduler.domain.job import Job, JobPhase
from scheduler.domain.placement import Blocked
from scheduler.ports.job_store import JobQuery
from scheduler.ports.unit import Answer, RecordCycle

STALE_AFTER = Duration(3 * CYCLE_TOLD_EVERY)
"""Three rounds: while a leader acts, a cycle is recorded at least that often."""

_SAID: Mapping[JobPhase, str] = {
    JobPhase.HELD: "held by a user; not considered until it is released",
    JobPhase.STARTING: "has a place; its workers are being made",
    JobPhase.RUNNING: "running",
    JobPhase.SUCCEEDED: "ended well",
}
_FIX: Mapping[JobPhase, str] = {JobPhase.HELD: "release it (dally release)"}


def why(services: Services, job: Job) -> WhyView:
    """Why the job is where it is."""
    cycle = services.store.last_cycle()
    answer = services.store.answer(job.id) if job.phase is JobPhase.PENDING else None
    if answer is not None:
        return _waiting(services, job, answer, cycle)
    return WhyView(
        job=job.name,
        project=job.project,
        phase=job.phase.value,
        verdict="NotYetConsidered" if job.phase is JobPhase.PENDING else job.phase.value,
        summary=_summary(job),
        since=render_instant(job.phase_since),
        round=_round(services, cycle),
        fix=[_FIX[job.phase]] if job.phase in _FIX else [],
    )


def _waiting(services: Services, job: Job, answer: Answer, cycle: RecordCycle | None) -> WhyView:
    return WhyView(
        job=job.name,
        project=job.project,
        phase=job.phase.value,
        verdict=verdict(answer.blocked).value,
        summary=explain(answer.blocked),
        since=render_instant(answer.at),
        round=_round(services, cycle),
        position=PositionView(
            in_queue=answer.position, of_queue=max(answer.position, _pending(services, job))
        ),
        counts=_counts(answer.blocked),
        fix=list(ways_out(answer.blocked)),
    )


def _summary(job: Job) -> str:
    if job.phase is JobPhase.PENDING:
        return "no decision cycle has looked at it yet"
    if job.phase is JobPhase.STOPPING and job.stop_requested is not None:
        return f"stopping: {explain_stop(job.stop_requested)}"
    return job.message or _SAID.get(job.phase, job.phase.value)


def _round(services: Services, cycle: RecordCycle | None) -> RoundView | None:
    if cycle is None:
        return None
    age = elapsed(cycle.at, services.clock.now())
    return RoundView(
        id=cycle.cycle,
        time=render_instant(cycle.at),
        age_seconds=in_seconds(age),
        is_stale=age > STALE_AFTER,
    )


def _pending(services: Services, job: Job) -> int:
    query = JobQuery(queue=job.spec.queue, phases=(JobPhase.PENDING,), limit=1)
    page = services.store.jobs(query)
    return len(page.jobs) + page.remaining


def _counts(blocked: Blocked) -> dict[str, int]:
    """Nodes by what keeps the gang off them; the rest adds up to `nodes`."""
    by_reason: Mapping[str, int] = getattr(blocked, "nodes_by_reason", {})
    nodes: int | None = getattr(blocked, "nodes", None)
    return {} if nodes is None else {"nodes": nodes, **by_reason}
