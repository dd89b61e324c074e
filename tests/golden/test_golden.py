"""Small runs say what they have always said; `python -m tests.golden` writes a new expectation."""

import pytest

from tests.golden.reports import POLICIES, expected_file, written


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_says_what_it_has_always_said(policy: str) -> None:
    assert written(policy) == expected_file(policy).read_text(encoding="utf-8")
