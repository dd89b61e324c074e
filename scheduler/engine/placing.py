"""Where a gang goes: the closest level, the tightest topology domain, the fewest sub-domains."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from scheduler.domain.errors import NotSupportedYetError
from scheduler.domain.gang import GangRequest, RoleRequest
from scheduler.domain.ids import GpuModel
from scheduler.domain.placement import (
    Assignment,
    Blocked,
    NeverFits,
    Placement,
    PoolMissing,
    TooFewGpus,
)
from scheduler.domain.topology import Node, TopologyDomain
from scheduler.engine.free_gpus import FreeGpus


def place_gang(request: GangRequest, free: FreeGpus) -> Placement | Blocked:
    """The best placement of the whole gang on what is free, or why there is none.

    Nothing is taken. Ties end in the topology order of the nodes.
    """
    _refuse_unsupported(request)
    pools = {role.pool for role in request.roles} - {None}
    for pool in sorted(pool for pool in pools if pool is not None):
        if all(node.pool != pool for node in free.nodes):
            return PoolMissing(pool=pool)
    widest = _widest(request, free)
    for level in range(widest + 1):
        for models in _model_choices(request, free):
            found = _place_at(level, models, request, free)
            if found is not None:
                return _placement(found, request, free)
    return _why_not(widest, request, free)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ask:
    """One role of a gang with all that decides which nodes it may use."""

    role: RoleRequest
    models: tuple[GpuModel, ...]
    request: GangRequest


@dataclass(frozen=True, slots=True)
class _Seats:
    """Workers of one role on one node."""

    node: int
    workers: int


def _refuse_unsupported(request: GangRequest) -> None:
    if request.slices:
        raise NotSupportedYetError("topology.slices", version="0.2")
    if any(role.spread_by for role in request.roles):
        raise NotSupportedYetError("topology.spread", version="0.2")


def _widest(request: GangRequest, free: FreeGpus) -> int:
    if request.required is None:
        return len(free.tree.levels) - 1
    level = free.tree.level_index(request.required)
    # A level that this cluster does not have can not be promised; the job file check says so.
    return len(free.tree.levels) - 1 if level is None else level


def _model_choices(request: GangRequest, free: FreeGpus) -> Iterator[tuple[GpuModel, ...]]:
    """Sets of models the gang may use at once, the job's first choice first."""
    models = request.models or free.models
    if request.mixes_models or not any(role.gpus for role in request.roles):
        yield models
    else:
        yield from ((model,) for model in models)


def _place_at(
    level: int, models: tuple[GpuModel, ...], request: GangRequest, free: FreeGpus
) -> dict[str, list[_Seats]] | None:
    """Seats for every role in the tightest domain of `level` that holds the gang."""
    roles = sorted(request.roles, key=lambda role: (-role.gpus, -role.workers, role.name))
    asks = [_Ask(role=role, models=models, request=request) for role in roles]
    candidates: list[tuple[int, int]] = []
    for number, domain in enumerate(free.tree.domains[level]):
        if not domain.is_known:
            continue
        fits = [_fit_in(domain.nodes, ask, free) for ask in asks]
        if all(fit >= role.workers for fit, role in zip(fits, roles, strict=True)):
            candidates.append((fits[0], number))
    for _, number in sorted(candidates):
        seats = _seat_all(free.tree.domains[level][number], asks, free)
        if seats is not None:
            return seats
    return None


def _seat_all(
    domain: TopologyDomain,
    asks: list[_Ask],
    free: FreeGpus,
) -> dict[str, list[_Seats]] | None:
    """Seats for all roles inside `domain`; None if they do not fit together."""
    seats: dict[str, list[_Seats]] = {}
    with free.trial():
        for ask in asks:
            role = ask.role
            if _fit_in(domain.nodes, ask, free) < role.workers:
                return None
            seats[role.name] = _seat(domain, role.workers, ask, free)
            for seat in seats[role.name]:
                for _ in range(seat.workers):
                    free.take_worker(free.tree.nodes[seat.node], role.gpus, role.resources)
    return seats


