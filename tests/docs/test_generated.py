"""Generated pages say what the code says now."""

import pytest

from tools import docs


@pytest.mark.parametrize("name", docs.PAGES)
def test_a_generated_file_is_fresh(name: str) -> None:
    assert not docs.stale(name), f"{name} is stale: run `make docs` and look at the difference"
