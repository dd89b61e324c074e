"""`kill -9` of the server, at every named point and at random moments, on each store."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.ports.kill_points import KillPoint
from tests.crash.killing_ground import KillingGround
from tests.crash.stories import points
from tests.databases import Databases
from tests.proof import record, times

RANDOM_KILLS = 20
"""In one batch; after each batch the books are compared."""

NAMED_POINTS_MIN = 25


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    """Kills and jobs by store, over all batches; the figures of a long run."""
    counts: Counter[str] = Counter()
    yield counts
    for store in ("sqlite", "postgres"):
        kills, jobs = counts[f"{store} kills"], counts[f"{store} jobs"]
        figures = f"{kills} kills, {jobs} accepted jobs: 0 lost, 0 workers doubled, 0 leaks"
        if kills:
            record(f"kill -9 of the server on {store}", figures)


@pytest.fixture(params=["sqlite", "postgres"])
def ground(
    request: pytest.FixtureRequest, tmp_path: Path, databases: Databases, tally: Counter[str]
) -> Iterator[KillingGround]:
    """A folder and a database of the kind, with a first token."""
    url = "" if request.param == "sqlite" else databases.new("postgres")
    made = KillingGround(tmp_path, database_url=url)
    made.prepare()
    yield made
    made.close()
    if made.is_settled:
        tally[f"{request.param} kills"] += made.kills.total()
        tally[f"{request.param} jobs"] += len(made.acknowledged)


def test_nothing_is_lost_doubled_or_leaked_by_kills_at_every_point(ground: KillingGround) -> None:
    for point in points():
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
