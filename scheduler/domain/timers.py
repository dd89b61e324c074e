"""What the tuner knows: the timer of each demand and level, and what it stands on."""

from dataclasses import dataclass
from enum import StrEnum

from scheduler.domain.ids import LevelName
from scheduler.domain.instants import Duration, Instant


class TimerSource(StrEnum):
    """Where a timer comes from."""

    LEARNED = "learned"
    """From past waits of gangs of this demand."""
    SMALLER_DEMAND = "smaller-demand"
    """From those of smaller gangs: of this demand there are too few."""
    VALUE_OF_WAITING = "value-of-waiting"
    """Too little is known: each job waits as long as waiting is worth to it."""
    FIXED = "fixed"
    """The knobs say so, whatever past waits teach."""


class TimerReason(StrEnum):
    """Why a job holds out just so long."""

    WORTH = "worth"
    """Waiting is worth no more to it."""
    PAST_WAITS = "past-waits"
    FIXED = "fixed"
    """The knobs say so."""
    MOVING = "moving"
    """Starting on wider GPUs and moving later costs it no more than that."""
    SHARING = "sharing"
    """On the links of the offer it and others would lose so much by each other."""
    LIMIT = "limit"
    """Nobody waits longer (`wait_max`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerRow:
    """The timer of gangs of one demand for one level, as it would be frozen now."""

    demand: int
    """GPUs of the gang, rounded up to a power of two."""
    level: LevelName
    timer: Duration | None
    """A job waits no longer than this; less where waiting is worth less to it. None: as long as
    waiting is worth to it."""
    source: TimerSource
    learned_from: int
    """The demand whose waits these are; 0 where nothing was learned."""
    accepted: int
    """Waits of this demand that ended with an offer, as far as the tuner looks at them."""
    censored: int
    """Waits of this demand that ended without."""
    changed_at: Instant | None
    """When the newest wait that counts ended: the timer has not moved for another reason since."""

    @property
    def cell(self) -> tuple[int, LevelName]:
        """Names the row."""
        return self.demand, self.level
