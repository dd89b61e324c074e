"""`kill -9` of the server, at every named point and at random moments, on each store."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scheduler.ports.kill_points import KillPoint
from tests.crash.killing_ground import KillingGround
from tests.crash.stories import points
from tests.databases import Databases
from tests.proof import times

RANDOM_KILLS = 20
"""In one batch; after each batch the books are compared."""

NAMED_POINTS_MIN = 25


@pytest.fixture(params=["sqlite", "postgres"])
def ground(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    databases: Databases,
    record_property: Callable[[str, object], None],
) -> Iterator[KillingGround]:
    """A folder and a database of the kind, with a first token."""
    kind: str = request.param
    made = KillingGround(
        tmp_path, database_url="" if kind == "sqlite" else databases.new("postgres")
    )
    made.prepare()
    made.on_settled = lambda: record_property("kills", made.kills.total())
    yield made
    made.close()


@pytest.mark.proof
@pytest.mark.parametrize("turn", range(times(ci=1, proof=9)))
def test_nothing_is_lost_doubled_or_leaked_by_kills_at_every_point(
    ground: KillingGround, turn: int
) -> None:
    order = list(points())
    random.Random(turn).shuffle(order)
    for point in order:
        ground.die_at(point)
    ground.settle_accounts()
    assert set(ground.kills) == set(points())


@pytest.mark.proof
@pytest.mark.parametrize("batch", range(times(ci=1, proof=25)))
def test_nothing_is_lost_doubled_or_leaked_by_kills_at_random(
    ground: KillingGround, batch: int
) -> None:
    # The machine's own timing is chance enough: a seed draws only the jobs and the waits.
    rng = random.Random(batch)
    for _ in range(RANDOM_KILLS):
        ground.die_at_random(rng)
    ground.settle_accounts()


def test_there_are_points_enough() -> None:
    assert len(KillPoint) >= NAMED_POINTS_MIN
    assert {point.partition(".")[0] for point in KillPoint} >= {"submit", "launch", "run", "cancel"}
