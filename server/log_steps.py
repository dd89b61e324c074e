"""Step times read off the logs of jobs that report none themselves: `communication.stepPattern`."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import inf

import structlog

from api.job_files.step_patterns import StepPattern, step_pattern
from scheduler.control.estimating import Distances
from scheduler.control.learning import take_in
from scheduler.domain.errors import NotFoundError, SchedulerError
from scheduler.domain.ids import Rank, Sequence
from scheduler.domain.job import Attempt, AttemptPhase, Job
from scheduler.domain.progress import Progress
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.clock import Clock
from scheduler.ports.job_store import JobStore
from scheduler.ports.log_source import LogSource

EVERY_S = 5.0
"""As often as rank 0 of other jobs reports at most."""

CHUNK_BYTES = 1 << 18
LOOK_BYTES_MAX = 1 << 22
"""Of each job and look: one that writes more than that for long is read with a delay."""

LINE_BYTES_MAX = 1 << 16
"""What is kept of a line whose end has not come."""

FOLLOWED_MAX = 128
"""Attempts whose logs are read at once: on Kubernetes each is a stream from the API server, of
which people who look at logs need some too."""

RANK_0 = Rank(0)

_log = structlog.get_logger("dally.server")


@dataclass(slots=True, kw_only=True)
class _Followed:
    """One attempt whose log is read."""

    job: Job
    attempt: Attempt
    pattern: StepPattern
    steps_known: int
    """Lines with a step time that were reported before this process began to read."""
    steps: int = 0
    """Lines with a step time so far."""
    offset: int = 0
    rest: bytes = b""
    """The beginning of a line whose end has not come."""

    @property
    def key(self) -> AttemptKey:
        """The attempt."""
        return AttemptKey(self.attempt.job_id, self.attempt.number)

    def take(self, data: bytes) -> list[float]:
        """The step times that more of the log tells and that are news."""
        *lines, rest = (self.rest + data).split(b"\n")
        self.rest = rest[:LINE_BYTES_MAX]
        found: list[float] = []
        for line in lines:
            step_s = self.pattern.step_s(line.decode("utf-8", "replace"))
            if step_s is not None:
                self.steps += 1
                if self.steps > self.steps_known:
                    found.append(step_s)
        return found


class LogSteps:
    """Reads the logs of running attempts of jobs with a pattern; used by one thread.

    An attempt that is over before a look has seen it teaches nothing. Where more attempts than
    `FOLLOWED_MAX` have a pattern, the others wait until one of those that are read is over.
    """

    def __init__(
        self, store: JobStore, logs: LogSource, clock: Clock, distances: Callable[[], Distances]
    ) -> None:
        self._store = store
        self._logs = logs
        self._clock = clock
        self._distances = distances
        self._followed: dict[AttemptKey, _Followed] = {}
        self._waiting: dict[AttemptKey, _Followed] = {}
        """Those for which there was no room yet, oldest first."""
        self._looked_at: Sequence | None = None

    def forget(self) -> None:
        """Another process reads now: when this one does again, it begins with what is stored."""
        self._followed.clear()
        self._waiting.clear()
        self._looked_at = None

    def look(self) -> None:
        """Report what the logs have told since the last look. Raises as the store does."""
        running = self._running()
        self._make_room(running)
        known = self._store.step_times([one.job.id for one in self._followed.values()])
        for key, one in [*self._followed.items()]:
            stored = known.get(one.job.id)
            if stored is None or not stored.times.reports_itself:
                # One that has just ended is read to its end.
                self._report(one, is_last=key not in running)
                if key in running:
                    continue
            del self._followed[key]

    def _running(self) -> set[AttemptKey]:
        """Keys of running attempts with a pattern; those that are new are followed from now on."""
        live = self._store.live(self._looked_at)
        jobs = {job.id: job for job in live.jobs}
        changed = {*jobs, *live.deleted, *live.stuck}
        seen = (*self._followed, *self._waiting)
        running = (
            set[AttemptKey]() if live.is_whole else {k for k in seen if k.job_id not in changed}
        )
        for attempt in live.attempts:
            key = AttemptKey(attempt.job_id, attempt.number)
            profile = jobs[attempt.job_id].spec.communication
            if profile is None or not profile.step_pattern:
                continue
            if attempt.phase in (AttemptPhase.RUNNING, AttemptPhase.STOPPING):
                running.add(key)
                if key not in self._followed and key not in self._waiting:
                    self._waiting[key] = _Followed(
                        job=jobs[attempt.job_id],
                        attempt=attempt,
                        pattern=step_pattern(profile.step_pattern),
                        steps_known=self._steps_known(key),
                    )
        self._looked_at = live.sequence
        return running

    def _make_room(self, running: set[AttemptKey]) -> None:
        """Those that wait are read as far as there is room; those that are over no more."""
        for key, one in [*self._waiting.items()]:
            if key not in running:
                del self._waiting[key]
            elif len(self._followed) < FOLLOWED_MAX:
                self._followed[key] = one
                del self._waiting[key]

    def _steps_known(self, key: AttemptKey) -> int:
        """Steps of the attempt that an earlier server has read off its log."""
        reports = self._store.progress(key.job_id)
        return max((p.step for k, p in reports if k == key and p.is_from_log), default=0)

    def _report(self, one: _Followed, *, is_last: bool) -> None:
        steps_s = self._read(one, bytes_max=inf if is_last else LOOK_BYTES_MAX)
        if not steps_s:
            return
        report = Progress(
            step=one.steps,
            step_seconds=sum(steps_s) / len(steps_s),
            reported_at=self._clock.now(),
            is_from_log=True,
        )
        try:
            take_in(self._store, one.job, one.attempt, report, self._distances())
        except NotFoundError:
            # The job was deleted meanwhile.
            return

    def _read(self, one: _Followed, *, bytes_max: float) -> list[float]:
        found: list[float] = []
        stop = one.offset + bytes_max
        with suppress(NotFoundError):  # No log yet, or no longer.
            while one.offset < stop:
                chunk = self._logs.read(one.key, RANK_0, offset=one.offset, bytes_max=CHUNK_BYTES)
                if chunk.offset > one.offset:
                    one.rest = b""
                    if one.steps < one.steps_known:
                        # Which of the kept lines were reported is not known: none is news.
                        one.steps = one.steps_known
                        one.offset = self._logs.tail_offset(one.key, RANK_0, lines=0)
                        break
                if not chunk.data:
                    break
                one.offset = chunk.next_offset
                found += one.take(chunk.data)
        return found


class LogStepsThread:
    """Looks every few seconds until told to stop, while this process leads."""

    def __init__(self, steps: LogSteps, *, is_leader: Callable[[], bool]) -> None:
        self._steps = steps
        self._is_leader = is_leader
        self._is_stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="log-steps", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self, timeout_s: float) -> None:
        """End after the look that runs."""
        self._is_stopping.set()
        self._thread.join(timeout_s)

    def look(self) -> None:
        """One look, unless another process does: two would report every step twice."""
        if self._is_leader():
            self._steps.look()
        else:
            self._steps.forget()

    def _run(self) -> None:
        while not self._is_stopping.wait(EVERY_S):
            try:
                self.look()
            except (SchedulerError, OSError) as error:
                # Nothing depends on it; the next look begins where this one has come to.
                _log.warning("log_steps_not_read", error=str(error))
