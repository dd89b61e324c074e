"""What is kept from one decision to the next, so that each costs what has changed since.

A decision on a Standing equals one on a Standing made anew from its snapshot: it holds nothing but
the snapshot's facts, put in order.
"""

from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from scheduler.domain.gang import GangRequest, NumberedRequest, gang_request
from scheduler.domain.ids import JobId, NodeName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.domain.placement import Blocked, Placement
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.domain.topology import Node, TopologyTree, topology_tree
from scheduler.engine.crowding import Traffic
from scheduler.engine.free_gpus import FreeGpus, Mark
from scheduler.engine.ladders import Ladders, StepTimesMaker
from scheduler.engine.ranking import Ranking
from scheduler.engine.waiting import Kind, WaitingLine


class _Refusal(NamedTuple):
    """A no that holds while what it was read off is the same."""

    answer: Blocked
    mark: Mark


class Standing:
    """Free GPUs, the waiting line, and answers that hold until what they rest on changes."""

    def __init__(
        self,
        tree: TopologyTree,
        nodes: Sequence[Node] = (),
        step_times_maker: StepTimesMaker = Ladders,
    ) -> None:
        self.free = FreeGpus(tree, nodes)
        self.nodes: dict[NodeName, Node] = {node.name: node for node in nodes}
        self.line = WaitingLine()
        self.parked: dict[int, Blocked] = {}
        """By number of the request, until anything at all is taken or freed."""
        self._refusals: dict[int, _Refusal] = {}
        """By number of the request, until that changes what could change them."""
        self.promises: dict[JobId, Placement] = {}
        """Where waiting jobs start next; held as if they were there already."""
        self.moving: dict[JobId, tuple[Placement, GangRequest]] = {}
        """Where gangs start next that are being stopped to move there; held as well."""
        self.stopped: set[JobId] = set()
        """Waiting jobs that have run before."""
        self.ticking: set[JobId] = set()
        """Waiting jobs whose clocks run."""
        self.unstarted: list[tuple[Instant, JobId]] = []
        """Waiting jobs that have never started, the first submitted first."""
        self.placed: dict[Hashable, Placement | Blocked] = {}
        """Answers that hang on what is free alone, by question, until that changes."""
        self.traffic = Traffic(tree)
        """Running gangs, on the ways out of domains that they use."""
        self.ranking = Ranking()
        """Running gangs, as the policy ranked them last."""
        self._step_times_maker = step_times_maker
        self.step_times = step_times_maker(tree, tuple(nodes))
        self._besides: tuple[Reservation, ...] = ()
        """Held by nobody who is known."""
        self.version = 0
        """Counts the changes of what is free."""
        self.all_lie_well = False
        """Known that no gang would gain anything by lying closer."""
        self._numbers: dict[GangRequest, NumberedRequest] = {}
        self._last_number = 0

    @classmethod
    def of(cls, snapshot: Snapshot) -> "Standing":
        """Made anew."""
        tree = snapshot.tree or topology_tree(snapshot.levels, snapshot.nodes)
        standing = cls(tree, snapshot.nodes)
        for gang in snapshot.holding:
            standing.free.hold(gang.reservations)
            standing.moves(gang.job)
        standing.holds_besides(snapshot.held_besides)
        for job in snapshot.pending:
            standing.waits(job)
        return standing

    def renew(self, tree: TopologyTree, nodes: Sequence[Node], held: Iterable[RunningGang]) -> None:
        """The nodes have changed."""
        self.free = FreeGpus(tree, nodes)
        self.traffic = Traffic(tree)
        self._refusals.clear()
        self.nodes = {node.name: node for node in nodes}
        self.step_times = self._step_times_maker(tree, tuple(nodes))
        self.all_lie_well = False
        for gang in held:
            self.free.hold(gang.reservations)
        for gang_besides in _by_attempt(self._besides):
            self.free.hold(gang_besides)
        for job_id, placement in self.promises.items():
            self.free.take(placement, self.line[job_id].request)
        for placement, request in self.moving.values():
            self.free.take(placement, request)
        self._changed()

    def clear(self) -> None:
        """Nobody waits or holds anything."""
        self.line.clear()
        self.promises.clear()
        self._besides = ()
        self.moving.clear()
        self.stopped.clear()
        self.ticking.clear()
        self.unstarted.clear()
        self.ranking.clear()
        self.renew(self.free.tree, self.free.nodes, ())

    def waits(self, job: Job) -> None:
        """A job waits, or one that waited has changed."""
        if job.id in self.line:
            self.waits_no_more(job.id)
        self.line.put(job, self._number(gang_request(job.spec)))
        if job.ran_for:
            self.stopped.add(job.id)
        if job.first_started_at is None:
            insort(self.unstarted, (job.submitted_at, job.id))
        if job.waiting is not None and job.waiting.runs_since is not None:
            self.ticking.add(job.id)
        if job.promised is not None:
            self.promises[job.id] = job.promised
            self.free.take(job.promised, self.line[job.id].request)
            self._changed()

    def notes(self, job: Job) -> None:
        """The clock or the timers of a job that waits have changed: its place stays."""
        assert job.waiting is not None
        self.line.renew(job)
        if job.waiting.runs_since is None:
            self.ticking.discard(job.id)
        else:
            self.ticking.add(job.id)

    def waits_no_more(self, job_id: JobId) -> None:
        """A job waits no more, if it did: what it was promised is anybody's."""
        promised = self.promises.pop(job_id, None)
        if promised is not None:
            self.free.release(promised, self.line[job_id].request)
            self._changed()
        self.ticking.discard(job_id)
        self.stopped.discard(job_id)
        if job_id in self.line:
            entry = (self.line[job_id].job.submitted_at, job_id)
            place = bisect_left(self.unstarted, entry)
            if self.unstarted[place : place + 1] == [entry]:
                del self.unstarted[place]
        self.line.drop(job_id)

    def moves(self, job: Job) -> None:
        """A job that holds GPUs moves to those that are promised to it, if any are."""
        if job.promised is not None:
            request = self.request_of(job)
            self.moving[job.id] = (job.promised, request)
            self.free.take(job.promised, request)
            self._changed()

    def moves_no_more(self, job_id: JobId) -> None:
        """It has left, or does not hold anything any more."""
        found = self.moving.pop(job_id, None)
        if found is not None:
            self.free.release(*found)
            self._changed()

    def request_of(self, job: Job) -> GangRequest:
        """What a job asks for; the same object for equal ones."""
        return self._number(gang_request(job.spec)).request

    def holds(self, before: Sequence[Reservation], now: Sequence[Reservation]) -> None:
        """A gang holds these instead of those."""
        if before == now:
            return
        if before:
            self.free.let_go(before)
        if now:
            self.free.hold(now)
            if any(held.node != now[0].node for held in now):
                # Who lies on one node lies as close as can be.
                self.all_lie_well = False
        self._changed()

    def holds_besides(self, now: tuple[Reservation, ...]) -> None:
        """This is held by jobs that can not be read, instead of what was."""
        if now == self._besides:
            return
        for gang in _by_attempt(self._besides):
            self.free.let_go(gang)
        for gang in _by_attempt(now):
            self.free.hold(gang)
        self._besides = now
        self._changed()

    def refusal(self, kind: Kind, request: GangRequest) -> Blocked | None:
        """The last no to the request, if nothing that could change it has changed."""
        known = self._refusals.get(kind.request)
        if known is None:
            return None
        if known.mark == self.free.mark(request):
            return known.answer
        del self._refusals[kind.request]
        return None

    def refuse(self, kind: Kind, request: GangRequest, answer: Blocked) -> None:
        """The request has no place now."""
        mark = self.free.mark(request)
        if mark is not None:
            self._refusals[kind.request] = _Refusal(answer, mark)

    def takes_workers(self, name: NodeName) -> bool:
        """Whether there is such a node and it is in order."""
        node = self.nodes.get(name)
        return node is not None and node.takes_workers

    def is_covered(self, names: Iterable[NodeName]) -> bool:
        """Whether no more is held and promised on these nodes than they have."""
        free = self.free
        return all(
            free.gpus[index] >= 0
            and free.seats[index] >= 0
            and free.cpu_milli[index] >= 0
            and free.memory_bytes[index] >= 0
            and all(left >= 0 for left in free.extended[index].values())
            for index in (free.tree.index_of[name] for name in names)
        )

    def _changed(self) -> None:
        self.parked.clear()
        self.placed.clear()
        self.version += 1

    def _number(self, request: GangRequest) -> NumberedRequest:
        if len(self._numbers) > 2 * len(self.line) + 1_000:
            # Most of them are of jobs long gone.
            self._numbers = {
                waiting.request: NumberedRequest(waiting.kind.request, waiting.request)
                for waiting in self.line
            }
            self._refusals.clear()
        known = self._numbers.get(request)
        if known is None:
            self._last_number += 1
            known = self._numbers[request] = NumberedRequest(self._last_number, request)
        return known


def _by_attempt(reservations: Iterable[Reservation]) -> Iterable[list[Reservation]]:
    by_attempt: dict[AttemptKey, list[Reservation]] = {}
    for held in reservations:
        by_attempt.setdefault(held.attempt, []).append(held)
    return by_attempt.values()
