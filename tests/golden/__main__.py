"""`python -m tests.golden` writes the expected reports anew; a person reads the difference."""

from tests.golden.reports import POLICIES, expected_file, written

for policy in POLICIES:
    expected_file(policy).write_text(written(policy), encoding="utf-8")
