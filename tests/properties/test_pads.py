"""The scratch pad: what is undone is as if it had never been, and counts are never out of date."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.gang import GangRequest
from scheduler.domain.placement import Placement
from scheduler.engine.asking import Ask
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang
from tests.proof import times
from tests.properties.gangs import World, gangs, worlds

EXAMPLES = times(ci=100, proof=5_000)
pytestmark = pytest.mark.proof(examples=EXAMPLES)
many = settings(max_examples=EXAMPLES, deadline=None)


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
