"""Workers the cluster reports that no live attempt accounts for.

Of an attempt that has ended, they are forgotten once they are down, and stopped if they still run.
Of an attempt the store does not know, those that never ran are stopped after a while; one that
runs is reported and left alone: only a person can say whose it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from scheduler.control.cluster_watch import ClusterWatch
from scheduler.control.gang import TERMINAL_STATES
from scheduler.control.live_jobs import LiveJobs
from scheduler.control.outside import Outside
from scheduler.domain.errors import NotFoundError
from scheduler.domain.instants import Instant, after, seconds
from scheduler.domain.job import AttemptPhase
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import WorkerState

LOOK_AGAIN = seconds(30)
"""How long after one look at a stray the next one follows."""

UNKNOWN_FOR = seconds(60)
"""Workers of an unknown attempt that only wait are stopped after so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Stray:
    first_seen: Instant
    look_at: Instant


class Strays:
    """Looks after them; owned by the loop."""

    def __init__(self, outside: Outside, live: LiveJobs, watch: ClusterWatch) -> None:
        self._outside = outside
        self._live = live
        self._watch = watch
        self._seen: dict[AttemptKey, _Stray | None] = {}
        """Attempts that may be astray; None until they have been looked at."""

    def forget(self) -> None:
        """Know nothing: a new term begins."""
        self._seen.clear()

    def note(self, keys: Iterable[AttemptKey] | None) -> None:
        """The cluster has told something of these attempts, or of any (None)."""
        for key in self._watch.reports if keys is None else keys:
            if key not in self._seen and not self._is_cared_for(key):
                self._seen[key] = None

    def look_after(self, now: Instant) -> None:
        """Do what is due."""
        if not self._seen:
            return
        for key in sorted(self._seen):
            if self._is_cared_for(key) or key not in self._watch.reports:
                del self._seen[key]
                continue
            stray = self._seen[key] or _Stray(first_seen=now, look_at=now)
            if stray.look_at <= now:
                self._look_at(key, stray, now)
                stray = _Stray(first_seen=stray.first_seen, look_at=after(now, LOOK_AGAIN))
            self._seen[key] = stray

    def next_due(self) -> Instant | None:
        """When the next look is due."""
        if not self._seen:
            return None
        return min((stray.look_at for stray in self._seen.values() if stray), default=None)

    def _is_cared_for(self, key: AttemptKey) -> bool:
        """Whether it is settled by its records, or must wait until they can be read."""
        if key.job_id in self._live.stuck:
            return True
        live = self._live.attempts.get(key.job_id)
        return live is not None and live.attempt.number == key.number

    def _look_at(self, key: AttemptKey, stray: _Stray, now: Instant) -> None:
        states = {report.state for report in self._watch.reports_of(key).values()}
        is_down = states <= TERMINAL_STATES
        phase = self._phase_in_store(key)
        if is_down and (phase is AttemptPhase.ENDED or phase is None):
            self._outside.acting_cluster().forget(key)
            self._watch.forget_attempt(key)
        elif phase is AttemptPhase.ENDED:
            self._outside.acting_cluster().stop(key, kill_at=now)
        elif phase is None and states <= TERMINAL_STATES | {WorkerState.MADE}:
            if after(stray.first_seen, UNKNOWN_FOR) <= now:
                self._outside.acting_cluster().stop(key, kill_at=now)
        elif phase is None:
            self._outside.sink.emit("unknown_workers", {"attempt": str(key)})

    def _phase_in_store(self, key: AttemptKey) -> AttemptPhase | None:
        try:
            attempts = self._outside.store.attempts(key.job_id)
        except NotFoundError:
            return None
        return next((a.phase for a in attempts if a.number == key.number), None)
