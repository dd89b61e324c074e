"""Named points at which tests kill the server, to prove that a restart loses and doubles nothing.

The product calls `reach` at each point; unless a driver has armed a hook, that does nothing. The
registry is the enum: a test fails when one of its points is never reached.
"""

from collections.abc import Callable
from enum import StrEnum


class KillPoint(StrEnum):
    """Every point; named `<story>.<step>.<before|after>`."""

    SUBMIT_BEFORE_WRITE = "submit.write.before"
    SUBMIT_AFTER_WRITE = "submit.write.after"
    CANCEL_BEFORE_WRITE = "cancel.write.before"
    CANCEL_AFTER_WRITE = "cancel.write.after"


_hook: Callable[[KillPoint], None] | None = None


def arm(hook: Callable[[KillPoint], None] | None) -> None:
    """Have `hook` called at every point from now on; None disarms. Only a driver or a test arms."""
    global _hook  # noqa: PLW0603 - one switch per process, by design
    _hook = hook


def reach(point: KillPoint) -> None:
    """Say that execution stands at `point`."""
    if _hook is not None:
        _hook(point)
