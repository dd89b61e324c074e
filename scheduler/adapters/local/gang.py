"""One gang of the local executor: compares what is wanted with the files and does the next step.

Only the executor's thread touches it. What is wanted lives in memory and is asked for again after
a restart; what was done lives in files. A step that fails for lack of disk is tried again.
"""

from collections.abc import Iterable

from scheduler.adapters.local import processes
from scheduler.adapters.local.folders import GangFolder, WorkerFolder, WorkerPlace
from scheduler.adapters.local.processes import Children
from scheduler.domain.exit_codes import SIGTERM_EXIT_CODE
from scheduler.domain.ids import Rank
from scheduler.domain.job import Outcome
from scheduler.ports.cluster import WorkerReport, WorkerState
from scheduler.ports.kill_points import KillPoint, reach

SPAWN_TRIES_MAX = 3

_LAST_STATES = frozenset({WorkerState.ENDED, WorkerState.GONE, WorkerState.REFUSED})


class LocalGang:
    """A gang that is not forgotten."""

    def __init__(self, folder: GangFolder, children: Children) -> None:
        self.folder = folder
        self.places = folder.places()
        self.reports: list[WorkerReport | None] = [None] * len(self.places)
        """By rank; None for a worker that nobody has claimed."""
        self.is_made_wanted = False
        """`prepare` was asked in this server's life; else missing workers are not made."""
        self.is_release_wanted = False
        self.is_forget_wanted = False
        self._children = children
        self._is_released = folder.is_released()
        self._stop_at = folder.stop_at()
        self._stop_wanted: int | None = None
        self._spawned: dict[int, int] = {}
        """Supervisors started by this server, by rank."""
        self._tries: dict[int, int] = {}
        self.refresh(self._unmade())
        self._ring()  # A server that died may have written what its supervisors do not know yet.

    @property
    def is_over(self) -> bool:
        """Whether every worker has reached its last state."""
        return all(report is not None and report.state in _LAST_STATES for report in self.reports)

    @property
    def is_in_making(self) -> bool:
        """Whether a worker may be made that nobody has seen yet, in answer to what was asked."""
        is_asked = self.is_made_wanted or self._stop_wanted is not None
        return is_asked and None in self.reports

    def living(self) -> list[int]:
        """Ranks that are made and not over."""
        return [
            rank
            for rank, report in enumerate(self.reports)
            if report is not None and report.state not in _LAST_STATES
        ]

    def ports_in_use(self) -> list[int]:
        """Ports of workers that are not over."""
        return [place.port for place in self._places_in_use()]

    def gpus_in_use(self) -> list[int]:
        """GPUs of workers that are not over."""
        return [gpu for place in self._places_in_use() for gpu in place.gpus]

    def want_stop(self, kill_at: int) -> None:
        """It must end; `kill_at` on the monotonic clock in microseconds, the earliest one holds."""
        if self._stop_wanted is None or kill_at < self._stop_wanted:
            self._stop_wanted = kill_at

    def refresh(self, ranks: Iterable[int]) -> None:
        """Read the files of these workers again; a last state is never left."""
        for rank in ranks:
            known = self.reports[rank]
            if known is None or known.state not in _LAST_STATES:
                node = self.places[rank].node
                found = self._worker(rank).report(self.folder.attempt, Rank(rank), node)
                self.reports[rank] = found or known

    def look(self) -> None:
        """Find out what happened without a ring: ends, and supervisors that died."""
        self.refresh([*self.living(), *self._unmade()])
        for rank in self.living():
            self._look_for_supervisor(rank)
        for rank in self._unmade():
            self._look_for_claim(rank)

    def step(self) -> bool:
        """Do the next thing that is wanted; True if there is more to do at once. Raises OSError."""
        self._stop_if_wanted()
        if self._spawn_one():
            return True
        self._release_if_wanted()
        return False

    def forget(self) -> None:
        """Note that it is over and stored elsewhere. Raises OSError."""
        reach(KillPoint.LOCAL_BEFORE_FORGET)
        self.folder.mark_forgotten()
        reach(KillPoint.LOCAL_AFTER_FORGET)

    def _stop_if_wanted(self) -> None:
        wanted = self._stop_wanted
        if wanted is None or (self._stop_at is not None and self._stop_at <= wanted):
            return
        reach(KillPoint.LOCAL_BEFORE_STOP)
        self.folder.mark_stopped(wanted)
        reach(KillPoint.LOCAL_AFTER_STOP)
        self._stop_at = wanted
        self._ring()
        for rank in self._unmade():
            self._look_for_claim(rank)

    def _spawn_one(self) -> bool:
        if not self.is_made_wanted or self._stop_at is not None:
            return False
        missing = [rank for rank in self._unmade() if rank not in self._spawned]
        if not missing:
            return False
        rank = missing[0]
        self._tries[rank] = self._tries.get(rank, 0) + 1
        reach(KillPoint.LOCAL_BEFORE_SPAWN)
        try:
            self._spawned[rank] = self._children.spawn(self._worker(rank))
        except OSError as error:
            self._give_up_spawning(rank, str(error))
            return False
        reach(KillPoint.LOCAL_AFTER_SPAWN)
        return True

    def _release_if_wanted(self) -> None:
        if not self.is_release_wanted or self._is_released or self._stop_at is not None:
            return
        if all(report is not None and report.state is WorkerState.MADE for report in self.reports):
            reach(KillPoint.LOCAL_BEFORE_RELEASE)
            self.folder.mark_released()
            reach(KillPoint.LOCAL_AFTER_RELEASE)
            self._is_released = True
            self._ring()

    def _look_for_supervisor(self, rank: int) -> None:
        """A supervisor that died without an end: end its processes, then the worker is gone."""
        worker = self._worker(rank)
        if processes.is_supervised(worker, worker.claim()):
            return
        self.refresh([rank])  # The end may have been written between our look at it and its death.
        if rank not in self.living() or not processes.end_leftovers(worker):
            return
        reach(KillPoint.LOCAL_BEFORE_LOST)
        worker.mark_gone("its supervisor was killed or the machine was restarted")
        reach(KillPoint.LOCAL_AFTER_LOST)
        self.refresh([rank])

    def _look_for_claim(self, rank: int) -> None:
        """A worker that is not claimed: its supervisor may have died early or was never started."""
        if rank in self._spawned and self._children.is_alive(self._spawned[rank]):
            return
        self.refresh([rank])
        if self.reports[rank] is not None:
            return
        worker = self._worker(rank)
        if self._stop_at is not None:
            worker.mark_never_made(SIGTERM_EXIT_CODE, "stopped before it was made")
            self.refresh([rank])
        elif rank in self._spawned:
            del self._spawned[rank]
            self._give_up_spawning(rank, processes.complaint(worker))

    def _give_up_spawning(self, rank: int, why: str) -> None:
        """After some tries."""
        if self._tries[rank] >= SPAWN_TRIES_MAX:
            message = f"its supervisor can not be started: {why}"
            self._worker(rank).mark_refused(Outcome.LAUNCH_FAILED, message)
            self.refresh([rank])

    def _places_in_use(self) -> list[WorkerPlace]:
        return [self.places[rank] for rank in (*self.living(), *self._unmade())]

    def _unmade(self) -> list[int]:
        return [rank for rank, report in enumerate(self.reports) if report is None]

    def _ring(self) -> None:
        for rank in self.living():
            processes.ring(self._worker(rank))

    def _worker(self, rank: int) -> WorkerFolder:
        return self.folder.worker(rank)
