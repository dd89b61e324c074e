"""What a decision says, in its short form; and the same job by job, for those who ask why.

Alike jobs get one answer, and behind a job that holds up its queue all get the same kind of answer:
so it costs what was decided, and `answers_of` what waits.
"""

from dataclasses import dataclass, field

from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.placement import BackingOff, BehindHead, Blocked
from scheduler.domain.plan import Plan
from scheduler.engine.standing import Standing
from scheduler.engine.waiting import Kind, Waiting


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A plan without its answers, and the answers in short."""

    plan: Plan
    blocked: dict[JobId, Blocked] = field(default_factory=dict)
    """Jobs with an answer of their own."""
    alike: dict[Kind, Blocked] = field(default_factory=dict)
    """Kinds of which all (other) jobs get this answer."""
    stuck: dict[QueueName, JobId] = field(default_factory=dict)
    """Queues in which nothing may pass this job."""


def answers_of(decision: Decision, standing: Standing, now: Instant) -> dict[JobId, Blocked]:
    """Why each job in the line waits, in order: those in back-off come last.

    Right only as long as nobody joins the line; jobs that start have to leave it first.
    """
    answers: dict[JobId, Blocked] = {}
    ahead: dict[QueueName, int] = {}
    started = {start.job_id for start in decision.plan.start}
    for waiting in standing.line.walk():
        job_id, queue = waiting.job.id, waiting.kind.queue
        if job_id in started:
            continue
        if queue in ahead:
            answers[job_id] = BehindHead(jobs_ahead=ahead[queue])
            ahead[queue] += 1
            continue
        answers[job_id] = _answer(waiting, decision)
        if decision.stuck.get(queue) == job_id:
            ahead[queue] = 1
    for job in sorted(standing.line.resting(now), key=lambda job: (job.submitted_at, job.id)):
        assert job.not_before is not None
        restarts = job.restarts_user + job.restarts_infra
        answers[job.id] = BackingOff(until=job.not_before, restarts=restarts, said=job.message)
    return answers


def _answer(waiting: Waiting, decision: Decision) -> Blocked:
    own = decision.blocked.get(waiting.job.id)
    return decision.alike[waiting.kind] if own is None else own
