"""What the cluster tells of nodes that are left alone, and what is stored of it."""

import pytest

from scheduler.domain.copying import replace
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import Instant
from scheduler.domain.left_alone import changed_exclusions, next_end, with_exclusions
from tests.builders import a_node, an_exclusion

N0, N1 = NodeName("n0"), NodeName("n1")
NOW = Instant(50)
TOLD = an_exclusion(since=10, until=100)
CLEARED = replace(TOLD, cleared_by="root", cleared_at=Instant(40))


@pytest.mark.parametrize(
    ("stored", "told", "changes"),
    [
        pytest.param(None, None, {}, id="nothing is told of a node that is well"),
        pytest.param(None, TOLD, {N0: TOLD}, id="news are stored"),
        pytest.param(TOLD, TOLD, {}, id="stored once"),
        pytest.param(TOLD, None, {}, id="the server that was told has been restarted"),
        pytest.param(CLEARED, TOLD, {}, id="what an admin has ended stays ended"),
        pytest.param(
            replace(CLEARED, cleared_at=Instant(9)),
            TOLD,
            {},
            id="though by the clock of a server that is behind",
        ),
        pytest.param(
            CLEARED,
            an_exclusion(since=45, until=100),
            {N0: an_exclusion(since=45, until=100)},
            id="new failures after that count",
        ),
        pytest.param(
            TOLD,
            an_exclusion(since=45, until=120),
            {N0: an_exclusion(since=45, until=120)},
            id="a longer time replaces a shorter one",
        ),
        pytest.param(TOLD, an_exclusion(since=45, until=60), {}, id="a shorter one does not"),
        pytest.param(None, an_exclusion(since=10, until=50), {}, id="what is over is no news"),
        pytest.param(an_exclusion(since=1, until=50), None, {N0: None}, id="what is over goes"),
        pytest.param(
            an_exclusion(since=1, until=50),
            an_exclusion(since=1, until=51),
            {},
            id="unless it is still told",
        ),
    ],
)
def test_what_is_to_be_stored(
    stored: Exclusion | None, told: Exclusion | None, changes: dict[NodeName, Exclusion | None]
) -> None:
    nodes = (replace(a_node("n0"), exclusion=told), a_node("n1"))
    assert changed_exclusions({N0: stored} if stored else {}, nodes, NOW) == changes


@pytest.mark.parametrize(
    ("nodes", "is_for_programs", "stored"),
    [
        pytest.param(4, True, 1, id="always one"),
        pytest.param(40, True, 4, id="a tenth"),
        pytest.param(4, False, 4, id="unless the cluster is to blame"),
    ],
)
def test_errors_of_programs_shut_few_nodes_at_a_time(
    nodes: int,
    is_for_programs: bool,  # noqa: FBT001 - a column of the table
    stored: int,
) -> None:
    told = an_exclusion(since=10, until=100, is_for_programs=is_for_programs)
    all_of_them = [replace(a_node(f"n{n}"), exclusion=told) for n in range(nodes)]
    changes = changed_exclusions({}, all_of_them, NOW)
    assert len(changes) == stored
    assert changed_exclusions({n: e for n, e in changes.items() if e}, all_of_them, NOW) == {}


def test_a_node_that_an_admin_has_cleared_makes_room_for_another() -> None:
    told = an_exclusion(since=10, until=100, is_for_programs=True)
    nodes = [replace(a_node(name), exclusion=told) for name in (N0, N1)]
    cleared = replace(told, cleared_by="root", cleared_at=Instant(40))
    assert changed_exclusions({N0: told}, nodes, NOW) == {}
    assert changed_exclusions({N0: cleared}, nodes, NOW) == {N1: told}


def test_a_node_that_is_shut_for_programs_may_stay_so_for_longer() -> None:
    stored = an_exclusion(since=10, until=100, is_for_programs=True)
    told = an_exclusion(since=45, until=120, is_for_programs=True)
    nodes = [replace(a_node("n0"), exclusion=told), a_node("n1")]
    assert changed_exclusions({N0: stored}, nodes, NOW) == {N0: told}, "it is one node all the same"


def test_what_is_stored_decides_and_not_what_is_told() -> None:
    nodes = (replace(a_node("n0"), exclusion=TOLD), a_node("n1"), a_node("n2"))
    shown = with_exclusions(nodes, {N0: CLEARED, N1: TOLD}, NOW)
    assert [node.exclusion for node in shown] == [None, TOLD, None]
    assert [node.takes_workers for node in shown] == [True, False, True]
    assert with_exclusions(shown, {N1: TOLD}, NOW) is shown


def test_the_next_end_is_that_of_the_first_that_still_holds() -> None:
    late = an_exclusion(since=1, until=200)
    assert next_end({N0: TOLD, N1: late}, NOW) == 100
    assert next_end({N0: CLEARED, N1: late}, NOW) == 200
    assert next_end({N0: CLEARED}, NOW) is None
