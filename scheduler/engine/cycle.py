"""decide(): one decision, from a Snapshot to a Plan, in numbered steps."""

from dataclasses import dataclass, field

from scheduler.domain.gang import GangRequest, NumberedRequest, gang_request
from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.domain.placement import (
    BackingOff,
    BehindHead,
    Blocked,
    LevelMissing,
    NeverFits,
    Placement,
    PoolMissing,
)
from scheduler.domain.plan import Plan, Start
from scheduler.domain.snapshot import Snapshot
from scheduler.domain.topology import topology_tree
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang
from scheduler.policies.interface import Offer, Policy, PolicyMaker
from scheduler.policies.registry import policy_named

HOPELESS = (NeverFits, PoolMissing, LevelMissing)
"""A job that waiting can not help does not hold up those behind it."""


def decide_by_knobs(snapshot: Snapshot) -> Plan:
    """The decision of the policy that the snapshot's knobs name. NotFoundError if there is none."""
    return decide(snapshot, policy_named(snapshot.knobs.policy))


def decide(snapshot: Snapshot, policy_maker: PolicyMaker) -> Plan:
    """What to start now, and why each other pending job waits."""
    # 1. Start from what nobody holds.
    cycle = _Cycle(snapshot=snapshot, free=free_gpus(snapshot))

    # 2. Walk the queues in the policy's order; each job is placed, or says why not.
    policy = policy_maker(snapshot)
    for job in policy.order():
        answer = _consider(job, policy, cycle)
        if isinstance(answer, Placement):
            cycle.start.append(Start(job_id=job.id, revision=job.revision, placement=answer))
        else:
            cycle.blocked[job.id] = answer

    # 3. What holds until something changes is not asked again.
    parked = {} if cycle.start else cycle.parked
    return Plan(
        made_on=snapshot.version,
        start=tuple(cycle.start),
        blocked=cycle.blocked,
        parked=parked,
        next_wakeup=_next_wakeup(policy, cycle),
    )


def free_gpus(snapshot: Snapshot) -> FreeGpus:
    """What nobody holds."""
    tree = snapshot.tree or topology_tree(snapshot.levels, snapshot.nodes)
    free = FreeGpus(tree, snapshot.nodes)
    for gang in snapshot.holding:
        free.hold(gang.reservations)
    return free


@dataclass(slots=True, kw_only=True)
class _Cycle:
    """The scratch pad of one decision."""

    snapshot: Snapshot
    free: FreeGpus
    start: list[Start] = field(default_factory=list)
    blocked: dict[JobId, Blocked] = field(default_factory=dict)
    answers: dict[int, Blocked] = field(default_factory=dict)
    """By number of the request. Equal ones get one answer a cycle: what is free only shrinks."""
    parked: dict[GangRequest, Blocked] = field(default_factory=dict)
    """The same answers by request."""
    numbered: dict[GangRequest, NumberedRequest] = field(default_factory=dict)
    """Requests that are numbered here, because the snapshot brings none."""

    def request_of(self, job: Job) -> NumberedRequest:
        """What the job asks for."""
        known = self.snapshot.requests.get(job.id)
        if known is not None:
            return known
        request = gang_request(job.spec)
        return self.numbered.setdefault(request, NumberedRequest(len(self.numbered), request))

    stuck_ahead: dict[QueueName, int] = field(default_factory=dict)
    """Jobs that stayed behind in queues where nothing may pass them."""


def _consider(job: Job, policy: Policy, cycle: _Cycle) -> Placement | Blocked:
    if job.not_before is not None and job.not_before > cycle.snapshot.now:
        return BackingOff(until=job.not_before, restarts=job.restarts_user + job.restarts_infra)
    ahead = cycle.stuck_ahead.get(job.spec.queue)
    if ahead is not None:
        cycle.stuck_ahead[job.spec.queue] = ahead + 1
        return BehindHead(jobs_ahead=ahead)
    answer = _place(job, policy, cycle)
    if isinstance(answer, (Placement, *HOPELESS)):
        return answer
    if policy.blocks_later(job):
        cycle.stuck_ahead[job.spec.queue] = 1
    return answer


def _place(job: Job, policy: Policy, cycle: _Cycle) -> Placement | Blocked:
    number, request = cycle.request_of(job)
    known = cycle.answers.get(number)
    if known is not None:
        return known
    known = None if cycle.start else cycle.snapshot.parked.get(request)
    answer = place_gang(request, cycle.free) if known is None else known
    if not isinstance(answer, Placement):
        cycle.answers[number] = cycle.parked[request] = answer
        return answer
    declined = policy.accept(job, Offer(placement=answer))
    if declined is not None:
        return declined
    cycle.free.take(answer, request)
    return answer


def _next_wakeup(policy: Policy, cycle: _Cycle) -> Instant | None:
    now = cycle.snapshot.now
    instants = [
        job.not_before
        for job in cycle.snapshot.pending
        if job.not_before is not None and job.not_before > now
    ]
    policy_at = policy.next_decision_at()
    if policy_at is not None:
        instants.append(policy_at)
    return min(instants, default=None)
