"""From trace jobs to the jobs of a scenario: specs, ids, and what does not fit the cluster."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.ids import JobId, RoleName
from scheduler.domain.instants import Duration
from scheduler.domain.job import CheckpointRequest, JobSpec, Role
from scheduler.domain.queue import DEFAULT_QUEUE
from simulator.profiles import Profiles
from simulator.topology_file import Topology, as_counter
from simulator.traces.job import TraceJob
from simulator.world import Costs, SimulatedJob

WORKER = RoleName("worker")
REST = RoleName("rest")
COMMAND = ("train",)


class Allocation(StrEnum):
    """How the GPUs of a gang are laid out."""

    BEST_FIT = "best-fit"
    """One GPU a worker; the service's own placement finds the closest level."""
    COUNTER = "counter"
    """The cluster is one pool of GPUs; where they are does not matter."""
    EIGHT_A_NODE = "eight-a-node"
    """Up to a node's GPUs on one node, the first that has them free; more on idle nodes, and one
    node for the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A cluster and the jobs that can run on it."""

    topology: Topology
    jobs: tuple[SimulatedJob, ...]
    too_large: int
    """Jobs that ask for more GPUs than the cluster has; they are left out."""


def loaded(
    jobs: Sequence[TraceJob],
    topology: Topology,
    *,
    allocation: Allocation = Allocation.BEST_FIT,
    profiles: Profiles | None = None,
    costs: Costs | None = None,
) -> Loaded:
    """The jobs of a trace as jobs of a scenario on that cluster.

    With `profiles` each has a network profile; with `costs` it declares its checkpoints.
    """
    specs = _Specs(allocation, topology.gpus_per_node_max, checkpoint_of(costs))
    fitting = [job for job in jobs if job.gpus <= topology.gpus]
    return Loaded(
        topology=as_counter(topology) if allocation is Allocation.COUNTER else topology,
        jobs=tuple(_jobs(fitting, specs, profiles)),
        too_large=len(jobs) - len(fitting),
    )


def checkpoint_of(costs: Costs | None) -> CheckpointRequest:
    """What a job says of its checkpoints, in a world with these costs."""
    if costs is None:
        return CheckpointRequest()
    return CheckpointRequest(
        path="/checkpoint",
        every=costs.checkpoint_every,
        restart_cost=Duration(costs.start_up + costs.restore),
        is_declared=True,
    )


def _jobs(
    jobs: Iterable[TraceJob], specs: "_Specs", profiles: Profiles | None
) -> Iterable[SimulatedJob]:
    for number, job in enumerate(jobs, start=1):
        # Ids sort as the trace does, which is how ties are broken everywhere.
        name = f"j{number:08d}"
        model = "" if profiles is None else profiles.model_of(job)
        yield SimulatedJob(
            id=JobId(name),
            name=name,
            arrival=job.arrival,
            work=job.duration,
            gpus=job.gpus,
            spec=specs.of(job.gpus, None if profiles is None else profiles.seen(job, model)),
            recorded_as=job.name,
            model=model,
            profile=None if profiles is None else profiles.true(model),
        )


class _Specs:
    """One spec for all jobs that ask for the same: equal requests are one object."""

    def __init__(
        self, allocation: Allocation, gpus_per_node: int, checkpoint: CheckpointRequest
    ) -> None:
        self._allocation = allocation
        self._gpus_per_node = gpus_per_node
        self._checkpoint = checkpoint
        self._specs: dict[tuple[int, int], JobSpec] = {}

    def of(self, gpus: int, profile: CommunicationProfile | None) -> JobSpec:
        """The spec of a gang of so many GPUs, with what it says of its communication."""
        # A profile is known by its identity: whoever makes them keeps them.
        key = (gpus, id(profile))
        spec = self._specs.get(key)
        if spec is None:
            spec = JobSpec(
                queue=DEFAULT_QUEUE,
                roles=tuple(self._roles(gpus)),
                communication=profile,
                checkpoint=self._checkpoint,
            )
            self._specs[key] = spec
        return spec

    def _roles(self, gpus: int) -> Iterable[Role]:
        if self._allocation is Allocation.BEST_FIT:
            yield _role(WORKER, workers=gpus, gpus=1)
            return
        if self._allocation is Allocation.COUNTER or gpus <= self._gpus_per_node:
            yield _role(WORKER, workers=1, gpus=gpus)
            return
        whole, rest = divmod(gpus, self._gpus_per_node)
        yield _role(WORKER, workers=whole, gpus=self._gpus_per_node)
        if rest:
            yield _role(REST, workers=1, gpus=rest)


def _role(name: RoleName, *, workers: int, gpus: int) -> Role:
    return Role(name=name, workers=workers, gpus_per_worker=gpus, command=COMMAND)
