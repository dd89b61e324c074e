"""Best fit against trying everything: nothing places a gang closer, tighter or on fewer domains."""

from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given, settings

from scheduler.domain.gang import GangRequest
from scheduler.domain.placement import Placement
from scheduler.domain.topology import TopologyTree
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang
from tests.proof import times
from tests.properties.gangs import World, plain_gangs, worlds

Spots = Mapping[int, int]
"""Workers per node (as a number in the tree)."""

EXAMPLES = times(ci=150, proof=5_000)
pytestmark = pytest.mark.proof(examples=EXAMPLES)
many = settings(max_examples=EXAMPLES, deadline=None)


@many
@given(worlds(nodes_max=6), plain_gangs())
def test_no_placement_lies_closer_together(world: World, gang: GangRequest) -> None:
    free = world.pad()
    tiers = [_tier(free.tree, spots) for spots in _everything(gang, free, range(len(world.nodes)))]
    widest = free.tree.level_index(gang.required) if gang.required else max(tiers, default=0)
    assert widest is not None
    answer = place_gang(gang, free)

    if isinstance(answer, Placement):
        assert answer.tier == min(tiers)
    else:
        assert all(tier > widest for tier in tiers)


@many
@given(worlds(nodes_max=6), plain_gangs())
def test_no_domain_of_the_same_level_that_holds_the_gang_has_less_room(
    world: World, gang: GangRequest
) -> None:
    free = world.pad()
    answer = place_gang(gang, free)
    if not isinstance(answer, Placement):
        return
    rooms = {
        number: sum(_fit(gang, free, node) for node in domain.nodes)
        for number, domain in enumerate(free.tree.domains[answer.tier])
        if domain.is_known
    }
    home = free.tree.domain_of[answer.tier][next(iter(_spots(answer, free)))]

    assert rooms[home] == min(room for room in rooms.values() if room >= gang.workers)


@many
@given(worlds(nodes_max=6), plain_gangs())
def test_level_by_level_no_placement_uses_fewer_domains(world: World, gang: GangRequest) -> None:
    """At each level, inside the domains that are used one level wider."""
    free = world.pad()
    tree = free.tree
    answer = place_gang(gang, free)
    if not isinstance(answer, Placement):
        return
    used = _spots(answer, free)
    for level in range(answer.tier - 1, -1, -1):
        around = {tree.domain_of[level + 1][node] for node in used}
        inside = [
            node for node in range(len(tree.nodes)) if tree.domain_of[level + 1][node] in around
        ]
        fewest = min(_domains_used(tree, level, spots) for spots in _everything(gang, free, inside))

        assert _domains_used(tree, level, used) == fewest


def _everything(gang: GangRequest, free: FreeGpus, nodes: Sequence[int]) -> Iterator[Spots]:
    """Every way to place the gang on these nodes."""
    rooms = [(node, _fit(gang, free, node)) for node in nodes]
    yield from _ways(gang.workers, [room for room in rooms if room[1]])


def _ways(workers: int, rooms: Sequence[tuple[int, int]]) -> Iterator[Spots]:
    if not workers:
        yield {}
        return
    if sum(fit for _, fit in rooms) < workers:
        return
    (node, fit), *others = rooms
    for here in range(min(fit, workers) + 1):
        for rest in _ways(workers - here, others):
            yield {node: here, **rest} if here else rest


def _fit(gang: GangRequest, free: FreeGpus, node: int) -> int:
    return free.gpus[node] // gang.roles[0].gpus


def _spots(placement: Placement, free: FreeGpus) -> Spots:
    return {free.tree.index_of[a.node]: a.workers for a in placement.assignments}


def _tier(tree: TopologyTree, spots: Spots) -> int:
    return tree.tier_of(tree.nodes[node] for node in spots)


def _domains_used(tree: TopologyTree, level: int, spots: Spots) -> int:
    return len({tree.domain_of[level][node] for node in spots})
