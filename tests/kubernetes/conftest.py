"""A server over a real control plane, and the adapter alone."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster_fixtures import Place
from tests.kubernetes.served import ServedCluster


@pytest.fixture
def served(place: Place, tmp_path: Path) -> Iterator[ServedCluster]:
    """`dallyd serve` whose workers are pods; not started yet."""
    with ServedCluster(place, tmp_path / "server") as made:
        yield made
