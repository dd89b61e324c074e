"""A gang's request made ready for one cluster: its levels as numbers, its needs, its choices."""

from collections.abc import Container, Iterator
from dataclasses import dataclass

from scheduler.domain.gang import GangRequest, RoleRequest
from scheduler.domain.ids import GpuModel, LevelName, PoolName
from scheduler.domain.placement import LevelMissing, PoolMissing
from scheduler.domain.resources import NOTHING
from scheduler.domain.topology import TopologyTree
from scheduler.engine.counting import Grouping, Need
from scheduler.engine.eligible import Eligible


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleAsk:
    """One role, ready to be counted."""

    role: RoleRequest
    eligible: Eligible
    eligible_any: Eligible
    """Nodes of any acceptable model, of which a gang may have to keep to one."""
    need: Need
    grouping: Grouping

    @property
    def groups(self) -> int:
        """Slices of the role (its workers, where it has none)."""
        return self.role.workers // self.grouping.size


@dataclass(frozen=True, slots=True, kw_only=True)
class GangAsk:
    """All roles of a gang for one choice of GPU models, the main role first."""

    main: RoleAsk
    others: tuple[RoleAsk, ...]

    @property
    def companion(self) -> RoleAsk | None:
        """The one other role, if it has one worker only."""
        if len(self.others) == 1 and self.others[0].role.workers == 1:
            return self.others[0]
        return None

    def __iter__(self) -> Iterator[RoleAsk]:
        yield self.main
        yield from self.others


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A request made ready."""

    request: GangRequest
    widest: int
    """Index of the widest level the gang may span."""
    choices: tuple[GangAsk, ...]
    """One per set of GPU models the gang may use, first choice first."""
    is_plain: bool
    """Whether the gang is equal workers that may go anywhere, and nothing more."""

    @property
    def roles(self) -> tuple[RoleAsk, ...]:
        """All roles, the main one first."""
        return tuple(self.choices[0]) if self.choices else ()

    def variants(self, role: RoleAsk) -> Iterator[RoleAsk]:
        """The same role for every choice of models."""
        if len(self.choices) == 1:
            yield role
            return
        for choice in self.choices:
            yield next(found for found in choice if found.role is role.role)


def ask_of(
    request: GangRequest,
    tree: TopologyTree,
    *,
    models: tuple[GpuModel, ...],
    pools: Container[PoolName],
) -> Ask | PoolMissing | LevelMissing:
    """`request` in the numbers of a cluster with these models and pools.

    Or what it names that the cluster has not.
    """
    for level in _levels_named(request):
        if tree.level_index(level) is None:
            return LevelMissing(level=level, levels=tuple(known.name for known in tree.levels))
    for role in request.roles:
        if role.pool is not None and role.pool not in pools:
            return PoolMissing(pool=role.pool)
    widest = len(tree.levels) - 1
    if request.required is not None:
        widest = _index(tree, request.required)
    every_model = request.models or models
    choices = tuple(
        _gang_ask(request, choice, every_model, tree)
        for choice in _model_choices(request, every_model)
    )
    return Ask(
        request=request,
        widest=widest,
        choices=choices,
        is_plain=(
            not request.preferences
            and not request.excluded
            and all(not gang.others and gang.main.grouping.is_plain for gang in choices)
        ),
    )


def _levels_named(request: GangRequest) -> Iterator[LevelName]:
    if request.required is not None:
        yield request.required
    for role in request.roles:
        yield from (group.within for group in role.slices)
        if role.spread_by is not None:
            yield role.spread_by


def _model_choices(
    request: GangRequest, models: tuple[GpuModel, ...]
) -> Iterator[tuple[GpuModel, ...]]:
    """Sets of models the gang may use at once, the job's first choice first; at least one."""
    if request.mixes_models or not models or not any(role.gpus for role in request.roles):
        yield models
    else:
        yield from ((model,) for model in models)


def _gang_ask(
    request: GangRequest,
    models: tuple[GpuModel, ...],
    every_model: tuple[GpuModel, ...],
    tree: TopologyTree,
) -> GangAsk:
    asks = [_role_ask(role, models, every_model, tree) for role in request.roles]
    # A lone worker accompanies the others, however large it is.
    main = max(
        range(len(asks)),
        key=lambda n: (
            request.roles[n].workers > 1,
            request.roles[n].gpus * request.roles[n].workers,
            request.roles[n].workers,
            -n,
        ),
    )
    return GangAsk(main=asks.pop(main), others=tuple(sorted(asks, key=_largest_first)))


def _largest_first(ask: RoleAsk) -> tuple[int, int, str]:
    return (-ask.role.gpus, -ask.role.workers, ask.role.name)


def _role_ask(
    role: RoleRequest,
    models: tuple[GpuModel, ...],
    every_model: tuple[GpuModel, ...],
    tree: TopologyTree,
) -> RoleAsk:
    resources = NOTHING if role.resources == NOTHING else role.resources
    eligible, eligible_any = (
        Eligible(
            pool=role.pool,
            models=named if role.gpus else None,
            filters=role.filters,
            claims=role.claims,
        )
        for named in (models, every_model)
    )
    return RoleAsk(
        role=role,
        eligible=eligible,
        eligible_any=eligible_any,
        need=Need(gpus=role.gpus, resources=resources),
        grouping=_grouping(role, tree),
    )


def _grouping(role: RoleRequest, tree: TopologyTree) -> Grouping:
    """The slices and the spread of a role, by level."""
    level, size = 0, 1
    multiples: list[int | None] = []
    # A slice of one worker is whole wherever the worker is, in an unknown domain as well.
    slices = [group for group in role.slices if group.workers > 1]
    if slices:
        outer, *inner = slices
        level, size = _index(tree, outer.within), outer.workers
        above = level
        multiples = [None] * level
        for group in inner:
            within = _index(tree, group.within)
            # Levels between two kinds of slices keep the inner slices whole as well.
            for between in range(within, above):
                multiples[between] = group.workers
            above = min(above, within)
    caps: list[int | None] = []
    if role.spread_by is not None and 0 < role.spread_workers_max < role.workers:
        # What lies inside a domain can not hold more than the domain may.
        caps = [role.spread_workers_max] * (_index(tree, role.spread_by) + 1)
    return Grouping(level=level, size=size, multiples=tuple(multiples), caps=tuple(caps))


def _index(tree: TopologyTree, name: LevelName) -> int:
    index = tree.level_index(name)
    assert index is not None, name
    return index
