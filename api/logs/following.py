"""Followed logs: one thread reads the logs of all workers that somebody follows."""

import asyncio
from dataclasses import dataclass
from threading import Lock

from api.streams.feeder import Feeder
from api.streams.mailbox import Mailbox
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import AttemptNumber, JobId, Rank
from scheduler.domain.job import Attempt, AttemptPhase
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.job_store import JobStore
from scheduler.ports.log_source import LogChunk, LogSource

POLL_S = 0.2
CHUNK_BYTES = 64 * 1024
CHUNKS_MAX = 16
"""Chunks a follower may be behind what its client has taken: then its log waits for it."""

ROUNDS_PER_LOOK = 5
"""Of a silent worker's attempt, the store is asked every so many rounds whether it has ended."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Some of the log of one attempt."""

    attempt: AttemptNumber
    chunk: LogChunk


class LogFollower:
    """One reader of one rank's log."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        job_id: JobId,
        rank: Rank,
        attempt: AttemptNumber | None,
        offset: int,
        is_pinned: bool,
    ) -> None:
        self.job_id = job_id
        self.rank = rank
        self.attempt = attempt
        """The attempt that is read now; None while the job has none to read."""
        self.offset = offset
        self.is_pinned = is_pinned
        """Follow this attempt alone, not those that come after it."""
        self.last = AttemptNumber(-1)
        """The last attempt whose log is read through."""
        self.rounds_silent = 0
        self.mailbox: Mailbox[LogPiece] = Mailbox(loop, size_max=CHUNKS_MAX)


class LogPump:
    """Reads on for every follower whose client keeps up."""

    def __init__(self, store: JobStore, logs: LogSource) -> None:
        self._store = store
        self._logs = logs
        self._lock = Lock()
        self._followers: list[LogFollower] = []
        self._is_closed = False
        self._feeder = Feeder("dally-logs", self._work, poll_s=POLL_S)

    def join(self, follower: LogFollower) -> None:
        """Read for `follower` from now on."""
        with self._lock:
            if self._is_closed:
                follower.mailbox.close()
                return
            self._followers.append(follower)
        self._feeder.start()

    def leave(self, follower: LogFollower) -> None:
        """Read no more for it."""
        with self._lock:
            self._followers = [f for f in self._followers if f is not follower]

    def close(self) -> None:
        """End the thread and every follower."""
        self._feeder.close()
        with self._lock:
            self._is_closed = True
            for follower in self._followers:
                follower.mailbox.close()
            self._followers = []

    def _work(self) -> bool:
        with self._lock:
            followers = list(self._followers)
        for follower in followers:
            if self._advance(follower):
                self.leave(follower)
                follower.mailbox.close()
        with self._lock:
            return bool(self._followers)

    def _advance(self, follower: LogFollower) -> bool:
        """Read what there is; whether nothing more will come."""
        if follower.attempt is None:
            follower.rounds_silent += 1
            if follower.rounds_silent % ROUNDS_PER_LOOK == 1:
                return self._next_attempt(follower)
            return False
        while follower.mailbox.room > 0:
            chunk = self._read(follower, follower.attempt)
            if chunk is not None and chunk.data:
                follower.mailbox.put([LogPiece(follower.attempt, chunk)])
                follower.offset = chunk.next_offset
                follower.rounds_silent = 0
            if chunk is not None and chunk.is_end:
                return self._read_through(follower)
            if chunk is None or not chunk.data:
                return self._after_silence(follower)
        return False

    def _read(self, follower: LogFollower, attempt: AttemptNumber) -> LogChunk | None:
        """The next chunk; None if there is no log (yet)."""
        key = AttemptKey(follower.job_id, attempt)
        try:
            return self._logs.read(
                key, follower.rank, offset=follower.offset, bytes_max=CHUNK_BYTES
            )
        except NotFoundError:
            return None

    def _after_silence(self, follower: LogFollower) -> bool:
        """A worker that was lost never ends its log; then the end of its attempt does."""
        follower.rounds_silent += 1
        if follower.rounds_silent % ROUNDS_PER_LOOK:
            return False
        attempt = self._attempt(follower)
        if attempt is None or attempt.phase is AttemptPhase.ENDED:
            return self._read_through(follower)
        return False

    def _attempt(self, follower: LogFollower) -> Attempt | None:
        attempts = self._store.attempts(follower.job_id)
        return next((a for a in attempts if a.number == follower.attempt), None)

    def _read_through(self, follower: LogFollower) -> bool:
        if follower.is_pinned or follower.attempt is None:
            return True
        follower.last, follower.attempt, follower.rounds_silent = follower.attempt, None, 0
        return self._next_attempt(follower)

    def _next_attempt(self, follower: LogFollower) -> bool:
        """Go on with the next attempt; whether there will be none."""
        for attempt in self._store.attempts(follower.job_id):
            if attempt.number > follower.last:
                follower.attempt, follower.offset, follower.rounds_silent = attempt.number, 0, 0
                return False
        try:
            return self._store.job_by_id(follower.job_id).phase.is_terminal
        except NotFoundError:
            return True
