"""The one thread of the local executor: it alone makes, releases, stops and watches gangs.

Requests only say what is wanted. The thread does the next step towards it, and looks again when a
supervisor rings, when somebody asks, and twice a second while anything lives. Because every step
starts from files, the thread of a new server goes on where the old one died.
"""

import logging
import os
import queue
import select
import shutil
import threading
import time
from collections.abc import Callable
from functools import partial

from scheduler.adapters.local.folders import GangFolder, Layout
from scheduler.adapters.local.gang import LocalGang
from scheduler.adapters.local.gang_making import GangMaker, InUse
from scheduler.adapters.local.processes import Children
from scheduler.adapters.local.retention import Retention
from scheduler.adapters.views import Views
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import GangOrder
from scheduler.ports.kill_points import KillPoint, reach

LOOK_EVERY_S = 0.5
IDLE_S = 60.0
SWEEP_EVERY_S = 60.0
READ_BYTES = 1 << 16

_log = logging.getLogger(__name__)


class Keeper:
    """Owns all gangs of the executor."""

    def __init__(
        self,
        layout: Layout,
        maker: GangMaker,
        views: Views,
        *,
        retention: Retention,
        children: Children,
        on_change: Callable[[], None],
    ) -> None:
        self._layout = layout
        self._maker = maker
        self._views = views
        self._retention = retention
        self._children = children
        self._on_change = on_change
        self._gangs: dict[AttemptKey, LocalGang] = {}
        self._unpublished: dict[AttemptKey, GangOrder] = {}
        self._early_releases: set[AttemptKey] = set()
        """Releases asked for of gangs that are not published yet."""
        self._requests: queue.SimpleQueue[tuple[AttemptKey, Callable[[], None]]] = (
            queue.SimpleQueue()
        )
        self._noted: list[AttemptKey] = []
        """Gangs of requests that are noted, and that no view has the answer to yet."""
        self._alarm, self._bell = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._events = os.open(layout.events, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._next_look = 0.0
        self._next_sweep = 0.0
        self._is_closing = False
        self.failure: BaseException | None = None
        """What the thread died of; a bug of ours."""
        self._thread = threading.Thread(target=self._run, name="local-executor", daemon=True)

    # Called by other threads

    def start(self) -> None:
        """Adopt the gangs that are there, then begin."""
        reach(KillPoint.LOCAL_BEFORE_ADOPT)
        for path in self._layout.attempts.glob(".new-*"):
            shutil.rmtree(path)
        for folder in self._layout.gangs():
            if not folder.is_forgotten():
                self._adopt(folder)
        for gang in self._gangs.values():
            gang.look()
        self._publish_views()
        reach(KillPoint.LOCAL_AFTER_ADOPT)
        self._thread.start()

    def _adopt(self, folder: GangFolder) -> None:
        try:
            self._gangs[folder.attempt] = LocalGang(folder, self._children)
        except (OSError, ValueError, KeyError):
            # Only a disk that lost writes does this, and then nothing of the gang runs any more.
            _log.exception("local_gang_unreadable %s", folder.attempt)

    def close(self) -> None:
        """End the thread; workers and their supervisors go on."""
        self._is_closing = True
        self._wake_up()
        self._thread.join()
        for fd in (self._alarm, self._bell, self._events):
            os.close(fd)

    def prepare(self, order: GangOrder) -> None:
        """Have a gang made, or what is missing of it."""
        self._ask(order.attempt, lambda: self._prepare(order))

    def release(self, attempt: AttemptKey) -> None:
        """Have a gang run once all its workers are made."""
        self._ask(attempt, lambda: self._release(attempt))

    def stop(self, attempt: AttemptKey, kill_at: int) -> None:
        """Have a gang end."""
        self._ask(attempt, lambda: self._stop(attempt, kill_at))

    def forget(self, attempt: AttemptKey) -> None:
        """Have a gang forgotten as soon as it is over."""
        self._ask(attempt, lambda: self._forget(attempt))

    def _ask(self, attempt: AttemptKey, request: Callable[[], None]) -> None:
        self._views.ask(attempt)
        self._requests.put((attempt, request))
        self._wake_up()

    def _wake_up(self) -> None:
        try:
            os.write(self._bell, b"\0")
        except BlockingIOError:
            return  # It was rung for often enough.

    # Only notes of what is wanted

    def _prepare(self, order: GangOrder) -> None:
        if gang := self._gangs.get(order.attempt):
            gang.is_made_wanted = True
        elif not self._layout.gang(order.attempt).exists():  # else it is forgotten
            self._unpublished[order.attempt] = order

    def _release(self, attempt: AttemptKey) -> None:
        if gang := self._gangs.get(attempt):
            gang.is_release_wanted = True
        elif attempt in self._unpublished:
            self._early_releases.add(attempt)

    def _stop(self, attempt: AttemptKey, kill_at: int) -> None:
        self._unpublished.pop(attempt, None)
        self._early_releases.discard(attempt)
        if gang := self._gangs.get(attempt):
            gang.want_stop(kill_at)

    def _forget(self, attempt: AttemptKey) -> None:
        if gang := self._gangs.get(attempt):
            gang.is_forget_wanted = True

    # The thread

    def _run(self) -> None:
        try:
            while not self._is_closing:
                self._note_requests()
                is_busy = self._work()
                self._publish_views()
                self._wait(is_busy=is_busy)
        except BaseException as error:
            self.failure = error
            raise

    def _note_requests(self) -> None:
        while True:
            try:
                attempt, request = self._requests.get_nowait()
            except queue.Empty:
                return
            request()
            self._noted.append(attempt)

    def _work(self) -> bool:
        """Do one step for every gang; True if there is more to do at once."""
        if self._next_look <= time.monotonic():
            self._next_look = time.monotonic() + LOOK_EVERY_S
            self._children.reap()
            for gang in self._gangs.values():
                _try(gang, gang.look)
        if self._next_sweep <= time.monotonic():
            self._next_sweep = time.monotonic() + SWEEP_EVERY_S
            self._sweep()
        for order in list(self._unpublished.values()):
            self._publish(order)
        is_busy = False
        for gang in list(self._gangs.values()):
            is_busy |= _try(gang, gang.step)
            if gang.is_forget_wanted and gang.is_over:
                _try(gang, partial(self._let_go, gang))
        return is_busy

    def _publish(self, order: GangOrder) -> None:
        in_use = InUse(
            ports=frozenset(port for gang in self._gangs.values() for port in gang.ports_in_use()),
            gpus=frozenset(gpu for gang in self._gangs.values() for gpu in gang.gpus_in_use()),
        )
        reach(KillPoint.LOCAL_BEFORE_PUBLISH)
        try:
            folder = self._maker.publish(order, in_use)
        except OSError:
            _log.warning("local_publish_failed %s", order.attempt, exc_info=True)
            return  # A full disk or the like; the next look tries again.
        reach(KillPoint.LOCAL_AFTER_PUBLISH)
        del self._unpublished[order.attempt]
        gang = self._gangs[order.attempt] = LocalGang(folder, self._children)
        gang.is_made_wanted = True
        gang.is_release_wanted = order.attempt in self._early_releases
        self._early_releases.discard(order.attempt)

    def _sweep(self) -> None:
        try:
            self._retention.sweep()
        except OSError:
            _log.warning("local_sweep_failed", exc_info=True)

    def _let_go(self, gang: LocalGang) -> bool:
        gang.forget()
        del self._gangs[gang.folder.attempt]
        self._views.drop(gang.folder.attempt)
        return False

    def _publish_views(self) -> None:
        news = [
            self._views.put(attempt, tuple(gang.reports)) for attempt, gang in self._gangs.items()
        ]
        in_making = {attempt for attempt, gang in self._gangs.items() if gang.is_in_making}
        in_making |= self._unpublished.keys()
        news.append(self._views.settle(self._noted, frozenset(in_making)))
        self._noted.clear()
        if any(news):
            self._on_change()

    def _wait(self, *, is_busy: bool) -> None:
        """Until a supervisor rings, somebody asks, or it is time for the next look."""
        wait_s = 0.0
        if not is_busy:
            is_idle = not self._unpublished and all(gang.is_over for gang in self._gangs.values())
            wait_s = IDLE_S if is_idle else max(0.0, self._next_look - time.monotonic())
        poll = select.poll()
        for fd in (self._alarm, self._events):
            poll.register(fd, select.POLLIN)
        poll.poll(wait_s * 1000)
        _read_all(self._alarm)
        self._note_rings(_read_all(self._events))

    def _note_rings(self, rings: bytes) -> None:
        """Read the files of the workers whose supervisors rang: lines `ATTEMPT/RANK`."""
        if not rings:
            return
        by_name = {gang.folder.path.name: gang for gang in self._gangs.values()}
        for name in set(rings.decode(errors="replace").split("\n")):
            gang_name, _, rank = name.partition("/")
            gang = by_name.get(gang_name)
            if gang and rank.isdecimal() and int(rank) < len(gang.reports):
                gang.refresh([int(rank)])


def _try(gang: LocalGang, action: Callable[[], bool | None]) -> bool:
    """Do something for a gang; what the machine refuses now, the next look tries again."""
    try:
        return bool(action())
    except OSError:
        _log.warning("local_step_failed %s", gang.folder.attempt, exc_info=True)
        return False


def _read_all(fd: int) -> bytes:
    """What lies in a pipe right now."""
    found = bytearray()
    while True:
        try:
            data = os.read(fd, READ_BYTES)
        except BlockingIOError:
            return bytes(found)
        found += data
