"""`python -m simulator.foretelling BYTES`: a question of a forecast on stdin, its answer on stdout.

A process of its own, so that a server that is asked for a forecast goes on as fast as before. It
gives way to everybody, takes no more than BYTES of memory, and is the first to go if the machine
runs out of it. Whoever asks limits its time.
"""

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from scheduler.domain.codec import from_json, to_json
from scheduler.domain.forecast import ForecastQuestion
from simulator.forecasting import answered

OUT_OF_MEMORY = 3
"""The exit code that says so."""

NICENESS = 10


def main() -> int:
    """Returns the exit code."""
    bytes_max = int(sys.argv[1])
    os.nice(NICENESS)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    with suppress(ValueError):
        # Beyond a harder limit that this process was born with nothing can be set, nor need be.
        resource.setrlimit(resource.RLIMIT_AS, (bytes_max, bytes_max))
    try:
        question = from_json(ForecastQuestion, sys.stdin.read())
        sys.stdout.write(to_json(answered(question)))
    except MemoryError:
        return OUT_OF_MEMORY
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
