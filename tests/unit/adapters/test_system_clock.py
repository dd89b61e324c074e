"""The service's clock never goes back, not even behind what an earlier server has stored."""

import time

from scheduler.adapters.system_clock import SystemClock
from scheduler.domain.instants import DAY, Instant


def test_it_is_wall_time_when_it_starts() -> None:
    before = time.time_ns() // 1000
    assert before <= SystemClock().now() <= time.time_ns() // 1000 + 1


def test_it_does_not_start_behind_what_was_stored() -> None:
    ahead = Instant(time.time_ns() // 1000 + DAY)
    clock = SystemClock(not_before=ahead)
    assert clock.now() >= ahead
    assert clock.now() <= clock.now()
