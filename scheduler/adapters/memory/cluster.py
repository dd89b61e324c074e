"""The fake cluster: runs gangs that only exist as scripts, in a time that others move.

It has no thread and no time of its own: the same calls at the same instants give the same views.
A script says what each worker does; a test may also push a worker, a node or the connection.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from scheduler.adapters.memory.workers import ScriptedWorker, WorkerScript
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import NodeName, Rank
from scheduler.domain.instants import Instant
from scheduler.domain.job import Outcome
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.topology import Level, Node
from scheduler.ports.clock import Clock
from scheduler.ports.cluster import ClusterView, GangOrder
from scheduler.ports.log_source import LogChunk

GangScript = Callable[[GangOrder, Rank], WorkerScript]
"""Says what each worker of a gang does; asked once a worker, when the gang is prepared."""


def runs_until_stopped(_order: GangOrder, _rank: Rank) -> WorkerScript:
    """Every worker is made and runs at once, until it is stopped."""
    return WorkerScript()


class MemoryCluster:
    """Cluster and LogSource ports on scripts."""

    def __init__(
        self,
        clock: Clock,
        nodes: Iterable[Node],
        *,
        levels: tuple[Level, ...] = (),
        script: GangScript = runs_until_stopped,
    ) -> None:
        self.script = script
        """May be replaced; gangs prepared later follow the new one."""
        self.orders: list[GangOrder] = []
        """Every gang that was made, in order; one asked for twice is here once."""
        self._clock = clock
        self._nodes = {node.name: node for node in nodes}
        self._levels = levels
        self._gangs: dict[AttemptKey, list[ScriptedWorker]] = {}
        self._forgotten: dict[AttemptKey, list[ScriptedWorker]] = {}
        """Kept for their logs, and so that a forgotten gang is never made again."""
        self._to_release: dict[AttemptKey, Instant] = {}
        """When the release was asked for, of gangs that are not released yet."""
        self._waiting_calls: list[Callable[[], None]] | None = None
        """Calls noted while the connection is cut; None while it stands."""
        self._last_view: ClusterView | None = None

    # Cluster

    def observe(self) -> ClusterView:
        """The view at the clock's present."""
        if self._waiting_calls is not None:
            assert self._last_view is not None
            return replace(self._last_view, is_reachable=False)
        self._settle()
        return self._view()

    def prepare(self, order: GangOrder) -> None:
        """Make the gang's workers as the script says."""
        self._call(lambda: self._prepare(order))

    def release(self, attempt: AttemptKey) -> None:
        """Let the gang run once all its workers are made."""
        self._call(lambda: self._ask_release(attempt))

    def stop(self, attempt: AttemptKey, *, kill_at: Instant) -> None:
        """Signal the workers now and kill those left at `kill_at`."""
        self._call(lambda: self._stop(attempt, kill_at))

    def forget(self, attempt: AttemptKey) -> None:
        """Report the attempt's workers no more."""
        self._call(lambda: self._forget(attempt))

    # LogSource

    def read(self, attempt: AttemptKey, rank: Rank, *, offset: int, bytes_max: int) -> LogChunk:
        """Bytes of a worker's log."""
        worker = self._worker(attempt, rank)
        now = self._clock.now()
        log = worker.log_at(now)
        data = log[offset : offset + bytes_max]
        is_end = worker.is_over_at(now) and offset + len(data) >= len(log)
        return LogChunk(data=data, offset=offset, is_end=is_end)

    def tail_offset(self, attempt: AttemptKey, rank: Rank, *, lines: int) -> int:
        """Offset of the last `lines` lines."""
        log = self._worker(attempt, rank).log_at(self._clock.now())
        kept = log.splitlines(keepends=True)[-lines:] if lines > 0 else []
        return len(log) - sum(len(line) for line in kept)

    # What a test or a simulation may do to it

    def next_change(self) -> Instant | None:
        """When the view changes next if nobody does anything; None for never."""
        self._settle()
        now = self._clock.now()
        changes = (worker.next_change_after(now) for worker in self._workers())
        return min((at for at in changes if at is not None), default=None)

    def end_worker(self, attempt: AttemptKey, rank: int, *, exit_code: int) -> None:
        """The worker ends by itself, now."""
        self._settle()
        self._worker(attempt, Rank(rank)).end_at(self._clock.now(), exit_code=exit_code)

    def lose_worker(self, attempt: AttemptKey, rank: int) -> None:
        """The worker vanishes without a report, now."""
        self._settle()
        worker = self._worker(attempt, Rank(rank))
        worker.vanish(self._clock.now(), Outcome.WORKER_LOST, "the worker is gone")

    def write_log(self, attempt: AttemptKey, rank: int, data: bytes) -> None:
        """The worker writes to its log."""
        self._worker(attempt, Rank(rank)).extra_log.extend(data)

    def lose_node(self, name: str) -> None:
        """The node dies with every worker on it."""
        self._settle()
        node = self._nodes[NodeName(name)]
        self._nodes[node.name] = replace(node, is_ready=False, unready_reason="NodeLost")
        now = self._clock.now()
        for worker in self._workers():
            if worker.reservation.node == node.name and not worker.is_over_at(now):
                worker.vanish(now, Outcome.NODE_LOST, f"node {name} is lost")

    def set_node(self, node: Node) -> None:
        """Add a node or change what is said of it; its workers are not touched."""
        self._nodes[node.name] = node

    def remove_node(self, name: str) -> None:
        """The node leaves the cluster with every worker on it."""
        self.lose_node(name)
        del self._nodes[NodeName(name)]

    def cut(self) -> None:
        """The cluster does not answer from now on; workers go on, calls wait."""
        if self._waiting_calls is None:
            self._settle()
            self._last_view = self._view()
            self._waiting_calls = []

    def mend(self) -> None:
        """The cluster answers again; the calls that waited are worked off in order."""
        calls, self._waiting_calls = self._waiting_calls, None
        for call in calls or ():
            call()

    def check(self) -> None:
        """Assert what must hold at every instant, however the cluster is driven."""
        self._settle()
        now = self._clock.now()
        running_attempts: dict[str, AttemptKey] = {}
        for attempt, workers in sorted(self._gangs.items()):
            if not any(w.has_run_at(now) and not w.is_over_at(now) for w in workers):
                continue
            other = running_attempts.setdefault(attempt.job_id, attempt)
            assert other == attempt, f"{other} and {attempt} run at once"
        for name, node in sorted(self._nodes.items()):
            held = sum(
                worker.reservation.gpus
                for worker in self._workers()
                if worker.reservation.node == name and not worker.is_over_at(now)
            )
            assert not node.is_ready or held <= node.gpus, f"{name}: {held} of {node.gpus} GPUs"

    # How

    def _call(self, call: Callable[[], None]) -> None:
        if self._waiting_calls is None:
            call()
        else:
            self._waiting_calls.append(call)

    def _prepare(self, order: GangOrder) -> None:
        if order.attempt in self._gangs or order.attempt in self._forgotten:
            return
        self.orders.append(order)
        now = self._clock.now()
        self._gangs[order.attempt] = [
            self._new_worker(order, Rank(rank), now) for rank in range(len(order.reservations))
        ]

    def _new_worker(self, order: GangOrder, rank: Rank, now: Instant) -> ScriptedWorker:
        script = self.script(order, rank)
        worker = ScriptedWorker(
            attempt=order.attempt,
            reservation=order.reservations[rank],
            script=script,
            made_at=None if script.make_after is None else Instant(now + script.make_after),
        )
        node = self._nodes.get(worker.reservation.node)
        if node is None or not node.is_ready:
            worker.vanish(now, Outcome.NODE_LOST, f"node {worker.reservation.node} is lost")
        return worker

    def _ask_release(self, attempt: AttemptKey) -> None:
        workers = self._gangs.get(attempt, [])
        if any(worker.started_at is not None or worker.end is not None for worker in workers):
            return
        self._to_release.setdefault(attempt, self._clock.now())
        self._settle()

    def _settle(self) -> None:
        """Release the gangs that were asked to run, at the instant their last worker was made."""
        now = self._clock.now()
        for attempt, asked_at in sorted(self._to_release.items()):
            workers = self._gangs.get(attempt, [])
            made_at = [worker.made_at for worker in workers if worker.made_at is not None]
            release_at = max([asked_at, *made_at])
            if len(made_at) < len(workers) or release_at > now:
                continue
            del self._to_release[attempt]
            if not any(worker.is_over_at(release_at) for worker in workers):
                for worker in workers:
                    worker.release(release_at)

    def _stop(self, attempt: AttemptKey, kill_at: Instant) -> None:
        self._settle()
        self._to_release.pop(attempt, None)
        now = self._clock.now()
        for worker in self._gangs.get(attempt, ()):
            if not worker.is_over_at(now):
                worker.stop(now, kill_at)

    def _forget(self, attempt: AttemptKey) -> None:
        now = self._clock.now()
        workers = self._gangs.get(attempt, [])
        assert all(worker.is_over_at(now) for worker in workers), f"{attempt} is not over"
        if attempt in self._gangs:
            self._forgotten[attempt] = self._gangs.pop(attempt)

    def _view(self) -> ClusterView:
        now = self._clock.now()
        reports = (worker.report_at(now) for worker in self._workers())
        return ClusterView(
            levels=self._levels,
            nodes=tuple(node for _, node in sorted(self._nodes.items())),
            workers=tuple(report for report in reports if report is not None),
            attempts_complete=frozenset(
                attempt
                for attempt, workers in self._gangs.items()
                if all(worker.state_at(now) is not None for worker in workers)
            ),
            is_complete=True,
        )

    def _workers(self) -> list[ScriptedWorker]:
        return [worker for _, workers in sorted(self._gangs.items()) for worker in workers]

    def _worker(self, attempt: AttemptKey, rank: Rank) -> ScriptedWorker:
        workers = self._gangs.get(attempt) or self._forgotten.get(attempt, [])
        for worker in workers:
            if worker.rank == rank:
                return worker
        raise NotFoundError("log", f"{attempt}/{rank}")
