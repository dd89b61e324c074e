"""check_plan(): the promises every plan keeps. Raises BrokenPlanError, naming all that are broken.

It costs what the plan holds, so it runs before every plan is applied; tests ask for more besides.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from scheduler.domain.errors import BrokenPlanError
from scheduler.domain.gang import GangRequest, RoleRequest, gang_request
from scheduler.domain.ids import JobId, NodeName
from scheduler.domain.job import Job, JobPhase, StopCause
from scheduler.domain.plan import Plan, Start
from scheduler.domain.resources import Resources
from scheduler.domain.snapshot import Snapshot
from scheduler.domain.topology import Node, TopologyTree, topology_tree
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.standing import Standing


def check_plan(snapshot: Snapshot, plan: Plan) -> None:
    """Raise unless the plan keeps its promises."""
    broken = tuple(_broken_promises(snapshot, plan))
    if broken:
        raise BrokenPlanError("; ".join(broken))


def check_starts(standing: Standing, snapshot: Snapshot, plan: Plan) -> None:
    """The same for what the plan starts, at the cost of the plan alone.

    `standing` holds the snapshot's facts, and nothing of the plan yet.
    """
    if not plan.start:
        return
    broken: list[str] = []
    for start in plan.start:
        if start.job_id not in standing.line:
            broken.append(f"{start.job_id} is not pending")
            continue
        waiting = standing.line[start.job_id]
        broken += _gang_is_right(waiting.job, start, snapshot)
        broken += _gang_stands_right(waiting.request, start, standing.nodes, standing.free.tree)
    if not broken:
        broken += _nothing_overdrawn(standing, plan)
    if broken:
        raise BrokenPlanError("; ".join(broken))


def _nothing_overdrawn(standing: Standing, plan: Plan) -> list[str]:
    """Of the nodes the plan touches, reckoned on what is free."""
    free = standing.free
    touched = {a.node for start in plan.start for a in start.placement.assignments}
    with free.trial():
        settled = {start.job_id for start in plan.start}
        settled |= {promise.job_id for promise in plan.promise}
        settled |= {void.job_id for void in plan.withdraw}
        for job_id in sorted(settled & standing.promises.keys()):
            free.release(standing.promises[job_id], standing.line[job_id].request)
        for start in plan.start:
            free.take(start.placement, standing.line[start.job_id].request)
        return [
            f"{name}: {-left} {what} more given away than it has"
            for name in sorted(touched)
            for what, left in _left_on(free, name)
            if left < 0
        ]


def _left_on(free: FreeGpus, name: NodeName) -> Iterator[tuple[str, int]]:
    index = free.tree.index_of[name]
    yield "GPUs", free.gpus[index]
    yield _WORKERS, free.seats[index]
    yield "thousandths of a CPU", free.cpu_milli[index]
    yield "bytes of memory", free.memory_bytes[index]
    yield from free.extended[index].items()


def _broken_promises(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    yield from _every_pending_job_answered_once(snapshot, plan)
    if plan.made_on != snapshot.version:
        yield f"made on {plan.made_on}, not {snapshot.version}"
    yield from _stops_are_right(snapshot, plan)
    yield from _promises_are_right(snapshot, plan)
    if not plan.start:
        return
    pending = {job.id: job for job in snapshot.pending}
    nodes = {node.name: node for node in snapshot.nodes}
    tree = snapshot.tree or topology_tree(snapshot.levels, snapshot.nodes)
    for start in plan.start:
        job = pending.get(start.job_id)
        if job is not None:
            yield from _gang_is_right(job, start, snapshot)
            yield from _gang_stands_right(gang_request(job.spec), start, nodes, tree)
    yield from _nothing_oversold(snapshot, plan, nodes)


def _stops_are_right(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    holding = {gang.job.id: gang.job for gang in snapshot.holding}
    promised = {promise.job_id for promise in plan.promise}
    counts = Counter(stop.job_id for stop in plan.stop)
    yield from (f"{job_id} is stopped {n} times" for job_id, n in sorted(counts.items()) if n > 1)
    for stop in plan.stop:
        victim = holding.get(stop.job_id)
        if victim is None or victim.phase is JobPhase.STOPPING or victim.stop_requested:
            yield f"{stop.job_id} can not be stopped: it holds nothing or is leaving"
        elif stop.revision != victim.revision:
            yield f"{stop.job_id} is stopped at revision {stop.revision}, not {victim.revision}"
        if stop.beneficiary is not None and stop.beneficiary not in promised:
            yield f"{stop.job_id} is stopped for {stop.beneficiary}, to which nothing is promised"


def _promises_are_right(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    pending = {job.id: job for job in snapshot.pending}
    started = {start.job_id for start in plan.start}
    promised = {promise.job_id for promise in plan.promise}
    moves = {stop.job_id for stop in plan.stop if stop.cause is StopCause.UPGRADE}
    running = {gang.job.id: gang.job for gang in snapshot.holding if gang.job.id in moves}
    for promise in plan.promise:
        job = running.get(promise.job_id) or pending.get(promise.job_id)
        if job is None or promise.job_id in started:
            yield f"{promise.job_id} is promised GPUs and does not wait"
        elif promise.revision != job.revision:
            yield f"{job.id} is promised GPUs at revision {promise.revision}, not {job.revision}"
    for void in plan.withdraw:
        job = pending.get(void.job_id)
        if job is None or job.promised is None or void.job_id in started | promised:
            yield f"{void.job_id} has no promise to withdraw"
        elif void.revision != job.revision:
            yield f"{job.id} loses its promise at revision {void.revision}, not {job.revision}"


def _every_pending_job_answered_once(snapshot: Snapshot, plan: Plan) -> Iterator[str]:
    answered: list[JobId] = [*(start.job_id for start in plan.start), *plan.blocked]
    if len(answered) == len(snapshot.pending) and set(answered) == {
        job.id for job in snapshot.pending
    }:
        return
    counts = Counter(answered)
    pending = {job.id for job in snapshot.pending}
    yield from (f"{job_id} has no answer" for job_id in sorted(pending - set(counts)))
    yield from (f"{job_id} is not pending" for job_id in sorted(set(counts) - pending))
    yield from (f"{job_id} has {n} answers" for job_id, n in sorted(counts.items()) if n > 1)


def _gang_is_right(job: Job, start: Start, snapshot: Snapshot) -> Iterator[str]:
    if start.revision != job.revision:
        yield f"{job.id} starts at revision {start.revision}, not {job.revision}"
    if job.not_before is not None and job.not_before > snapshot.now:
        yield f"{job.id} starts before its back-off ends"
    if job.stop_requested is not None:
        yield f"{job.id} starts although it is to stop"
    placed: Counter[str] = Counter()
    for assignment in start.placement.assignments:
        placed[assignment.role] += assignment.workers
    if placed != {role.name: role.workers for role in job.spec.roles}:
        yield f"{job.id} is not whole: {dict(placed)}"


def _gang_stands_right(
    request: GangRequest, start: Start, nodes: Mapping[NodeName, Node], tree: TopologyTree
) -> Iterator[str]:
    job_id, placement = start.job_id, start.placement
    unknown = [a.node for a in placement.assignments if a.node not in nodes]
    if unknown:
        yield f"{job_id} stands on nodes that do not exist: {unknown}"
        return
    yield from _nodes_are_fit(request, start, nodes)
    tier = tree.tier_of(assignment.node for assignment in placement.assignments)
    if placement.tier != tier or placement.tier_name != tree.levels[tier].name:
        yield f"{job_id} is said to be within one {placement.tier_name}, and is not"
    required = None if request.required is None else tree.level_index(request.required)
    if required is not None and tier > required:
        yield f"{job_id} is wider than one {request.required}"


def _volumes_are_in_reach(role: RoleRequest, node: Node, start: Start) -> Iterator[str]:
    for claim in sorted(node.volumes_beyond.intersection(role.claims)):
        yield f"{start.job_id} stands on {node.name}, which can not mount {claim}"


def _nodes_are_fit(
    request: GangRequest, start: Start, nodes: Mapping[NodeName, Node]
) -> Iterator[str]:
    roles = {role.name: role for role in request.roles}
    models = set()
    for assignment in start.placement.assignments:
        node, role = nodes[assignment.node], roles[assignment.role]
        if not node.is_ready or node.is_cordoned or node.exclusion is not None:
            yield f"{start.job_id} stands on {node.name}, which takes no workers"
        if role.pool is not None and node.pool != role.pool:
            yield f"{start.job_id} stands on {node.name}, which is not of pool {role.pool}"
        if node.name in request.excluded:
            yield f"{start.job_id} stands on {node.name}, which is excluded for it"
        yield from _volumes_are_in_reach(role, node, start)
        if role.gpus:
            models.add(node.gpu_model)
    if request.models and not models <= set(request.models):
        yield f"{start.job_id} got GPU models {sorted(models)}"
    if len(models) > 1 and not request.mixes_models:
        yield f"{start.job_id} mixes GPU models {sorted(models)}"


def _nothing_oversold(
    snapshot: Snapshot, plan: Plan, nodes: Mapping[NodeName, Node]
) -> Iterator[str]:
    """Of the nodes the plan touches."""
    held = _held_after(snapshot, plan)
    for name in sorted(set(held) & set(nodes)):
        has = _amounts(nodes[name].gpus, nodes[name].resources)
        workers_max = nodes[name].workers_max
        has[_WORKERS] = held[name][_WORKERS] if workers_max is None else workers_max
        for what, amount in sorted(held[name].items()):
            if amount > has[what]:
                yield f"{name}: {amount} of {has[what]} {what} given away"


def _held_after(snapshot: Snapshot, plan: Plan) -> dict[NodeName, Counter[str]]:
    """What is held on each node the plan touches once it is applied."""
    placements = [start.placement for start in plan.start]
    held: dict[NodeName, Counter[str]] = {
        assignment.node: Counter()
        for placement in placements
        for assignment in placement.assignments
    }
    by_gang = (gang.reservations for gang in snapshot.holding)
    for reservation in chain(snapshot.held_besides, *by_gang):
        if reservation.node in held:
            held[reservation.node] += _amounts(reservation.gpus, reservation.resources)
    pending = {job.id: job for job in snapshot.pending}
    for start in plan.start:
        if start.job_id in pending:
            _add_gang(held, pending[start.job_id], start)
    return held


def _add_gang(held: dict[NodeName, Counter[str]], job: Job, start: Start) -> None:
    roles = {role.name: role for role in job.spec.roles}
    for assignment in start.placement.assignments:
        role = roles[assignment.role]
        for what, amount in _amounts(role.gpus_per_worker, role.resources).items():
            held[assignment.node][what] += amount * assignment.workers


_WORKERS = "workers"


def _amounts(gpus: int, resources: Resources) -> Counter[str]:
    """What one worker holds (or a node has), by name."""
    return Counter(
        {
            _WORKERS: 1,
            "GPUs": gpus,
            "thousandths of a CPU": resources.cpu_milli,
            "bytes of memory": resources.memory_bytes,
            **dict(resources.extended),
        }
    )
