"""The whole loop under trouble: safe after every tick, alive once healed, the same by the seed."""

from collections import Counter
from pathlib import Path

import pytest

from tests.proof import times
from tests.simulation.troubled_world import FAULTS, TroubledWorld

REGRESSIONS = Path(__file__).with_name("regressions.txt")
SEEDS = times(ci=25, proof=1_000)


def regressions() -> list[int]:
    """Seeds that have found something once."""
    lines = REGRESSIONS.read_text().splitlines()
    return [int(line.split()[0]) for line in lines if line and not line.startswith("#")]


@pytest.mark.proof
@pytest.mark.parametrize("seed", [*range(SEEDS), *regressions()])
def test_promises_hold_under_trouble_and_every_job_ends_after_it(seed: int) -> None:
    run = TroubledWorld(seed)
    run.run()
    assert run.open_jobs() == [], f"reproduce with seed={seed}"


@pytest.mark.parametrize("seed", [*range(3), *regressions()])
def test_the_same_seed_is_the_same_run(seed: int) -> None:
    first, second = TroubledWorld(seed), TroubledWorld(seed)
    first.run()
    second.run()
    assert first.digest() == second.digest(), f"reproduce with seed={seed}"


def test_the_faults_are_not_an_empty_figure() -> None:
    met: Counter[str] = Counter()
    store_failures = deposes = attempts = 0
    for seed in range(6):
        run = TroubledWorld(seed)
        run.run()
        met.update(run.faults)
        store_failures += run.store.failures
        deposes += run.store.deposes
        attempts += sum(run.store.job_by_id(job_id).attempts for job_id in run.lives)
    assert {name for name, count in met.items() if count} == set(FAULTS)
    assert store_failures > 10
    assert deposes > 3
    assert attempts > 100
