"""What the tests of the local executor share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.executor import Executor, an_executor


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[Executor]:
    """A running executor with two nodes of 8 slots."""
    with an_executor(tmp_path) as made:
        yield made
