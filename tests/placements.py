"""What every placement promises, told from the request and the cluster alone."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from scheduler.domain.gang import GangRequest, RoleRequest
from scheduler.domain.ids import LevelName, NodeName
from scheduler.domain.placement import Assignment, Placement
from scheduler.engine.eligible import Eligible
from scheduler.engine.free_gpus import FreeGpus


def broken_promises(placement: Placement, request: GangRequest, free: FreeGpus) -> list[str]:
    """What is wrong with a placement on `free`; empty if nothing is."""
    return [
        *_not_whole(placement, request),
        *_out_of_order(placement, request, free),
        *_oversold(placement, request, free),
        *_not_allowed(placement, request, free),
        *_too_wide(placement, request, free),
        *(
            problem
            for role in request.roles
            for problem in (*_torn(placement, role, free), *_crowded(placement, role, free))
        ),
    ]


def any_way(request: GangRequest, free: FreeGpus) -> bool:
    """Whether any way at all to put the workers on the nodes keeps every promise."""
    per_role = [list(_ways(role, free)) for role in request.roles]
    return any(
        not broken_promises(_placement(request, counts, free), request, free)
        for counts in product(*per_role)
    )


def _ways(role: RoleRequest, free: FreeGpus) -> Iterator[tuple[int, ...]]:
    """Every way to divide the workers of a role among the nodes that could each take its share."""
    for counts in product(range(role.workers + 1), repeat=len(free.nodes)):
        if sum(counts) == role.workers and not _on_unknown(role, counts, free):
            yield counts


def _on_unknown(role: RoleRequest, counts: Sequence[int], free: FreeGpus) -> bool:
    """Whether a rule would have to hold in a domain that may be any."""
    used = [node for node, count in enumerate(counts) if count]
    levels = [group.within for group in role.slices if len(used) > 1]
    if role.spread_by is not None and role.spread_workers_max < role.workers:
        levels.append(role.spread_by)
    return any(
        not free.tree.domains[level][free.tree.domain_of[level][node]].is_known
        for level in (_level(free, name) for name in levels)
        for node in used
    )


def _placement(
    request: GangRequest, counts_by_role: Sequence[Sequence[int]], free: FreeGpus
) -> Placement:
    tree = free.tree
    assignments = tuple(
        Assignment(role=role.name, node=tree.nodes[node], workers=count)
        for role, counts in zip(request.roles, counts_by_role, strict=True)
        for node, count in enumerate(counts)
        if count
    )
    tier = tree.tier_of(assignment.node for assignment in assignments)
    return Placement(assignments=assignments, tier=tier, tier_name=tree.levels[tier].name)


def _not_whole(placement: Placement, request: GangRequest) -> list[str]:
    have = Counter[str]()
    for assignment in placement.assignments:
        have[assignment.role] += assignment.workers
    wanted = {role.name: role.workers for role in request.roles}
    return [] if have == wanted else [f"workers {dict(have)} instead of {wanted}"]


def _out_of_order(placement: Placement, request: GangRequest, free: FreeGpus) -> list[str]:
    """Ranks go by role as the job lists them, inside a role in topology order."""
    roles = [role.name for role in request.roles]
    order = [(roles.index(a.role), free.tree.index_of[a.node]) for a in placement.assignments]
    return [] if order == sorted(set(order)) else [f"order {order}"]


def _oversold(placement: Placement, request: GangRequest, free: FreeGpus) -> list[str]:
    used: dict[NodeName, Counter[str]] = {}
    for assignment in placement.assignments:
        role = request.role(assignment.role)
        amounts = used.setdefault(assignment.node, Counter())
        amounts["gpus"] += assignment.workers * role.gpus
        amounts["seats"] += assignment.workers
        amounts["cpu"] += assignment.workers * role.resources.cpu_milli
        amounts["memory"] += assignment.workers * role.resources.memory_bytes
        for name, amount in role.resources.extended:
            amounts[name] += assignment.workers * amount
    problems: list[str] = []
    for node, amounts in used.items():
        index = free.tree.index_of[node]
        have = {
            **free.extended[index],
            "gpus": free.gpus[index],
            "seats": free.seats[index],
            "cpu": free.cpu_milli[index],
            "memory": free.memory_bytes[index],
        }
        problems += [
            f"{amount} {name} on {node}, which has {have.get(name, 0)}"
            for name, amount in amounts.items()
            if amount > have.get(name, 0)
        ]
    return problems


def _not_allowed(placement: Placement, request: GangRequest, free: FreeGpus) -> list[str]:
    problems: list[str] = []
    models = set()
    for assignment in placement.assignments:
        role = request.role(assignment.role)
        node = free.nodes[free.tree.index_of[assignment.node]]
        acceptable = request.models or free.models
        eligible = Eligible(
            pool=role.pool, models=acceptable if role.gpus else None, filters=role.filters
        )
        unfit = eligible.unfit(node)
        if unfit or node.name in request.excluded:
            problems.append(f"{node.name} is {unfit or 'excluded'}")
        if role.gpus:
            models.add(node.gpu_model)
    if len(models) > 1 and not request.mixes_models:
        problems.append(f"models {models} in one gang")
    return problems


def _too_wide(placement: Placement, request: GangRequest, free: FreeGpus) -> list[str]:
    tree = free.tree
    if tree.tier_of(a.node for a in placement.assignments) != placement.tier:
        return [f"tier {placement.tier} is not the closest"]
    if request.required is None:
        return []
    widest = tree.level_index(request.required)
    assert widest is not None
    return [f"tier {placement.tier} is wider than {request.required}"] * (placement.tier > widest)


def _torn(placement: Placement, role: RoleRequest, free: FreeGpus) -> list[str]:
    """Slices are consecutive ranks of a role; each must lie in one known domain."""
    ranks = [
        free.tree.index_of[node] for name, node in placement.node_of_ranks() if name == role.name
    ]
    problems: list[str] = []
    for group in role.slices:
        level = _level(free, group.within)
        for start in range(0, len(ranks), group.workers):
            homes = {free.tree.domain_of[level][r] for r in ranks[start : start + group.workers]}
            if len(homes) > 1:
                problems.append(f"slice of {group.workers} from rank {start} lies in {homes}")
    return problems


def _crowded(placement: Placement, role: RoleRequest, free: FreeGpus) -> list[str]:
    if role.spread_by is None or not role.spread_workers_max:
        return []
    level = _level(free, role.spread_by)
    counts: Counter[int] = Counter()
    for name, node in placement.node_of_ranks():
        if name == role.name:
            counts[free.tree.domain_of[level][free.tree.index_of[node]]] += 1
    return [
        f"{count} workers in domain {domain}"
        for domain, count in counts.items()
        if count > role.spread_workers_max
    ]


def _level(free: FreeGpus, name: LevelName) -> int:
    level = free.tree.level_index(name)
    assert level is not None
    return level
