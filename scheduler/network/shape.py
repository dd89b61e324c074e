"""The shape of a placement: how many ranks share a node, a rack, a block. Names do not matter."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from scheduler.domain.ids import NodeName
from scheduler.domain.placement import Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Ranks (GPUs) per domain of each level the placement touches, in rank order.

    node:  8 8 8 8        two racks with two full nodes each
    rack:  16   16        is ((8, 8, 8, 8), (16, 16), (32,))
    block: 32
    """

    ranks_by_level: tuple[tuple[int, ...], ...]
    """Closest level (`node`) first; ends with the first level at which one domain holds all."""

    def __post_init__(self) -> None:
        assert self.ranks_by_level
        assert len(self.ranks_by_level[-1]) == 1

    @property
    def ranks(self) -> int:
        """Ranks of the gang."""
        return self.ranks_by_level[-1][0]

    @property
    def nodes(self) -> int:
        """Nodes it touches."""
        return len(self.ranks_by_level[0])

    @property
    def tier(self) -> int:
        """Index of the closest level that holds all of it; 0 is `node`."""
        return len(self.ranks_by_level) - 1

    @property
    def is_even(self) -> bool:
        """Whether every node holds as many ranks."""
        ranks = self.ranks_by_level[0]
        return min(ranks) == max(ranks)


def shape_of_counts(ranks_by_node: Sequence[int], *, paths: Sequence[Sequence[str]] = ()) -> Shape:
    """The shape of ranks on nodes whose domains are given per node, closest level first.

    Without paths, all nodes share one domain of the first level above `node`.
    """
    assert all(ranks >= 1 for ranks in ranks_by_node)
    levels = [tuple(ranks_by_node)]
    width = min((len(path) for path in paths), default=0)
    for level in range(width):
        if len(levels[-1]) == 1:
            break
        totals: dict[tuple[str, ...], int] = {}
        for ranks, path in zip(ranks_by_node, paths, strict=True):
            # Two racks of one name under different blocks are different racks.
            domain = tuple(path[level:])
            totals[domain] = totals.get(domain, 0) + ranks
        levels.append(tuple(totals.values()))
    if len(levels[-1]) > 1:
        levels.append((sum(ranks_by_node),))
    return Shape(ranks_by_level=tuple(levels))


def shape_of_placement(
    placement: Placement,
    *,
    gpus_by_role: Mapping[str, int],
    paths_by_node: Mapping[NodeName, Sequence[str]],
) -> Shape | None:
    """The shape of a placement; ranks are GPUs, or workers where the gang has no GPUs.

    `paths_by_node` names each node's domains, widest first, as `Node.path` does. None when the
    placement is empty.
    """
    has_gpus = any(gpus_by_role[a.role] for a in placement.assignments)
    ranks_by_node: dict[NodeName, int] = {}
    for assignment in placement.assignments:
        ranks = assignment.workers * (gpus_by_role[assignment.role] if has_gpus else 1)
        if ranks:
            ranks_by_node[assignment.node] = ranks_by_node.get(assignment.node, 0) + ranks
    if not ranks_by_node:
        return None
    # Ranks are numbered domain by domain, whatever order the assignments have.
    nodes = sorted(ranks_by_node, key=lambda node: (tuple(paths_by_node[node]), node))
    return shape_of_counts(
        [ranks_by_node[node] for node in nodes],
        paths=[tuple(reversed(paths_by_node[node])) for node in nodes],
    )


def even_split(total: int, parts: int) -> tuple[int, ...]:
    """`total` over `parts` as evenly as can be, larger shares first."""
    share, rest = divmod(total, parts)
    return (share + 1,) * rest + (share,) * (parts - rest)


def shape_of_tree(workers: int, ranks_per_worker: int, domains: Sequence[int]) -> Shape:
    """An even shape with so many domains per level, closest level (`node`) first."""
    levels = [tuple(part * ranks_per_worker for part in even_split(workers, domains[0]))]
    for count in domains[1:]:
        if len(levels[-1]) == 1:
            break
        levels.append(_grouped(levels[-1], count))
    if len(levels[-1]) > 1:
        levels.append((workers * ranks_per_worker,))
    return Shape(ranks_by_level=tuple(levels))


def reference_shape(
    ranks: int, tier: int, sizes: Sequence[int], *, ranks_per_worker: int = 1
) -> Shape | None:
    """The fewest, even nodes that reach exactly this tier; None where the gang can not do so.

    `sizes[0]` is GPUs per node, `sizes[t]` the domains of level t - 1 in one domain of level t.
    """
    workers = ranks // ranks_per_worker
    workers_per_node = sizes[0] // ranks_per_worker
    if tier >= len(sizes) or workers < 1 or workers_per_node < 1:
        return None
    counts = [ceil(workers / workers_per_node)]
    for size in sizes[1 : tier + 1]:
        # One level below the tier there are at least two domains, each with at least one node.
        counts[-1] = max(counts[-1], 2)
        counts.append(ceil(counts[-1] / size))
    for level in range(tier - 1, 0, -1):
        counts[level - 1] = max(counts[level - 1], counts[level])
    if counts[tier] > 1 or counts[0] > workers:
        return None
    return shape_of_tree(workers, ranks_per_worker, counts)


def _grouped(ranks: tuple[int, ...], domains: int) -> tuple[int, ...]:
    sums = []
    start = 0
    for size in even_split(len(ranks), domains):
        sums.append(sum(ranks[start : start + size]))
        start += size
    return tuple(sums)


def nodes_by_domain(shape: Shape, level: int) -> tuple[int, ...]:
    """Nodes of the placement in each domain of a level, in rank order."""
    return _counted(shape.ranks_by_level[0], shape.ranks_by_level[level])


def _counted(inner: Iterable[int], outer: Iterable[int]) -> tuple[int, ...]:
    counts = []
    ranks = iter(inner)
    for total in outer:
        held = count = 0
        while held < total:
            held += next(ranks)
            count += 1
        counts.append(count)
    return tuple(counts)
