"""Waiting for real processes: look again and again, with a deadline, never for a fixed time."""

import os
import time
from collections.abc import Callable

DEADLINE_S = float(os.environ.get("DALLY_TEST_DEADLINE_S") or 60.0)
"""Shorter where a test is expected to fail: it would wait that long for what never comes."""
PAUSE_S = 0.01


def wait_until(is_so: Callable[[], bool], what: str, *, deadline_s: float = DEADLINE_S) -> None:
    """Return as soon as `is_so()`; fail after the deadline."""
    end = time.monotonic() + deadline_s
    while not is_so():
        assert time.monotonic() < end, f"not within {deadline_s:g} s: {what}"
        time.sleep(PAUSE_S)


def comes_true(is_so: Callable[[], bool], *, within_s: float) -> bool:
    """Whether it is so at any look in that time: for what must not come true."""
    end = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() >= end:
            return False
        time.sleep(PAUSE_S)
    return True
