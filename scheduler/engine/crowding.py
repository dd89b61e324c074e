"""Who meets on the ways out of nodes, racks and blocks, as a decision comes to see it.

gang a   nodes x1 and y1   leaves racks x and y
gang b   nodes x2 and y2   leaves the same: each may go slower than it would alone

Beside the gangs that run, those count that the decision itself starts or promises GPUs to; those
that leave do not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from scheduler.domain.ids import JobId
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job, JobPhase
from scheduler.domain.placement import Placement
from scheduler.domain.snapshot import Neighbour, RunningGang, Snapshot
from scheduler.domain.topology import TopologyTree
from scheduler.engine.known_gangs import KnownGangs

WayOut = tuple[int, int]
"""Level and number of the domain that is left."""


def ways_out(placement: Placement, tree: TopologyTree) -> Iterator[WayOut]:
    """Of the domains that the gang's traffic leaves; none of nodes that are gone."""
    if not placement.tier:
        return
    nodes = {tree.index_of.get(each.node) for each in placement.assignments}
    for level, homes in enumerate(tree.domain_of[: placement.tier]):
        found = sorted({homes[node] for node in nodes if node is not None})
        if not found[1:]:
            return
        yield from ((level, number) for number in found)


class Traffic:
    """Gangs that hold GPUs and stay, on the ways out they use. Mutable: it follows the snapshots it
    is shown."""

    def __init__(self, tree: TopologyTree) -> None:
        self.tree = tree
        self._gangs = KnownGangs()
        self._ways: dict[JobId, tuple[WayOut, ...]] = {}
        self._on: dict[WayOut, set[JobId]] = {}

    def clear(self) -> None:
        """Nobody runs."""
        self._gangs.clear()
        self._ways.clear()
        self._on.clear()

    def renew(self, holding: Sequence[RunningGang]) -> None:
        """Follow what has changed since the last time."""
        for job_id in self._gangs.take_gone(holding):
            for way in self._ways.pop(job_id, ()):
                self._on[way].discard(job_id)
        for gang in self._gangs.take_new(holding):
            job, placement = gang.job, gang.attempt.placement
            is_leaving = job.phase is JobPhase.STOPPING or job.stop_requested is not None
            if placement.tier and not is_leaving:
                self._ways[job.id] = tuple(ways_out(placement, self.tree))
                for way in self._ways[job.id]:
                    self._on.setdefault(way, set()).add(job.id)

    def on(self, way: WayOut) -> AbstractSet[JobId]:
        """Gangs on it."""
        return self._on.get(way, frozenset())

    def gang(self, job_id: JobId) -> RunningGang | None:
        """The gang of a job that holds GPUs."""
        return self._gangs.get(job_id)


@dataclass(slots=True, eq=False)
class Crowd:
    """The gangs on each way out. Mutable: it follows one decision."""

    traffic: Traffic
    now: Instant
    _gangs: dict[JobId, Neighbour] = field(default_factory=dict)
    _moving: set[JobId] = field(default_factory=set)
    """Gangs that leave for another place."""
    _on: dict[WayOut, dict[JobId, None]] = field(default_factory=dict)
    """Those that come to run there."""

    def follow(
        self,
        snapshot: Snapshot,
        *,
        moving: Mapping[JobId, Placement],
        coming: Iterable[tuple[Job, Placement]],
    ) -> None:
        """As the decision finds it: who stays, and who comes next where it was promised to him."""
        self.traffic.renew(snapshot.holding)
        for job_id, placement in moving.items():
            gang = self.traffic.gang(job_id)
            if gang is not None:
                self._moving.add(job_id)
                self.add(gang.job, placement)
        for job, placement in coming:
            self.add(job, placement)

    def add(self, job: Job, placement: Placement) -> None:
        """A job comes to run there."""
        if not placement.tier:
            return
        self._gangs[job.id] = Neighbour(job=job, placement=placement, ran_for=job.ran_for)
        for way in ways_out(placement, self.traffic.tree):
            self._on.setdefault(way, {})[job.id] = None

    def beside(self, placement: Placement, *, leaving: AbstractSet[JobId]) -> tuple[Neighbour, ...]:
        """Gangs that share a way out with the placement, by id, without those that leave."""
        staying: set[JobId] = set()
        found: set[JobId] = set()
        for way in ways_out(placement, self.traffic.tree):
            staying |= self.traffic.on(way)
            found.update(self._on.get(way, ()))
        found |= staying - self._moving
        return tuple(self._neighbour(job_id) for job_id in sorted(found - leaving))

    def _neighbour(self, job_id: JobId) -> Neighbour:
        found = self._gangs.get(job_id)
        if found is None:
            gang = self.traffic.gang(job_id)
            assert gang is not None
            found = self._gangs[job_id] = Neighbour(
                job=gang.job, placement=gang.attempt.placement, ran_for=gang.run_time(self.now)
            )
        return found
