"""What holds for every gang on every cluster."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.gang import GangRequest
from scheduler.domain.knobs import Algorithm
from scheduler.domain.placement import NeverFits, Placement, TooFewGpus
from scheduler.domain.topology import Node
from scheduler.engine.choosing import Rules, TieBreak
from scheduler.engine.placing import place_gang
from tests.placements import any_way, broken_promises
from tests.proof import times
from tests.properties.gangs import (
    World,
    gangs,
    gangs_found_if_any,
    nodes,
    plain_gangs,
    small_gangs,
    worlds,
)

ALL_RULES = [
    Rules(algorithm=algorithm, tie_break=tie_break, is_anywhere=is_anywhere)
    for algorithm in Algorithm
    for tie_break in TieBreak
    for is_anywhere in (False, True)
]

EXAMPLES = times(ci=200, proof=5_000)
pytestmark = pytest.mark.proof(examples=EXAMPLES)
many = settings(max_examples=EXAMPLES, deadline=None)


@many
@given(worlds(is_odd=True), gangs(), st.sampled_from(ALL_RULES))
def test_a_placement_keeps_every_promise(world: World, gang: GangRequest, rules: Rules) -> None:
    free = world.pad()
    answer = place_gang(gang, free, rules)

    if isinstance(answer, Placement):
        assert broken_promises(answer, gang, free) == []


@many
@given(worlds(is_odd=True), gangs(), st.randoms(use_true_random=False))
def test_shuffled_nodes_give_the_equal_answer(
    world: World, gang: GangRequest, chance: random.Random
) -> None:
    pairs = list(zip(world.nodes, world.held, strict=True))
    chance.shuffle(pairs)
    shuffled = World(nodes=tuple(n for n, _ in pairs), held=tuple(h for _, h in pairs))

    assert place_gang(gang, shuffled.pad()) == place_gang(gang, world.pad())


@many
@given(worlds(), plain_gangs())
def test_the_short_way_gives_the_answers_of_the_general_way(
    world: World, gang: GangRequest
) -> None:
    # Rules equal to the default ones, yet another object, take the general way.
    assert place_gang(gang, world.pad(), Rules()) == place_gang(gang, world.pad())


@many
@given(worlds(is_odd=True), gangs_found_if_any(), nodes("new"))
def test_one_more_free_node_never_makes_a_gang_impossible(
    world: World, gang: GangRequest, node: Node
) -> None:
    before = place_gang(gang, world.pad())
    after = place_gang(gang, world.with_free_node(node).pad())

    assert not isinstance(before, Placement) or isinstance(after, Placement)


@many
@given(worlds(is_odd=True), gangs())
def test_a_no_accounts_for_every_node(world: World, gang: GangRequest) -> None:
    answer = place_gang(gang, world.pad())

    if isinstance(answer, TooFewGpus | NeverFits):
        assert sum(answer.nodes_by_reason.values()) == answer.nodes == len(world.nodes)
        assert all(count > 0 for count in answer.nodes_by_reason.values())
        assert answer.workers_fit_max < answer.workers_wanted


@many
@given(worlds(is_odd=True), gangs_found_if_any())
def test_never_is_said_exactly_when_the_empty_cluster_has_no_room(
    world: World, gang: GangRequest
) -> None:
    free = world.pad()
    answer = place_gang(gang, free)
    fits_empty = isinstance(place_gang(_without_exclusions(gang), free.empty()), Placement)

    assert isinstance(answer, NeverFits) <= (not fits_empty)
    assert isinstance(answer, TooFewGpus | Placement) <= fits_empty


@many
@given(worlds(is_odd=True, nodes_max=3), small_gangs())
def test_never_is_said_only_where_trying_every_way_finds_none(
    world: World, gang: GangRequest
) -> None:
    free = world.pad()
    if isinstance(place_gang(gang, free), NeverFits):
        assert not any_way(_without_exclusions(gang), free.empty())


@many
@given(worlds(is_odd=True, nodes_max=3), small_gangs(roles_max=1))
def test_a_no_to_one_role_stands_where_every_way_is_tried(world: World, gang: GangRequest) -> None:
    free = world.pad()

    assert isinstance(place_gang(gang, free), Placement) == any_way(gang, free)


def _without_exclusions(gang: GangRequest) -> GangRequest:
    return GangRequest(
        roles=gang.roles,
        models=gang.models,
        mixes_models=gang.mixes_models,
        required=gang.required,
    )