def _seat(
    domain: TopologyDomain,
    workers: int,
    ask: _Ask,
    free: FreeGpus,
) -> list[_Seats]:
    """Seats for `workers` of one role in a domain that holds them: as few sub-domains as can be."""
    if domain.level == 0:
        return [_Seats(domain.nodes[0], workers)]
    closer = free.tree.domains[domain.level - 1]
    fits = sorted(
        ((_fit_in(closer[n].nodes, ask, free), n) for n in domain.children),
        key=lambda item: (-item[0], item[1]),
    )
    seats: list[_Seats] = []
    while workers:
        largest = fits[0][0]
        if largest >= workers:
            # The last sub-domain is the tightest that holds the rest.
            _, number = min(item for item in fits if item[0] >= workers)
            seats += _seat(closer[number], workers, ask, free)
            break
        fit, number = fits.pop(0)
        seats += _seat(closer[number], fit, ask, free)
        workers -= fit
    return seats


def _fit_in(
    nodes: Iterable[int],
    ask: _Ask,
    free: FreeGpus,
) -> int:
    return sum(
        free.workers_fit(index, ask.role) for index in nodes if not _unfit(free.nodes[index], ask)
    )


def _unfit(node: Node, ask: _Ask) -> str:
    """Why no worker of `role` may use the node, whatever is free; empty if one may."""
    if not node.is_ready:
        return "NotReady"
    if node.is_cordoned:
        return "Cordoned"
    if ask.role.pool is not None and node.pool != ask.role.pool:
        return "OtherPool"
    if ask.role.gpus and node.gpu_model not in ask.models:
        return "OtherGpuModel"
    if node.name in ask.request.excluded:
        return "Excluded"
    return ""


def _placement(seats: dict[str, list[_Seats]], request: GangRequest, free: FreeGpus) -> Placement:
    tree = free.tree
    assignments = tuple(
        Assignment(role=role.name, node=tree.nodes[seat.node], workers=seat.workers)
        for role in request.roles
        for seat in sorted(seats[role.name], key=lambda seat: seat.node)
    )
    tier = tree.tier_of(assignment.node for assignment in assignments)
    return Placement(assignments=assignments, tier=tier, tier_name=tree.levels[tier].name)


def _why_not(widest: int, request: GangRequest, free: FreeGpus) -> Blocked:
    """The numbers behind a no, for the role with the largest need."""
    role = max(request.roles, key=lambda role: (role.gpus, role.workers, role.name))
    ask = _Ask(role=role, models=request.models or free.models, request=request)
    reasons: Counter[str] = Counter()
    for index, node in enumerate(free.nodes):
        unfit = _unfit(node, ask)
        reasons[unfit or ("Fits" if free.workers_fit(index, role) else "TooFewGpus")] += 1
    fit_by_level = {
        level.name: max(
            (
                _fit_in(domain.nodes, replace(ask, models=choice), free)
                for domain in free.tree.domains[number]
                if domain.is_known
                for choice in _model_choices(request, free)
            ),
            default=0,
        )
        for number, level in enumerate(free.tree.levels[: widest + 1])
    }
    level_name = free.tree.levels[widest].name
    if _never_fits(widest, request, free):
        return NeverFits(
            level=level_name,
            workers_wanted=request.workers,
            workers_fit_max=fit_by_level[level_name],
            nodes=len(free.nodes),
            nodes_by_reason=dict(sorted(reasons.items())),
        )
    return TooFewGpus(
        level=level_name,
        workers_wanted=request.workers,
        workers_fit_max=fit_by_level[level_name],
        workers_fit_by_level=fit_by_level,
        nodes=len(free.nodes),
        nodes_by_reason=dict(sorted(reasons.items())),
    )


def _never_fits(widest: int, request: GangRequest, free: FreeGpus) -> bool:
    """Whether the cluster could not hold the gang even with every node empty and in order."""
    empty = FreeGpus(
        free.tree, [replace(node, is_ready=True, is_cordoned=False) for node in free.nodes]
    )
    return not any(
        _place_at(level, models, request, empty)
        for level in range(widest + 1)
        for models in _model_choices(request, empty)
    )
