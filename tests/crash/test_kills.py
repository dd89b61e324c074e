"""`kill -9` of the server, at every named point and at random moments, on each store."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.ports.kill_points import KillPoint
from tests.crash.killing_ground import KillingGround
from tests.crash.stories import points
from tests.databases import Databases

RANDOM_KILLS = 20
NAMED_POINTS_MIN = 25


@pytest.fixture(params=["sqlite", "postgres"])
def ground(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases
) -> Iterator[KillingGround]:
    """A folder and a database of the kind, with a first token."""
    url = "" if request.param == "sqlite" else databases.new("postgres")
    made = KillingGround(tmp_path, database_url=url)
    made.prepare()
    yield made
    made.close()


def test_nothing_is_lost_doubled_or_leaked_by_kills_at_every_point(ground: KillingGround) -> None:
    for point in points():
        ground.die_at(point)
    ground.settle_accounts()
    assert set(ground.kills) == set(KillPoint)


def test_nothing_is_lost_doubled_or_leaked_by_kills_at_random(ground: KillingGround) -> None:
    # The machine's own timing is chance enough: a seed draws only the jobs and the waits.
    rng = random.Random(20)
    for _ in range(RANDOM_KILLS):
        ground.die_at_random(rng)
    ground.settle_accounts()


def test_there_are_points_enough() -> None:
    assert len(KillPoint) >= NAMED_POINTS_MIN
    assert {point.partition(".")[0] for point in KillPoint} >= {"submit", "launch", "run", "cancel"}
