"""decide(): one decision, from a Snapshot to a Plan, in numbered steps."""

from collections.abc import Iterator
from dataclasses import replace

from scheduler.domain.instants import Instant
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import Placement, PromisedGpus
from scheduler.domain.plan import Plan, Start, Withdrawal
from scheduler.domain.snapshot import Snapshot
from scheduler.engine.clocks import keep_clocks
from scheduler.engine.decision import Decision, answers_of
from scheduler.engine.holding import Holds, elders_of, hold
from scheduler.engine.moving import stop_for_others, upgrade
from scheduler.engine.reranking import rerank
from scheduler.engine.scratch import Scratch
from scheduler.engine.standing import Standing
from scheduler.engine.waiting import Waiting
from scheduler.policies.interface import Policy, PolicyMaker, Ranks
from scheduler.policies.registry import MOVING, STEADY, policy_named


def decide(snapshot: Snapshot, policy_maker: PolicyMaker) -> Plan:
    """What to start and stop now, and why each other pending job waits."""
    standing = Standing.of(snapshot)
    decision = decide_on(standing, snapshot, policy_maker)
    return replace(decision.plan, blocked=answers_of(decision, standing, snapshot.now))


def decide_by_knobs(standing: Standing, snapshot: Snapshot) -> Decision:
    """The decision of the policy that the snapshot's knobs name. NotFoundError if there is none."""
    return decide_on(standing, snapshot, policy_named(snapshot.knobs.policy))


def has_nothing_to_decide(standing: Standing, knobs: PolicyKnobs) -> bool:
    """Whether nobody waits, and the policy that the knobs name decides of nobody else."""
    return not len(standing.line) and knobs.policy in STEADY


def has_nobody_to_move(standing: Standing, knobs: PolicyKnobs) -> bool:
    """Whether nobody waits, and no gang would gain by the moves that the policy is left with."""
    return not len(standing.line) and standing.all_lie_well and knobs.policy in MOVING


def decide_on(standing: Standing, snapshot: Snapshot, policy_maker: PolicyMaker) -> Decision:
    """The same decision, on a standing that holds the snapshot's facts."""
    # 1. Put the waiting line in the policy's order.
    snapshot = _with_step_times(snapshot, standing)
    policy = policy_maker(snapshot)
    _rank_gangs(standing, snapshot, policy)
    if not len(standing.line) and _leaves_alone(policy, standing):
        # Nobody waits, and who runs stays where it is.
        at = _first(policy.next_decision_at(), _next_move_at(policy, standing))
        return Decision(plan=Plan(made_on=snapshot.version, next_wakeup=at))
    standing.line.sort(policy, snapshot.now)
    scratch = Scratch(
        snapshot=snapshot, standing=standing, policy=policy, walk=standing.line.walk()
    )

    with standing.free.trial():
        # 2. Jobs that gangs were stopped for start where these have left.
        _keep_promises(scratch)

        # 3. Walk the line. Running gangs are kept, or ranked with the jobs that wait.
        if policy.ranks is not None:
            _rerank(scratch, policy, policy.ranks)
        else:
            _walk(scratch, policy)

    # 5. What holds until something is taken or freed is not asked again.
    if not scratch.has_changed:
        standing.parked.update(scratch.parked)
    plan = Plan(
        made_on=snapshot.version,
        start=tuple(scratch.start),
        stop=tuple(scratch.stop),
        promise=tuple(scratch.promise),
        withdraw=tuple(_withdrawals(scratch)),
        waits=tuple(scratch.waits.values()),
        observations=tuple(scratch.observations),
        next_wakeup=_next_wakeup(scratch),
    )
    return Decision(plan=plan, blocked=scratch.blocked, alike=scratch.alike, stuck=scratch.stuck)


def _rank_gangs(standing: Standing, snapshot: Snapshot, policy: Policy) -> None:
    """Running gangs are ranked while anybody waits: else nobody is stopped for the order."""
    if policy.ranks is None:
        standing.ranking.clear()
    elif snapshot.pending:
        standing.ranking.renew(snapshot, policy.ranks)
    else:
        standing.ranking.keep(snapshot.holding)


def _leaves_alone(policy: Policy, standing: Standing) -> bool:
    """Whether no gang would gain by moving: without anybody waiting, none is stopped otherwise."""
    moves = policy.moves
    if moves is None:
        return True
    standing.all_lie_well = standing.all_lie_well or not moves.slow_gangs()
    return standing.all_lie_well or not moves.upgradable()


