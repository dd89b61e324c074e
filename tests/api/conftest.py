"""An API over the store in memory, and clients that call it through its front door."""

from collections.abc import Iterator

import pytest
import structlog
from starlette.testclient import TestClient

from tests.api.front_door import FrontDoor


@pytest.fixture
def door() -> FrontDoor:
    """A server with an empty store, one admin and one member of project `default`."""
    return FrontDoor()


@pytest.fixture
def admin(door: FrontDoor) -> Iterator[TestClient]:
    """A client with the admin's token."""
    with door.client(door.admin_token) as client:
        yield client


@pytest.fixture
def member(door: FrontDoor) -> Iterator[TestClient]:
    """A client with a token that may act in project `default` alone."""
    with door.client(door.member_token) as client:
        yield client


@pytest.fixture(autouse=True)
def _plain_logs() -> None:
    """Tracebacks of provoked failures as plain text: the pretty ones take seconds each."""
    structlog.configure(
        processors=[structlog.processors.format_exc_info, structlog.processors.KeyValueRenderer()]
    )
