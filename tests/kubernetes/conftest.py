"""A server over a real control plane, and the adapter alone with faults between."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster_fixtures import Place
from tests.cluster.control_plane import ReachedControlPlane
from tests.kubernetes.faulty_world import FaultyWorld
from tests.kubernetes.served import ServedCluster


@pytest.fixture
def served(request: pytest.FixtureRequest, place: Place, tmp_path: Path) -> Iterator[ServedCluster]:
    """`dallyd serve` whose workers are pods; not started yet. A parameter has settings of it."""
    with ServedCluster(place, tmp_path / "server", **getattr(request, "param", {})) as made:
        yield made


@pytest.fixture
def world(control_plane: ReachedControlPlane, tmp_path: Path) -> Iterator[FaultyWorld]:
    """The adapter with a fault proxy between it and the API server."""
    with FaultyWorld(control_plane, tmp_path) as made:
        yield made