def _keep_promises(scratch: Scratch) -> None:
    """Start jobs where it was promised to them, if the others have left; else nobody else may."""
    standing = scratch.standing
    promised = [standing.line[job_id] for job_id in standing.promises]
    for waiting in sorted(promised, key=lambda waiting: (waiting.key or (), waiting.job.id)):
        placement = standing.promises[waiting.job.id]
        names = {assignment.node for assignment in placement.assignments}
        rests_until = waiting.job.not_before
        rests = rests_until is not None and rests_until > scratch.snapshot.now
        if rests or not all(standing.takes_workers(name) for name in names):
            # It failed as it was to move, or a node is lost: the job has to look elsewhere when it
            # can, and what is left is anybody's.
            standing.free.release(placement, waiting.request)
            scratch.void.append(waiting.job)
            scratch.has_changed = True
            continue
        scratch.settled.add(waiting.job.id)
        if standing.is_covered(names):
            job = waiting.job
            scratch.start.append(Start(job_id=job.id, revision=job.revision, placement=placement))
        else:
            scratch.blocked[waiting.job.id] = PromisedGpus(
                level=placement.tier_name, nodes=len(names), gpus=waiting.request.gpus
            )


def _withdrawals(scratch: Scratch) -> Iterator[Withdrawal]:
    """Void promises that no start and no other promise takes the place of."""
    replaced = {start.job_id for start in scratch.start}
    replaced |= {promise.job_id for promise in scratch.promise}
    for job in scratch.void:
        if job.id not in replaced:
            yield Withdrawal(job_id=job.id, revision=job.revision)


def _walk(scratch: Scratch, policy: Policy) -> None:
    """Elders first, then the line in order; then gangs that are stopped so that others run closer;
    then the clocks of those who declined run or stand."""
    holds = _elders_first(scratch, policy)
    for waiting in scratch.walk:
        if waiting.job.id not in scratch.settled:
            _consider(waiting, scratch, holds)
    if policy.moves is not None:
        stop_for_others(scratch, policy.moves)
    _close_up(scratch, policy, holds)


def _rerank(scratch: Scratch, policy: Policy, ranks: Ranks) -> None:
    """The same with running gangs ranked among the jobs that wait: who is stopped follows."""
    holds = _elders_first(scratch, policy)
    rerank(scratch, ranks, holds)
    _close_up(scratch, policy, holds)


def _elders_first(scratch: Scratch, policy: Policy) -> Holds | None:
    if policy.elders is None:
        return None
    holds = Holds(scratch, policy.elders)
    for waiting in elders_of(scratch, policy.elders):
        _consider_elder(waiting, scratch, holds)
    return holds


def _close_up(scratch: Scratch, policy: Policy, holds: Holds | None) -> None:
    """Gangs move closer together, clocks run or stand, and held domains are anybody's again."""
    if policy.moves is not None:
        upgrade(scratch, policy.moves)
    if policy.patience is not None:
        keep_clocks(scratch, policy.patience)
    if holds is not None:
        holds.open()


def _consider_elder(waiting: Waiting, scratch: Scratch, holds: Holds) -> None:
    """It gets an answer of its own before anybody else is asked."""
    scratch.settled.add(waiting.job.id)
    answer = scratch.place(waiting)
    if not isinstance(answer, Placement):
        answer = holds.instead(waiting) or answer
    if not isinstance(answer, Placement):
        scratch.blocked[waiting.job.id] = answer
        hold(waiting, answer, holds)
    elif scratch.accepts(waiting, answer):
        scratch.begin(waiting, answer)


def _consider(waiting: Waiting, scratch: Scratch, holds: Holds | None) -> None:
    answer = scratch.place(waiting)
    if holds is not None and not isinstance(answer, Placement):
        answer = holds.instead(waiting) or answer
    if isinstance(answer, Placement):
        if scratch.accepts(waiting, answer):
            scratch.begin(waiting, answer)
            return
    else:
        scratch.refuse(waiting, answer)
    scratch.hold_up(waiting, answer)


def _with_step_times(snapshot: Snapshot, standing: Standing) -> Snapshot:
    """What distance costs is worked out once per generation of nodes."""
    if snapshot.step_times is not None and snapshot.tree is not None:
        return snapshot
    return replace(
        snapshot,
        step_times=snapshot.step_times or standing.step_times,
        tree=standing.free.tree,
    )


def _next_wakeup(scratch: Scratch) -> Instant | None:
    return _first(
        scratch.standing.line.next_rest_end(),
        scratch.policy.next_decision_at(),
        scratch.standing.ranking.next_change_at() if scratch.snapshot.pending else None,
        scratch.next_wakeup,
    )


def _next_move_at(policy: Policy, standing: Standing) -> Instant | None:
    """When a gang may move to closer GPUs that were free before."""
    if policy.moves is None or standing.all_lie_well:
        return None
    return policy.moves.next_move_at()


def _first(*instants: Instant | None) -> Instant | None:
    return min((at for at in instants if at is not None), default=None)
