"""How often a test by chance is repeated: a few times in CI, very often in `make proof`.

A test with a long version is marked `proof` and asks `times` for its number:

    @pytest.mark.proof
    @pytest.mark.parametrize("seed", range(times(ci=20, proof=2_000)))
"""

import os


def times(*, ci: int, proof: int) -> int:
    """The number for this run."""
    return proof if os.environ.get("PROOF") else ci
