"""A gang that changes while it keeps what it has: a lost node replaced, workers added or given up.

rack r1   x1: 1  x2: 1            slices of 2 within a rack; node x3 is lost
rack r2   x3: 1  x4: 1            the slice on x3 and x4 is broken, so the replacement
          x5: free                must stand in r2
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from scheduler.domain.gang import GangRequest, NodeFilter, RoleRequest
from scheduler.domain.ids import NodeName, RoleName
from scheduler.domain.job import Slice
from scheduler.domain.placement import Assignment, Blocked, Placement
from scheduler.domain.topology import TopologyDomain, TopologyTree
from scheduler.engine.choosing import DEFAULT_RULES, Rules, TieBreak
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang, placement_of


def replace_lost(
    request: GangRequest,
    placement: Placement,
    lost: frozenset[NodeName],
    free: FreeGpus,
    rules: Rules = DEFAULT_RULES,
) -> Placement | Blocked:
    """`placement` with the workers of the lost nodes placed anew, the others where they are.

    Inside the innermost slice that is broken, if one is; else as near the kept workers as there is
    room. What the kept workers hold must be taken from `free` already. Nothing is taken.
    """
    kept = _Held(role.name for role in request.roles)
    for assignment in placement.assignments:
        if assignment.node not in lost:
            kept.add(assignment)
    return _complete(replace(request, excluded=request.excluded | lost), kept, free, rules)


def resize_gang(
    request: GangRequest, placement: Placement, free: FreeGpus, rules: Rules = DEFAULT_RULES
) -> Placement | Blocked:
    """`placement` with as many workers per role as `request` asks for.

    Added workers go beside the kept ones; given up are the last in rank order.
    """
    kept = _Held(role.name for role in request.roles)
    for assignment in placement.assignments:
        wanted = request.role(assignment.role).workers
        workers = min(assignment.workers, wanted - kept.workers(assignment.role))
        if workers > 0:
            kept.add(replace(assignment, workers=workers))
    return _complete(request, kept, free, rules)


class _Held:
    """Workers that have their nodes already, by role."""

    def __init__(self, roles: Iterable[RoleName]) -> None:
        self.by_role: dict[RoleName, Counter[NodeName]] = {role: Counter() for role in roles}

    def add(self, assignment: Assignment) -> None:
        self.by_role[assignment.role][assignment.node] += assignment.workers

    def workers(self, role: RoleName) -> int:
        return self.by_role[role].total()

    def nodes(self) -> list[NodeName]:
        return sorted({node for workers in self.by_role.values() for node in workers})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Some of the missing workers of a role, and the domain they must go into."""

    role: RoleRequest
    within: TopologyDomain | None = None
    """None for anywhere."""


def _complete(
    request: GangRequest, held: _Held, free: FreeGpus, rules: Rules
) -> Placement | Blocked:
    """Places what is missing of every role, part by part."""
    with free.trial():
        for role in request.roles:
            while held.workers(role.name) < role.workers:
                answer = _place_part(request, role, held, free, rules)
                if not isinstance(answer, Placement):
                    return answer
                for assignment in answer.assignments:
                    held.add(assignment)
    return placement_of(held.by_role, request, free.tree)


def _place_part(
    request: GangRequest, role: RoleRequest, held: _Held, free: FreeGpus, rules: Rules
) -> Placement | Blocked:
    """Places (and takes) the first of the ways to go on that there is room for."""
    answer: Placement | Blocked | None = None
    for part in _ways_on(request, role, held, free, rules):
        asked = _part_request(request, part, held, free)
        answer = place_gang(asked, free, rules)
        if isinstance(answer, Placement):
            free.take(answer, asked)
            return answer
    assert answer is not None
    return answer


