"""Copies the last output of workers to the archive when they end, before their pods are removed."""

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager

from scheduler.adapters.kubernetes import names
from scheduler.adapters.kubernetes.client import ApiServer
from scheduler.adapters.kubernetes.errors import Abandoned, ApiFailure, Unavailable
from scheduler.adapters.kubernetes.log_tails import LogTails
from scheduler.adapters.kubernetes.log_text import BYTES_MAX, is_led_by_a_time, parsed
from scheduler.adapters.kubernetes.pods import PodFacts
from scheduler.adapters.kubernetes.watch import collection
from scheduler.domain.errors import StoreUnavailableError
from scheduler.domain.ids import Rank
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.clock import Clock
from scheduler.ports.cluster import WorkerState
from scheduler.ports.log_archive import KeptLog, LogArchive

LINES_MAX = 20_000
COPY_THREADS = 4
COPY_TRIES_MAX = 5
FOLLOWED_AT_STOP_MAX = 16
"""Of a gang that is stopped, the first so many workers are followed to their last word."""
WAIT_S_MAX = 20.0
FORGET_S_MAX = 600.0
"""What of the logs has not come by then, after the gang was to be forgotten, does not come: a
kubelet that does not answer must not keep it for ever."""
STORE_PAUSE_S = 1.0
LAST_WORDS_LOOKS, LAST_WORDS_PAUSE_S = 50, 0.1
"""How often, and how long apart, is looked whether a follower has come to the end of a log."""

_log = logging.getLogger(__name__)


class EndedLogs:
    """Logs of workers that have ended; the archive has them for good."""

    def __init__(
        self, server: ApiServer, archive: LogArchive, tails: LogTails, clock: Clock
    ) -> None:
        self._server = server
        self._archive = archive
        self._tails = tails
        self._clock = clock
        self._pool = ThreadPoolExecutor(COPY_THREADS, thread_name_prefix="kubernetes-logs")
        self._lock = threading.Lock()
        self._pending: dict[AttemptKey, dict[Rank, Future[None]]] = {}
        self._leaving_since: dict[AttemptKey, float] = {}
        """When attempts were to be forgotten whose logs are being copied, on our own clock."""
        self._closing = threading.Event()

    def close(self) -> None:
        """End the threads."""
        self._closing.set()
        self._pool.shutdown(cancel_futures=True)

    def worker_ended(self, facts: PodFacts) -> None:
        """Copy its log soon, once."""
        if not facts.is_bound:
            return
        with self._lock:
            copies = self._pending.setdefault(facts.attempt, {})
            if facts.rank not in copies and not self._closing.is_set():
                copies[facts.rank] = self._pool.submit(self._copy, facts)

    def before_stop(self, pods: Sequence[PodFacts]) -> None:
        """Follow those that are about to be stopped: their pods may be gone with their end."""
        running = [facts for facts in pods if facts.report.state is WorkerState.RUNNING]
        for facts in running[:FOLLOWED_AT_STOP_MAX]:
            self._tails.follow_to_the_end(facts)

    def wait_for(self, attempt: AttemptKey, rank: Rank) -> None:
        """Until the copy under way, if there is one, is done."""
        with self._lock:
            copy = self._pending.get(attempt, {}).get(rank)
        if copy is not None:
            wait([copy], WAIT_S_MAX)

    def forget(self, attempt: AttemptKey) -> None:
        """The attempt is over: have everything that is to be kept of it in the archive.

        Never waits: the caller has other gangs to look after. Raises Abandoned while a copy is
        under way, for ten minutes at most, and Unavailable while the archive does not answer.
        """
        with self._lock:
            copies = self._pending.get(attempt, {})
            missing = [copy for copy in copies.values() if not copy.done()]
            if missing:
                self._give_up_late(attempt, missing)
        with _answering():
            self._archive.close_attempt(attempt, at=self._clock.now())
        with self._lock:
            self._pending.pop(attempt, None)
            self._leaving_since.pop(attempt, None)

    def _give_up_late(self, attempt: AttemptKey, missing: Sequence[Future[None]]) -> None:
        now = time.monotonic()
        if now - self._leaving_since.setdefault(attempt, now) < FORGET_S_MAX:
            raise Abandoned("logs of ended workers are still being copied")
        for copy in missing:
            copy.cancel()
        _log.warning("logs_not_copied %s: %d", attempt, len(missing))

    def is_forgotten(self, attempt: AttemptKey) -> bool:
        """Whether the attempt is over for good. Raises Unavailable."""
        with _answering():
            return self._archive.is_attempt_closed(attempt)

    def _copy(self, facts: PodFacts) -> None:
        log = self._log_of(facts)
        while log is not None:
            try:
                self._archive.keep_log(
                    facts.attempt, facts.rank, _shortened(log), at=self._clock.now()
                )
            except StoreUnavailableError:
                if not self._closing.wait(STORE_PAUSE_S):
                    continue
            return

    def _log_of(self, facts: PodFacts) -> KeptLog | None:
        for _ in range(COPY_TRIES_MAX):
            followed = self._tails.known(facts.attempt, facts.rank)
            if followed is not None and followed.is_over:
                return followed.log
            try:
                return self._fetched(facts) or self._followed(facts)
            except Unavailable as failure:
                _log.info("log_not_copied %s %s", facts.name, failure.message)
                if self._closing.wait(1.0):
                    return None
            except ApiFailure:
                return self._followed(facts)
        return None

    def _followed(self, facts: PodFacts) -> KeptLog:
        """Its pod or container is gone, or never was: what was followed is all there is."""
        followed = self._tails.known(facts.attempt, facts.rank)
        for _ in range(LAST_WORDS_LOOKS):
            if followed is None or followed.is_over or self._closing.wait(LAST_WORDS_PAUSE_S):
                break
            followed = self._tails.known(facts.attempt, facts.rank)
        return KeptLog(data=b"") if followed is None else followed.log

    def _fetched(self, facts: PodFacts) -> KeptLog | None:
        """None where the kubelet has removed the container, which it says in the log's place."""
        query = {
            "container": names.MAIN_CONTAINER,
            "timestamps": "true",
            "tailLines": str(LINES_MAX),
        }
        path = f"{collection(facts.namespace, 'pods')}/{facts.name}/log"
        answer = self._server.read(path, query)
        if answer and not is_led_by_a_time(answer.partition(b"\n")[0]):
            _log.info("log_not_there %s %s", facts.name, answer[:200].decode(errors="replace"))
            return None
        return parsed(answer).kept()


@contextmanager
def _answering() -> Iterator[None]:
    """What the archive can not do now is tried again as what the API server can not do."""
    try:
        yield
    except StoreUnavailableError as error:
        raise Unavailable(str(error)) from error


def _shortened(log: KeptLog) -> KeptLog:
    """Its last bytes."""
    dropped = max(0, len(log.data) - BYTES_MAX)
    offset = log.offset + dropped
    times = tuple(time for time in log.times if time.offset >= offset)
    before = tuple(time for time in log.times if time.offset < offset)[-1:]
    return KeptLog(data=log.data[dropped:], offset=offset, times=(*before, *times))
