"""The fake cluster: runs gangs that only exist as scripts, in a time that others move.

It has no thread and no time of its own: the same calls at the same instants give the same views.
A script says what each worker does; a test may also push a worker, a node or the connection.
An agenda of the gangs' next changes keeps a look at it as cheap as what has changed.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from itertools import accumulate

from scheduler.adapters.memory.gangs import ScriptedGang
from scheduler.adapters.memory.workers import AT_ONCE, Output, ScriptedWorker, WorkerScript
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import JobId, NodeName, Rank
from scheduler.domain.instants import Duration, Instant, after
from scheduler.domain.job import Outcome
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.topology import Level, Node
from scheduler.ports.clock import Clock
from scheduler.ports.cluster import ClusterView, GangOrder
from scheduler.ports.log_source import LogChunk, LogTime

GangScript = Callable[[GangOrder, Rank], WorkerScript]
"""Says what each worker of a gang does; asked once a worker, when the gang is prepared."""


def runs_until_stopped(_order: GangOrder, _rank: Rank) -> WorkerScript:
    """Every worker is made and runs at once, until it is stopped."""
    return WorkerScript()


def no_lag() -> Duration:
    """Requests are worked off at once."""
    return AT_ONCE


@dataclass(frozen=True, slots=True, order=True)
class _Call:
    """A request, and when it is worked off."""

    at: Instant
    number: int
    attempt: AttemptKey = field(compare=False)
    act: Callable[[], None] = field(compare=False)


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
        self.lag: Callable[[], Duration] = no_lag
        """How long the next request lies there before it is worked off; may be replaced. Those of
        other gangs may overtake it."""
        self.tells_orders = True
        """Whether it is known by which orders gangs were made."""
        self.orders: list[GangOrder] = []
        """Every gang that was made, in order; one asked for twice is here once."""
        self._clock = clock
        self._nodes = {node.name: node for node in nodes}
        self._nodes_seen = self._sorted_nodes()
        self._levels = levels
        self._gangs: dict[AttemptKey, ScriptedGang] = {}
        self._forgotten: dict[AttemptKey, ScriptedGang] = {}
        """Kept for their logs, and so that a forgotten gang is never made again."""
        self._agenda: list[tuple[Instant, AttemptKey]] = []
        """A heap of next changes; an entry may be out of date, but none is missing."""
        self._sequence = 0
        self._changed: dict[AttemptKey, int] = {}
        """Sequence of each gang's last change, latest last."""
        self._in_making: set[AttemptKey] = set()
        """Gangs with a worker that is not made yet."""
        self._calls: list[_Call] = []
        """A heap of calls that are not worked off: those of one gang in the order of asking."""
        self._calls_made = 0
        self._waiting_calls: list[_Call] | None = None
        """Calls noted while the connection is cut; None while it stands."""
        self._last_view: ClusterView | None = None

    # Cluster

    def observe(self, after: int | None = None) -> ClusterView:
        """The view at the clock's present, whole or as changes."""
        if self._waiting_calls is not None:
            assert self._last_view is not None
            return replace(self._last_view, is_reachable=False)
        self._settle()
        return self._view(after)

    def prepare(self, order: GangOrder) -> None:
        """Make the gang's workers as the script says."""
        self._call(order.attempt, lambda: self._prepare(order))

    def release(self, attempt: AttemptKey) -> None:
        """Let the gang run once all its workers are made."""
        self._call(attempt, lambda: self._release(attempt))

    def stop(self, attempt: AttemptKey, *, kill_at: Instant) -> None:
        """Signal the workers now and kill those left at `kill_at`."""
        self._call(attempt, lambda: self._stop(attempt, kill_at))

    def forget(self, attempt: AttemptKey) -> None:
        """Report the attempt's workers no more."""
        self._call(attempt, lambda: self._forget(attempt))

    def order_of(self, attempt: AttemptKey) -> GangOrder | None:
        """The order it was made by."""
        if not self.tells_orders:
            return None
        gang = self._gangs.get(attempt)
        return None if gang is None else gang.order

    def disown(self, attempt: AttemptKey) -> None:
        """Report it no more; its workers go on."""
        self._call(attempt, lambda: self._disown(attempt))

    # LogSource

    def read(self, attempt: AttemptKey, rank: Rank, *, offset: int, bytes_max: int) -> LogChunk:
        """Bytes of a worker's log."""
        worker = self._worker(attempt, rank)
        now = self._clock.now()
        log = _joined(worker.output_at(now))
        data = log[offset : offset + bytes_max]
        is_end = worker.is_over_at(now) and offset + len(data) >= len(log)
        times = _times(worker.output_at(now))
        before = [time for time in times if time.offset <= offset][-1:]
        inside = [time for time in times if offset < time.offset < offset + len(data)]
        return LogChunk(
            data=data,
            offset=offset,
            is_end=is_end,
            times=tuple(before + inside) if data else (),
        )

    def tail_offset(self, attempt: AttemptKey, rank: Rank, *, lines: int) -> int:
        """Offset of the last `lines` lines."""
        log = _joined(self._worker(attempt, rank).output_at(self._clock.now()))
        place = len(log) - log.endswith(b"\n") if lines > 0 else len(log)
        for _ in range(lines):
            place = log.rfind(b"\n", 0, max(0, place))
        return place + 1 if lines > 0 else place

    def offset_since(self, attempt: AttemptKey, rank: Rank, *, since: Instant) -> int:
        """Offset of the first byte written at or after `since`."""
        output = self._worker(attempt, rank).output_at(self._clock.now())
        later = [time.offset for time in _times(output) if time.at >= since]
        return later[0] if later else len(_joined(output))

    # What a test or a simulation may do to it

    def next_change(self) -> Instant | None:
        """When the view changes next if nobody does anything; None for never."""
        self._settle()
        instants = [entry[0] for entry in self._agenda[:1]]
        instants += [call.at for call in self._calls[:1]]
        return min(instants, default=None)

    def end_worker(self, attempt: AttemptKey, rank: int, *, exit_code: int) -> None:
        """The worker ends by itself, now."""
        self._settle()
        self._worker(attempt, Rank(rank)).end_at(self._clock.now(), exit_code=exit_code)
        self._note_change(self._gangs[attempt])

    def lose_worker(self, attempt: AttemptKey, rank: int) -> None:
        """The worker vanishes without a report, now."""
        self._settle()
        worker = self._worker(attempt, Rank(rank))
        worker.vanish(self._clock.now(), Outcome.WORKER_LOST, "the worker is gone")
        self._note_change(self._gangs[attempt])

    def write_log(self, attempt: AttemptKey, rank: int, data: bytes) -> None:
        """The worker writes to its log."""
        self._worker(attempt, Rank(rank)).extra_log.append(Output(at=self._clock.now(), data=data))

    def lose_node(self, name: str) -> None:
        """The node dies with every worker on it."""
        self._settle()
        node = self._nodes[NodeName(name)]
        self.set_node(replace(node, is_ready=False, unready_reason="NodeLost"))
        now = self._clock.now()
        for gang in self._gangs.values():
            for worker in gang.workers:
                if worker.reservation.node == node.name and not worker.is_over_at(now):
                    worker.vanish(now, Outcome.NODE_LOST, f"node {name} is lost")
                    self._note_change(gang)

    def set_node(self, node: Node) -> None:
        """Add a node or change what is said of it; its workers are not touched."""
        self._nodes[node.name] = node
        self._nodes_seen = self._sorted_nodes()

    def remove_node(self, name: str) -> None:
        """The node leaves the cluster with every worker on it."""
        self.lose_node(name)
        del self._nodes[NodeName(name)]
        self._nodes_seen = self._sorted_nodes()

    def cut(self) -> None:
        """The cluster does not answer from now on; workers go on, calls wait."""
        if self._waiting_calls is None:
            self._settle()
            self._last_view = self._view(None)
            self._waiting_calls = []

    def mend(self) -> None:
        """The cluster answers again; the calls that waited are worked off in order."""
        calls, self._waiting_calls = self._waiting_calls, None
        for call in calls or ():
            self._call(call.attempt, call.act)

    def runs_of(self, job_id: JobId) -> int:
        """How many workers of a job have ever run user code, forgotten attempts included."""
        now = self._clock.now()
        return sum(
            worker.has_run_at(now)
            for gang in (*self._gangs.values(), *self._forgotten.values())
            if gang.attempt.job_id == job_id
            for worker in gang.workers
        )

    def check(self) -> None:
        """Assert what must hold at every instant, however the cluster is driven."""
        self._settle()
        now = self._clock.now()
        running: dict[str, AttemptKey] = {}
        held: dict[NodeName, int] = {}
        for attempt, gang in sorted(self._gangs.items()):
            if gang.runs_at(now):
                other = running.setdefault(attempt.job_id, attempt)
                assert other == attempt, f"{other} and {attempt} run at once"
            for worker in gang.workers:
                if not worker.is_over_at(now):
                    node, gpus = worker.reservation.node, worker.reservation.gpus
                    held[node] = held.get(node, 0) + gpus
        for name, gpus in sorted(held.items()):
            available = self._nodes[name].gpus
            assert gpus <= available, f"{name}: {gpus} of {available} GPUs"

    # How

    def _call(self, attempt: AttemptKey, act: Callable[[], None]) -> None:
        self._calls_made += 1
        earlier = [call.at for call in self._calls if call.attempt == attempt]
        at = max([after(self._clock.now(), self.lag()), *earlier])
        call = _Call(at, self._calls_made, attempt, act)
        if self._waiting_calls is None:
            heapq.heappush(self._calls, call)
            self._settle()
        else:
            self._waiting_calls.append(call)

    def _prepare(self, order: GangOrder) -> None:
        if order.attempt in self._gangs or order.attempt in self._forgotten:
            return
        self.orders.append(order)
        workers = [self._new_worker(order, held) for held in order.reservations]
        gang = ScriptedGang(attempt=order.attempt, workers=workers, order=order)
        self._gangs[order.attempt] = gang
        self._note_change(gang)

    def _new_worker(self, order: GangOrder, reservation: Reservation) -> ScriptedWorker:
        script = self.script(order, reservation.rank)
        now = self._clock.now()
        worker = ScriptedWorker(
            attempt=order.attempt,
            reservation=reservation,
            script=script,
            epoch=order.epoch,
            made_at=None if script.make_after is None else Instant(now + script.make_after),
        )
        node = self._nodes.get(reservation.node)
        if node is None or not node.is_ready:
            worker.vanish(now, Outcome.NODE_LOST, f"node {reservation.node} is lost")
        return worker

    def _release(self, attempt: AttemptKey) -> None:
        if gang := self._gangs.get(attempt):
            gang.ask_release(self._clock.now())
            gang.settle(self._clock.now())
            self._note_change(gang)

    def _stop(self, attempt: AttemptKey, kill_at: Instant) -> None:
        if gang := self._gangs.get(attempt):
            gang.stop(self._clock.now(), kill_at=kill_at)
            self._note_change(gang)

    def _forget(self, attempt: AttemptKey) -> None:
        gang = self._gangs.pop(attempt, None)
        if gang is not None:
            assert gang.is_over_at(self._clock.now()), f"{attempt} is not over"
            self._changed.pop(attempt)
            self._forgotten[attempt] = gang

    def _disown(self, attempt: AttemptKey) -> None:
        if gang := self._gangs.pop(attempt, None):
            self._changed.pop(attempt, None)
            self._in_making.discard(attempt)
            self._forgotten[attempt] = gang

    def _settle(self) -> None:
        """Note what time has changed since the last look."""
        now = self._clock.now()
        while self._agenda and self._agenda[0][0] <= now:
            _, attempt = heapq.heappop(self._agenda)
            if gang := self._gangs.get(attempt):
                gang.settle(now)
                self._note_change(gang)
        while self._calls and self._calls[0].at <= now:
            heapq.heappop(self._calls).act()

    def _note_change(self, gang: ScriptedGang) -> None:
        self._sequence += 1
        if gang.is_made_at(self._clock.now()):
            self._in_making.discard(gang.attempt)
        else:
            self._in_making.add(gang.attempt)
        self._changed.pop(gang.attempt, None)
        self._changed[gang.attempt] = self._sequence
        next_change = gang.next_change_after(self._clock.now())
        if next_change is not None:
            heapq.heappush(self._agenda, (next_change, gang.attempt))

    def _view(self, after: int | None) -> ClusterView:
        now = self._clock.now()
        gangs = [self._gangs[attempt] for attempt in self._changed_after(after)]
        return ClusterView(
            levels=self._levels,
            nodes=self._nodes_seen,
            workers=tuple(report for gang in gangs for report in gang.reports_at(now)),
            attempts_complete=frozenset(gang.attempt for gang in gangs if gang.is_made_at(now)),
            is_complete=True,
            attempts_unsettled=frozenset(
                self._in_making.union(call.attempt for call in self._calls)
            ),
            sequence=self._sequence,
        )

    def _changed_after(self, after: int | None) -> list[AttemptKey]:
        if after is not None and after > self._sequence:
            after = None  # It was told by another cluster.
        changed: list[AttemptKey] = []
        for attempt, sequence in reversed(self._changed.items()):
            if after is not None and sequence <= after:
                break
            changed.append(attempt)
        return sorted(changed)

    def _sorted_nodes(self) -> tuple[Node, ...]:
        return tuple(node for _, node in sorted(self._nodes.items()))

    def _worker(self, attempt: AttemptKey, rank: Rank) -> ScriptedWorker:
        gang = self._gangs.get(attempt) or self._forgotten.get(attempt)
        for worker in gang.workers if gang else ():
            if worker.rank == rank:
                return worker
        raise NotFoundError("log", f"{attempt}/{rank}")


def _joined(output: list[Output]) -> bytes:
    return b"".join(piece.data for piece in output)


def _times(output: list[Output]) -> list[LogTime]:
    """When each piece was written, by its place in the whole log."""
    ends = accumulate(len(piece.data) for piece in output)
    return [
        LogTime(offset=end - len(piece.data), at=piece.at)
        for piece, end in zip(output, ends, strict=True)
    ]