def _ways_on(
    request: GangRequest, role: RoleRequest, held: _Held, free: FreeGpus, rules: Rules
) -> Iterator[_Part]:
    """What may be placed next, best first."""
    missing = role.workers - held.workers(role.name)
    for group in reversed(role.slices):
        broken = _broken(group, held.by_role[role.name], free.tree)
        if broken:
            if len(broken) == 1:
                yield _Part(role=_some_of(role, missing), within=broken[0].domain)
            gap = broken[0].workers_missing
            if gap < missing and rules.tie_break is not TieBreak.KUEUE:
                yield _Part(role=_some_of(role, gap), within=broken[0].domain)
            return
    # Under a spread one by one, so that the kept workers of a domain count.
    rest = _some_of(role, 1 if _is_spread(role) else missing)
    yield from (_Part(role=rest, within=domain) for domain in _near(request, held, free, rules))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Broken:
    """A domain that holds part of a slice."""

    domain: TopologyDomain
    workers_missing: int
    """To make its last slice whole."""


def _broken(group: Slice, workers_by_node: Counter[NodeName], tree: TopologyTree) -> list[_Broken]:
    """Domains that hold part of a slice, in topology order."""
    level = tree.level_index(group.within)
    assert level is not None
    held: Counter[int] = Counter()
    for node, workers in workers_by_node.items():
        held[tree.domain_of[level][tree.index_of[node]]] += workers
    return [
        _Broken(domain=tree.domains[level][number], workers_missing=-workers % group.workers)
        for number, workers in sorted(held.items())
        if workers % group.workers
    ]


def _some_of(role: RoleRequest, workers: int) -> RoleRequest:
    """Some workers of a role, in the innermost slices that they make up."""
    whole = next((group for group in reversed(role.slices) if workers % group.workers == 0), None)
    if all(workers % group.workers == 0 for group in role.slices):
        return replace(role, workers=workers)
    return replace(role, workers=workers, slices=() if whole is None else (whole,))


def _near(
    request: GangRequest, held: _Held, free: FreeGpus, rules: Rules
) -> Iterator[TopologyDomain | None]:
    """Domains around the kept workers, closest first; None is the whole cluster."""
    tree = free.tree
    nodes = held.nodes()
    widest = len(tree.levels) - 1
    if request.required is not None:
        widest = tree.level_index(request.required) or 0
    if not nodes:
        yield None
        return
    # Kueue replaces wherever the gang may be, without looking near first.
    closest = widest if rules.tie_break is TieBreak.KUEUE else tree.tier_of(nodes)
    first = min(closest, widest)
    for level in range(first, widest + 1):
        domain = tree.domains[level][tree.domain_of[level][tree.index_of[nodes[0]]]]
        if domain.is_known or level == first:
            yield domain


def _part_request(request: GangRequest, part: _Part, held: _Held, free: FreeGpus) -> GangRequest:
    """The part as a gang of its own, on nodes of its domain and with the kept workers' model."""
    role = part.role
    tree = free.tree
    if part.within is not None:
        inside = frozenset(tree.nodes[index] for index in part.within.nodes)
        inner = NodeFilter(reason="OutsideDomain", allowed=inside)
        role = replace(role, filters=(*role.filters, inner))
    whole = request.role(role.name)
    if _is_spread(whole):
        room = NodeFilter(reason="OutsideDomain", allowed=_with_room(whole, held, tree))
        role = replace(role, filters=(*role.filters, room))
    models = request.models
    if role.gpus and not request.mixes_models:
        kept = {
            free.nodes[tree.index_of[node]].gpu_model
            for other in request.roles
            if other.gpus
            for node in held.by_role[other.name]
        }
        models = tuple(sorted(kept)) or models
    return replace(request, roles=(role,), models=models)


def _is_spread(role: RoleRequest) -> bool:
    return role.spread_by is not None and 0 < role.spread_workers_max < role.workers


def _with_room(role: RoleRequest, held: _Held, tree: TopologyTree) -> frozenset[NodeName]:
    """Nodes of known domains that may hold one more worker of a role under its spread."""
    assert role.spread_by is not None
    level = tree.level_index(role.spread_by)
    if level is None:
        return frozenset()
    workers: Counter[int] = Counter()
    for node, count in held.by_role[role.name].items():
        workers[tree.domain_of[level][tree.index_of[node]]] += count
    return frozenset(
        tree.nodes[index]
        for number, domain in enumerate(tree.domains[level])
        if domain.is_known and workers[number] < role.spread_workers_max
        for index in domain.nodes
    )
