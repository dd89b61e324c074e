"""decide(): one decision, from a Snapshot to a Plan, in numbered steps."""

from dataclasses import dataclass, field, replace

from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.placement import Blocked, LevelMissing, NeverFits, Placement, PoolMissing
from scheduler.domain.plan import Plan, Start
from scheduler.domain.snapshot import Snapshot
from scheduler.engine.decision import Decision, answers_of
from scheduler.engine.placing import place_gang
from scheduler.engine.standing import Standing
from scheduler.engine.waiting import Kind, Waiting, Walk
from scheduler.policies.interface import Offer, Policy, PolicyMaker
from scheduler.policies.registry import policy_named

HOPELESS = (NeverFits, PoolMissing, LevelMissing)
"""A job that waiting can not help does not hold up those behind it."""


def decide(snapshot: Snapshot, policy_maker: PolicyMaker) -> Plan:
    """What to start now, and why each other pending job waits."""
    standing = Standing.of(snapshot)
    decision = decide_on(standing, snapshot, policy_maker)
    return replace(decision.plan, blocked=answers_of(decision, standing, snapshot.now))


def decide_by_knobs(standing: Standing, snapshot: Snapshot) -> Decision:
    """The decision of the policy that the snapshot's knobs name. NotFoundError if there is none."""
    return decide_on(standing, snapshot, policy_named(snapshot.knobs.policy))


def decide_on(standing: Standing, snapshot: Snapshot, policy_maker: PolicyMaker) -> Decision:
    """The same decision, on a standing that holds the snapshot's facts."""
    # 1. Put the waiting line in the policy's order.
    policy = policy_maker(snapshot)
    standing.line.sort(policy, snapshot.now)
    cycle = _Cycle(standing=standing, policy=policy, walk=standing.line.walk())

    # 2. Walk it; each job is placed on what nobody holds, or says why not.
    with standing.free.trial():
        for waiting in cycle.walk:
            _consider(waiting, cycle)

    # 3. What holds until something is taken or freed is not asked again.
    if not cycle.start:
        standing.parked.update(cycle.parked)
    plan = Plan(
        made_on=snapshot.version,
        start=tuple(cycle.start),
        next_wakeup=_next_wakeup(policy, standing),
    )
    return Decision(plan=plan, blocked=cycle.blocked, alike=cycle.alike, stuck=cycle.stuck)


@dataclass(slots=True, kw_only=True)
class _Cycle:
    """The scratch pad of one decision."""

    standing: Standing
    policy: Policy
    walk: Walk
    start: list[Start] = field(default_factory=list)
    blocked: dict[JobId, Blocked] = field(default_factory=dict)
    alike: dict[Kind, Blocked] = field(default_factory=dict)
    stuck: dict[QueueName, JobId] = field(default_factory=dict)
    parked: dict[int, Blocked] = field(default_factory=dict)
    """Equal requests get one answer a cycle: what is free only shrinks while it lasts."""


def _consider(waiting: Waiting, cycle: _Cycle) -> None:
    job = waiting.job
    answer = _place(waiting, cycle)
    if isinstance(answer, Placement):
        declined = cycle.policy.accept(job, Offer(placement=answer))
        if declined is None:
            cycle.standing.free.take(answer, waiting.request)
            cycle.start.append(Start(job_id=job.id, revision=job.revision, placement=answer))
            return
        cycle.blocked[job.id] = declined
    else:
        cycle.alike[waiting.kind] = answer
        cycle.walk.shut(waiting.kind)
        if isinstance(answer, HOPELESS):
            return
    if cycle.policy.blocks_later(job):
        cycle.stuck[waiting.kind.queue] = job.id
        cycle.walk.shut_queue(waiting.kind.queue)


def _place(waiting: Waiting, cycle: _Cycle) -> Placement | Blocked:
    number = waiting.kind.request
    known = cycle.parked.get(number)
    if known is None and not cycle.start:
        known = cycle.standing.parked.get(number)
    if known is None:
        answer = place_gang(waiting.request, cycle.standing.free)
        if isinstance(answer, Placement):
            return answer
        known = answer
    cycle.parked[number] = known
    return known


def _next_wakeup(policy: Policy, standing: Standing) -> Instant | None:
    instants = (standing.line.next_rest_end(), policy.next_decision_at())
    return min((at for at in instants if at is not None), default=None)
