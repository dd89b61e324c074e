"""Who meets on the ways out of nodes, racks and blocks, as a decision comes to see it.

gang a   nodes x1 and y1   leaves racks x and y
gang b   nodes x2 and y2   leaves the same: each may go slower than it would alone

Beside the gangs that run, those count that the decision itself starts or promises GPUs to; those
that leave do not.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from scheduler.domain.ids import JobId
from scheduler.domain.job import Job, JobPhase
from scheduler.domain.placement import Placement
from scheduler.domain.snapshot import Neighbour, Snapshot
from scheduler.domain.topology import TopologyTree
from scheduler.engine.standing import Standing

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


@dataclass(slots=True, eq=False)
class Crowd:
    """The gangs on each way out. Mutable: it follows one decision."""

    tree: TopologyTree
    _gangs: dict[JobId, Neighbour] = field(default_factory=dict)
    _on: dict[WayOut, dict[JobId, None]] = field(default_factory=dict)

    @classmethod
    def of(cls, snapshot: Snapshot, standing: Standing, void: AbstractSet[JobId]) -> "Crowd":
        """As the decision finds it: who stays, and who comes next where it was promised to him.

        Not those whose promise is `void`.
        """
        crowd = cls(standing.free.tree)
        for gang in snapshot.holding:
            job = gang.job
            if job.id in standing.moving:
                crowd.add(job, standing.moving[job.id][0])
            elif job.phase is not JobPhase.STOPPING and job.stop_requested is None:
                crowd.put(
                    Neighbour(
                        job=job,
                        placement=gang.attempt.placement,
                        ran_for=gang.run_time(snapshot.now),
                    )
                )
        for job_id, placement in standing.promises.items():
            if job_id not in void:
                crowd.add(standing.line[job_id].job, placement)
        return crowd

    def add(self, job: Job, placement: Placement) -> None:
        """A job comes to run there."""
        self.put(Neighbour(job=job, placement=placement, ran_for=job.ran_for))

    def put(self, gang: Neighbour) -> None:
        """The gang is there."""
        if not gang.placement.tier:
            return
        self._gangs[gang.job.id] = gang
        for way in ways_out(gang.placement, self.tree):
            self._on.setdefault(way, {})[gang.job.id] = None

    def beside(self, placement: Placement, *, leaving: AbstractSet[JobId]) -> tuple[Neighbour, ...]:
        """Gangs that share a way out with the placement, by id, without those that leave."""
        found = {
            job_id
            for way in ways_out(placement, self.tree)
            for job_id in self._on.get(way, ())
            if job_id not in leaving
        }
        return tuple(self._gangs[job_id] for job_id in sorted(found))
