"""What a waiting job keeps of its wait: the frozen timers of its episode and a clock.

pending ──declined──▶ timers frozen; the clock runs while waiting costs something
   accepted ─▶ the clock stands     evicted ─▶ a new episode, which may carry the clock on
"""

from dataclasses import dataclass, replace

from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import GpuModel, JobId, LevelName
from scheduler.domain.instants import Duration, Instant, elapsed
from scheduler.domain.timers import TimerReason
from scheduler.domain.waits import WaitObservation


@dataclass(frozen=True, slots=True, kw_only=True)
class TierTimer:
    """How long an episode holds out for one tier."""

    level: LevelName
    gpu_model: GpuModel = GpuModel("")
    """Of the tier, where the job accepts several models; else empty."""
    timer: Duration | None
    """None: for ever."""
    samples: int = 0
    """Past waits it was learned from; 0: from none."""
    reason: TimerReason = TimerReason.WORTH


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldDomain:
    """The topology domain that a large gang keeps free for itself."""

    level: LevelName
    path: tuple[str, ...]
    """Of the domain, widest first; for a node its path and its name."""
    since: Instant
    free_at: Instant = Instant(0)
    """When, at first, everything in it was expected to have ended: what would last longer does not
    start there any more."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class WaitEpisode:
    """One pending episode."""

    began_at: Instant
    timers: tuple[TierTimer, ...] = ()
    """Of the tiers from the best one on, closest first, without the widest; empty until an offer is
    declined."""
    clock: Duration = Duration(0)
    """What it showed when it last stood still."""
    runs_since: Instant | None = None
    """None: it stands still."""
    held: HeldDomain | None = None

    def clock_at(self, now: Instant) -> Duration:
        """What the clock shows."""
        if self.runs_since is None:
            return self.clock
        return Duration(self.clock + elapsed(self.runs_since, now))

    def running(self, now: Instant) -> "WaitEpisode":
        """The same with the clock running."""
        return self if self.runs_since is not None else replace(self, runs_since=now)

    def standing(self, now: Instant) -> "WaitEpisode":
        """The same with the clock standing still."""
        if self.runs_since is None:
            return self
        return replace(self, clock=self.clock_at(now), runs_since=None)


def carried_on(episode: WaitEpisode | None, run_time: Duration, now: Instant) -> WaitEpisode | None:
    """The next episode of a job that ran after one: the clock goes on if the run was shorter.

    Else a job could wait, run for minutes, be stopped and wait again for ever.
    """
    if episode is None or episode.clock <= run_time:
        return None
    return WaitEpisode(began_at=now, clock=episode.clock)


def waits_observed(
    job_id: JobId, demand: int, episode: WaitEpisode, *, taken: int | None, at: Instant
) -> tuple[WaitObservation, ...]:
    """What a wait teaches that ends at `at` with an offer of rung `taken`; None: with none.

    Each tier is charged with the clock beyond the timers of the closer ones. Tiers closer than the
    taken one did not come in time: censored. A tier never waited for teaches nothing.
    """
    clock = episode.clock_at(at)
    found: list[WaitObservation] = []
    closer = 0
    for number, each in enumerate(episode.timers):
        extra = max(0, clock - closer)
        is_taken = number == taken
        held_out = extra if is_taken or each.timer is None else min(extra, each.timer)
        if held_out > 0:
            found.append(
                WaitObservation(
                    job_id=job_id,
                    demand=demand,
                    level=each.level,
                    wait=Duration(held_out),
                    is_censored=not is_taken,
                    at=at,
                )
            )
        if is_taken or each.timer is None:
            break
        closer += each.timer
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evictions:
    """What moves and preemptions have cost a job so far."""

    recent: tuple[Instant, ...] = ()
    """When it was last stopped for another's sake or moved, oldest first; the latest few."""
    lost: Duration = Duration(0)
    """Run time lost by them: work since the checkpoint, and restarts."""

    def since(self, start: Instant) -> int:
        """How many there were from an instant on."""
        return sum(at >= start for at in self.recent)


NO_EVICTIONS = Evictions()

EVICTIONS_KEPT = 8
"""Instants of evictions a job remembers; bounds per hour are smaller."""
