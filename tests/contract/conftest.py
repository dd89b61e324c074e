"""What the contract suites share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract.cluster_worlds import LocalWorld, MemoryWorld, World


@pytest.fixture(params=["memory", "local"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A cluster of each kind."""
    made = _world(request.param, tmp_path)
    yield made
    made.close()


def _world(kind: str, folder: Path) -> World:
    if kind == "memory":
        return MemoryWorld()
    return LocalWorld(folder)
