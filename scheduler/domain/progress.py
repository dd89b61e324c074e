"""What a training script reports of itself while it runs."""

from dataclasses import dataclass

from scheduler.domain.instants import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """One report of rank 0 of an attempt, or what its log told instead."""

    step: int
    step_seconds: float
    """Mean seconds per step since the last report."""
    loss: float | None = None
    accuracy: float | None = None
    steps_total: int | None = None
    reported_at: Instant
    is_from_log: bool = False
    """Read off the log of rank 0, where `step` counts the lines that told a step time."""
