"""Gangs that change while they keep what they have keep every promise, too."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.gang import GangRequest
from scheduler.domain.placement import Placement
from scheduler.engine.placing import place_gang
from scheduler.engine.replacing import replace_lost, resize_gang
from tests.placements import broken_promises
from tests.proof import times
from tests.properties.gangs import World, gangs, worlds

EXAMPLES = times(ci=200, proof=5_000)
pytestmark = pytest.mark.proof(examples=EXAMPLES)
many = settings(max_examples=EXAMPLES, deadline=None)


@many
@given(worlds(is_odd=True), gangs(roles_max=2), st.integers(0, 6))
def test_a_gang_with_a_lost_node_replaced_keeps_every_promise(
    world: World, gang: GangRequest, number: int
) -> None:
    before = place_gang(gang, world.pad())
    if not isinstance(before, Placement):
        return
    nodes = sorted({assignment.node for assignment in before.assignments})
    lost = frozenset({nodes[number % len(nodes)]})
    kept = tuple(each for each in before.assignments if each.node not in lost)
    free = world.pad()
    free.take(replace(before, assignments=kept), gang)
    answer = replace_lost(gang, before, lost, free)

    if isinstance(answer, Placement):
        excluded = replace(gang, excluded=gang.excluded | lost)
        assert broken_promises(answer, excluded, world.pad()) == []
        workers = {(each.role, each.node): each.workers for each in answer.assignments}
        assert all(workers.get((each.role, each.node), 0) >= each.workers for each in kept)


@many
@given(worlds(is_odd=True), gangs(roles_max=2), st.integers(1, 3))
def test_a_gang_that_has_grown_keeps_every_promise(
    world: World, gang: GangRequest, times_as_large: int
) -> None:
    before = place_gang(gang, world.pad())
    if not isinstance(before, Placement):
        return
    # Slices are whole in any multiple of the workers.
    roles = (replace(gang.roles[0], workers=gang.roles[0].workers * times_as_large),)
    grown = replace(gang, roles=(*roles, *gang.roles[1:]))
    free = world.pad()
    free.take(before, gang)
    answer = resize_gang(grown, before, free)

    if isinstance(answer, Placement):
        assert broken_promises(answer, grown, world.pad()) == []
