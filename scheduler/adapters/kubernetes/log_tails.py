"""Follows the output of running workers while somebody reads it, and keeps its last bytes.

The API server knows no offsets, only times: so a follower counts the bytes itself, and after a
break goes on from the last line's time, leaving out the lines it has.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from scheduler.adapters.kubernetes import names
from scheduler.adapters.kubernetes.client import ApiServer, Stream
from scheduler.adapters.kubernetes.errors import ApiFailure, Unavailable
from scheduler.adapters.kubernetes.log_text import LogText, is_led_by_a_time
from scheduler.adapters.kubernetes.pods import PodFacts
from scheduler.adapters.kubernetes.watch import collection
from scheduler.domain.ids import Rank
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import WorkerState
from scheduler.ports.log_archive import KeptLog

FOLLOWERS_MAX = 256
IDLE_S_MAX = 15.0
"""A follower that nobody has read from for so long is let go; what it has stays for a while."""
FORGET_S = 300.0
STOP_S_MAX = 3700.0
"""No stop takes longer: the longest grace is an hour."""
SILENCE_S_MAX = 3600.0
FIRST_LOOK_S_MAX = 1.0
"""The first look waits so long for the beginning; later ones take what there is."""
RETRY_S = 1.0

Worker = tuple[AttemptKey, Rank]
Lookup = Callable[[AttemptKey, Rank], PodFacts | None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class TailView:
    """What a follower has."""

    log: KeptLog
    is_over: bool
    """The worker has ended, and this is all."""


class LogTails:
    """One follower a worker, shared by all its readers."""

    def __init__(
        self, server: ApiServer, lookup: Lookup, *, idle_s_max: float = IDLE_S_MAX
    ) -> None:
        self._server = server
        self._lookup = lookup
        self._idle_s_max = idle_s_max
        self._lock = threading.Lock()
        self._tails: dict[Worker, _Tail] = {}
        self._is_closed = False

    @property
    def followers(self) -> int:
        """Streams that are open."""
        with self._lock:
            return sum(tail.is_open for tail in self._tails.values())

    def view(self, facts: PodFacts) -> TailView | None:
        """What there is of a running worker's log, followed from now on; None if too many are."""
        tail = self._tail(facts)
        if tail is None:
            return None
        tail.wait_for_first(FIRST_LOOK_S_MAX)
        return tail.view()

    def follow_to_the_end(self, facts: PodFacts) -> None:
        """Follow a worker that is being stopped, whether anybody reads or not."""
        if tail := self._tail(facts):
            tail.is_for_the_end = True
            tail.wait_for_first(FIRST_LOOK_S_MAX)

    def known(self, attempt: AttemptKey, rank: Rank) -> TailView | None:
        """What a follower has, or had; None if there was none."""
        with self._lock:
            tail = self._tails.get((attempt, rank))
        return None if tail is None else tail.view()

    def sweep(self) -> None:
        """Let go of followers that nobody reads from."""
        now = time.monotonic()
        with self._lock:
            for worker, tail in list(self._tails.items()):
                idle_s = now - tail.read_at
                is_kept = tail.is_for_the_end and idle_s < STOP_S_MAX
                if tail.is_open and idle_s > self._idle_s_max and not is_kept:
                    tail.let_go()
                elif not tail.is_open and idle_s > FORGET_S:
                    del self._tails[worker]

    def close(self) -> None:
        """Let go of all."""
        with self._lock:
            self._is_closed = True
            tails = list(self._tails.values())
        for tail in tails:
            tail.let_go()
            tail.join()

    def _tail(self, facts: PodFacts) -> "_Tail | None":
        self.sweep()
        worker = (facts.attempt, facts.rank)
        with self._lock:
            tail = self._tails.get(worker)
            if tail is not None and tail.facts.uid == facts.uid:
                tail.read_at = time.monotonic()
                if tail.is_open or tail.is_over:
                    return tail
            is_full = sum(each.is_open for each in self._tails.values()) >= FOLLOWERS_MAX
            if is_full or self._is_closed:
                return None
            text = tail.text if tail is not None and tail.facts.uid == facts.uid else LogText()
            tail = self._tails[worker] = _Tail(self._server, self._lookup, facts, text)
        tail.start()
        return tail


class _Tail:
    """One follower."""

    def __init__(self, server: ApiServer, lookup: Lookup, facts: PodFacts, text: LogText) -> None:
        self._server = server
        self._lookup = lookup
        self.facts = facts
        self.text = text
        self.is_open = True
        self.is_over = False
        self.is_for_the_end = False
        """Followed to its last word, which nobody need read now."""
        self.read_at = time.monotonic()
        self._stream: Stream | None = None
        self._lock = threading.Lock()
        self._first = threading.Event()
        self._is_let_go = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"log {facts.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def let_go(self) -> None:
        self._is_let_go.set()
        if stream := self._stream:
            stream.abort()

    def wait_for_first(self, timeout_s: float) -> None:
        self._first.wait(timeout_s)
        # A worker that has nothing to say must not hold up everybody who looks again and again.
        self._first.set()

    def view(self) -> TailView:
        self.read_at = time.monotonic()
        with self._lock:
            return TailView(log=self.text.kept(), is_over=self.is_over)

    def _run(self) -> None:
        try:
            while not self._is_let_go.is_set():
                try:
                    self._follow()
                except Unavailable as failure:
                    _log.info("log_broke_off %s %s", self.facts.name, failure.message)
                except ApiFailure:
                    self.is_over = self._has_ended()
                    self._first.set()
                if self.is_over:
                    return
                self._is_let_go.wait(RETRY_S)
        finally:
            self.is_open = False
            self._first.set()

    def _follow(self) -> None:
        query = {"container": names.MAIN_CONTAINER, "follow": "true", "timestamps": "true"}
        skip = 0
        last = self.text.last_stamp
        if last:
            query["sinceTime"] = last
            skip = self.text.lines_of_last_stamp
        path = f"{collection(self.facts.namespace, 'pods')}/{self.facts.name}/log"
        with self._server.stream(path, query, silence_s_max=SILENCE_S_MAX) as stream:
            self._stream = stream
            for number, line in enumerate(stream.lines()):
                if number == 0 and not is_led_by_a_time(line):
                    break  # The kubelet says that the container is gone.
                stamp = line.partition(b" ")[0].decode(errors="replace")
                if last and stamp < last:
                    continue  # The API server takes whole seconds.
                if last and stamp == last and skip:
                    skip -= 1
                    continue
                with self._lock:
                    self.text.add(line)
                self._first.set()
                if self._is_let_go.is_set():
                    return
        self.is_over = self._has_ended()
        self._first.set()

    def _has_ended(self) -> bool:
        """Whether the stream's end was the worker's: the last status may come a moment later."""
        for _ in range(20):
            facts = self._lookup(self.facts.attempt, self.facts.rank)
            if facts is None or facts.uid != self.facts.uid:
                return True
            if facts.report.state is WorkerState.ENDED:
                return True
            if self._is_let_go.wait(0.05):
                return False
        return False
