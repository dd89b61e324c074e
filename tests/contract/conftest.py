"""The ports in each of their forms."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.adapters.sql.job_store import SqlStore, open_store
from scheduler.domain.instants import seconds
from tests.contract.cluster_worlds import LocalWorld, MemoryWorld, World
from tests.contract.kubernetes_world import KubernetesWorld
from tests.contract.stores import Store, a_store
from tests.databases import Databases


@pytest.fixture(params=["memory", "memory that takes its time", "local", "kubernetes"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """A cluster of each kind."""
    made = _world(request, tmp_path)
    yield made
    made.close()


def _world(request: pytest.FixtureRequest, folder: Path) -> World:
    if request.param == "local":
        return LocalWorld(folder)
    if request.param == "kubernetes":
        return KubernetesWorld(request.getfixturevalue("control_plane"), folder)
    return MemoryWorld(lag=seconds(0) if request.param == "memory" else seconds(0.5))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, databases: Databases) -> Iterator[Store]:
    """A new store behind the ports."""
    with a_store(request.param, databases) as made:
        yield made


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, databases: Databases) -> Iterator[str]:
    """A new migrated database."""
    with databases.lent(request.param) as url:
        yield url


@pytest.fixture
def sql_store(database_url: str) -> Iterator[SqlStore]:
    """A new store in a database."""
    with open_store(database_url) as made:
        yield made
