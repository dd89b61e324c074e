"""The scratch pad: what is undone is as if it had never been, and counts are never out of date."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.gang import GangRequest
from scheduler.domain.ids import NodeName
from scheduler.domain.placement import Placement
from scheduler.domain.resources import Resources
from scheduler.domain.topology import Node
from scheduler.engine.asking import Ask
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang
from tests.pads import a_gang, a_pad
from tests.proof import times
from tests.properties.gangs import CPU, World, gangs, plain_gangs, worlds

EXAMPLES = times(ci=100, proof=5_000)
pytestmark = pytest.mark.proof(examples=EXAMPLES)
many = settings(max_examples=EXAMPLES, deadline=None)
ONE_CPU = Resources(cpu_milli=CPU)


@many
@given(worlds(is_odd=True), st.lists(gangs(), min_size=1, max_size=4))
def test_a_trial_leaves_no_trace(world: World, wanted: Sequence[GangRequest]) -> None:
    free = world.pad()
    before = _state(free)
    answers = [place_gang(gang, free) for gang in wanted]
    with free.trial():
        for gang in wanted:
            _place(gang, free)
            with free.trial():
                _place(gang, free)

    assert _state(free) == before
    assert [place_gang(gang, free) for gang in wanted] == answers


@many
@given(worlds(is_odd=True), st.lists(gangs(), min_size=1, max_size=4))
def test_what_is_taken_and_released_leaves_the_state_equal(
    world: World, wanted: Sequence[GangRequest]
) -> None:
    free = world.pad()
    before = _state(free)
    placed = [(gang, _place(gang, free)) for gang in wanted]
    for gang, placement in placed:
        if placement is not None:
            free.release(placement, gang)

    assert _state(free) == before


@many
@given(
    worlds(is_odd=True),
    st.lists(gangs(), min_size=2, max_size=3),
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=12),
)
def test_counts_that_follow_every_change_equal_fresh_ones(
    world: World, wanted: Sequence[GangRequest], steps: Sequence[tuple[int, bool]]
) -> None:
    free = world.pad()
    running: list[tuple[GangRequest, Placement]] = []
    for number, ends in steps:
        if ends and running:
            gang, placement = running.pop(number % len(running))
            free.release(placement, gang)
        else:
            gang = wanted[number % len(wanted)]
            found = _place(gang, free)
            if found is not None:
                running.append((gang, found))
    fresh = world.pad()
    for gang, placement in running:
        fresh.take(placement, gang)

    assert _state(free) == _state(fresh)
    for gang in wanted:
        assert _counts(gang, free) == _counts(gang, fresh)
        assert place_gang(gang, free) == place_gang(gang, fresh)


def _place(gang: GangRequest, free: FreeGpus) -> Placement | None:
    found = place_gang(gang, free)
    if not isinstance(found, Placement):
        return None
    free.take(found, gang)
    return found


@many
@given(
    worlds(is_odd=True),
    st.lists(plain_gangs() | gangs(roles_max=1), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 6), st.integers(1, 4), st.booleans()), max_size=12),
)
def test_a_refusal_stands_as_long_as_what_it_was_read_off(
    world: World, wanted: Sequence[GangRequest], steps: Sequence[tuple[int, int, bool]]
) -> None:
    free = world.pad()
    known: dict[int, tuple[object, object]] = {}
    held: list[tuple[int, int]] = []
    for number, gpus, is_freeing in steps:
        if is_freeing and held:
            node, freed = held.pop(number % len(held))
            free.release_worker(free.tree.nodes[node], freed, ONE_CPU)
        else:
            node = number % len(free.nodes)
            free.take_worker(free.tree.nodes[node], gpus, ONE_CPU)
            held.append((node, gpus))
        for place, gang in enumerate(wanted):
            mark = free.mark(gang)
            answer = place_gang(gang, free)
            if place in known and mark is not None and known[place][1] == mark:
                assert answer == known[place][0]
            if isinstance(answer, Placement):
                known.pop(place, None)
            else:
                # Taken with the answer: what is tried and undone may move the counts.
                known[place] = (answer, free.mark(gang))


def test_only_what_could_change_a_refusal_ends_it() -> None:
    free = a_pad("r1: 8/3 8/3\nr2: 8/8")
    large, small = a_gang(2, 8), a_gang(3, 4)
    assert not isinstance(place_gang(large, free), Placement)
    before, before_small = free.mark(large), free.mark(small)
    # From three free GPUs to five: still no room for a worker with eight, but for one with four.
    free.release_worker(free.tree.nodes[0], 2)
    assert free.mark(large) == before
    assert free.mark(small) != before_small
    free.release_worker(free.tree.nodes[0], 3)
    assert free.mark(large) != before


def test_a_refusal_for_want_of_cpus_ends_when_fewer_workers_fit() -> None:
    nodes = tuple(
        Node(name=NodeName(f"n{n}"), gpus=0, resources=Resources(cpu_milli=8 * CPU))
        for n in range(2)
    )
    free = World(nodes=nodes, held=(0, 0)).pad()
    three = Resources(cpu_milli=3 * CPU)
    needy = a_gang(4, 0, resources=three)
    free.take_worker(nodes[0].name, 0, three)
    first = place_gang(needy, free)
    before = free.mark(needy)
    # The node still holds a worker: only how many fit has changed, and the refusal says that.
    free.take_worker(nodes[1].name, 0, three)
    assert place_gang(needy, free) != first
    assert free.mark(needy) != before


def _state(free: FreeGpus) -> tuple[object, ...]:
    """All that changes on a pad."""
    return (
        list(free.gpus),
        list(free.seats),
        list(free.cpu_milli),
        list(free.memory_bytes),
        [dict(extended) for extended in free.extended],
        [list(level) for level in free.uplinks],
    )


def _counts(gang: GangRequest, free: FreeGpus) -> list[object]:
    """How many workers and slices of each role fit where."""
    ask = free.ready(gang).ask
    if not isinstance(ask, Ask):
        return []
    found: list[object] = []
    for choice in ask.choices:
        for role in choice:
            counts = free.counts(role.eligible, role.need, role.grouping)
            found.append(([list(level) for level in counts.fits], counts.groups))
    return found
