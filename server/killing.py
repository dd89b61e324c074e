"""Arms one kill point for the crash tests: the process dies by SIGKILL when it gets there.

DALLYD_KILL_POINT=launch.prepare.after      the first time
DALLYD_KILL_POINT=store.commit.before:7     the seventh time
"""

import os
import signal
from dataclasses import dataclass

from scheduler.ports.kill_points import KillPoint, arm


@dataclass(frozen=True, slots=True, kw_only=True)
class Trap:
    """Where and when to die."""

    point: KillPoint
    times: int


def trap_of(setting: str) -> Trap | None:
    """What the setting says; None if there is no such point or count."""
    name, _, count = setting.partition(":")
    if name not in set(KillPoint) or not (count or "1").isdecimal() or count == "0":
        return None
    return Trap(point=KillPoint(name), times=int(count or 1))


def arm_kill_point(setting: str) -> None:
    """Nothing for the empty setting."""
    trap = trap_of(setting) if setting else None
    if trap is None:
        return
    reached = 0

    def die(point: KillPoint) -> None:
        nonlocal reached
        reached += point is trap.point
        if reached == trap.times:
            os.kill(os.getpid(), signal.SIGKILL)

    arm(die)
