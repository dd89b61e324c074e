"""However often and wherever the server dies: no worker is doubled or lost, all ends are told.

A server process drives four gangs and is killed; a new one goes on. At the end every worker that
should have run has run exactly once, and every end is the one its script gives.
"""

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from scheduler.ports.kill_points import KillPoint
from tests.local.crashing_server import SCRIPTS, WORKERS
from tests.processes import ended_on_failure
from tests.proof import times
from tests.source_tree import ROOT

KILLED = -9
TIMES_MAX = 60
KILLS_MAX = 8
"""In one folder; by then the gangs have come to their ends."""

LOCAL_POINTS = [point for point in KillPoint if point.startswith("local.")]

RUNS = {job: [] if job == "never" else ["0", "1", "2"] for job in SCRIPTS}

ENDS = {
    "ends": {"Ended 0", "Ended 1", "Ended 2"},
    "leaves": {"Ended 9"},
    "lost": {"Ended 0", "Gone None"},
    "never": {"Ended 143"},
}


def serve(folder: Path, plan: str = "", *, life_s: float | None = None) -> int:
    """Run a server until it ends, is killed by its plan, or has lived so long; its exit code."""
    command = [sys.executable, "-m", "tests.local.crashing_server", str(folder), *plan.split()]
    process = subprocess.Popen(command, cwd=ROOT)  # noqa: S603 - our own module
    with ended_on_failure(process) as server:
        try:
            return server.wait(60 if life_s is None else life_s)
        except subprocess.TimeoutExpired:
            assert life_s is not None, "the server does not come to an end"
            server.kill()
            return server.wait()


def check(folder: Path) -> None:
    """The claims at the top of this module."""
    for job, expected in RUNS.items():
        runs = folder / f"runs-{job}"
        found = sorted(runs.read_text().split()) if runs.exists() else []
        assert found == expected, f"{job}: user code ran for ranks {found}"
    told: dict[str, set[str]] = {job: set() for job in SCRIPTS}
    ranks: dict[str, set[str]] = {job: set() for job in SCRIPTS}
    for line in (folder / "ends").read_text().splitlines():
        job, rank, end = line.split(" ", 2)
        told[job].add(end)
        ranks[job].add(rank)
    assert told == ENDS
    assert all(len(found) == WORKERS for found in ranks.values())


@pytest.mark.slow
@pytest.mark.parametrize("point", LOCAL_POINTS)
def test_a_death_at_any_point_doubles_and_loses_nothing(tmp_path: Path, point: KillPoint) -> None:
    nth = 1
    # Each new server dies a step later than the one before, until one gets through.
    while (code := serve(tmp_path, f"{point}:{nth}")) == KILLED:
        nth += 1
        assert nth < TIMES_MAX
    assert code == 0
    assert nth > 1, f"{point} was never reached"
    check(tmp_path)


@pytest.mark.slow
@pytest.mark.proof
@pytest.mark.parametrize("seed", range(times(ci=4, proof=270)))
def test_deaths_at_random_moments_double_and_lose_nothing(
    tmp_path: Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    rng = random.Random(seed)
    kills = 0
    # A server needs about 0.4 s to start and the gangs about a second: a folder sees four kills.
    while kills < KILLS_MAX and serve(tmp_path, life_s=rng.uniform(0.3, 1.2)) == KILLED:
        kills += 1
    assert serve(tmp_path) == 0
    check(tmp_path)
    record_property("kills", kills)
