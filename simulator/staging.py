"""From a trace, a cluster and the options of a run to its scenario; one way for all commands."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from scheduler.domain.ids import JobId
from scheduler.domain.instants import Instant
from scheduler.domain.knobs import Algorithm, PolicyKnobs
from scheduler.domain.queue import DEFAULT_QUEUE
from scheduler.domain.topology import Node
from scheduler.domain.waits import JobEnd
from scheduler.engine.ladders import Ladders, NoDistance, StepTimesMaker
from scheduler.knob_settings import knob_fields, written_knobs
from scheduler.network.cluster_fabric import main_gpu_model
from scheduler.network.fabric import Fabric
from scheduler.policies.registry import POLICIES
from simulator.errors import OptionError
from simulator.fabric import NetworkOptions, fabric_of
from simulator.faults import NO_FAULTS, FaultOptions
from simulator.loading import Allocation, Loaded, loaded
from simulator.network_speeds import NetworkSpeeds, network_of
from simulator.profiles import Profiles, ProfileView
from simulator.replay import Scenario
from simulator.speeds import FullSpeed, Speeds
from simulator.topology_file import Topology
from simulator.traces.formats import Trace
from simulator.traces.job import TraceJob
from simulator.world import NO_COSTS, Costs

KNOW_LENGTHS = frozenset({"srtf", "srsf", "dally-informed"})
"""Policies that are told how long jobs run; all others are blind to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """All that a run depends on beside its trace and its cluster."""

    policy: str
    seed: int = 0
    network: NetworkOptions | None = field(default_factory=NetworkOptions)
    """None: distance and neighbours cost nothing."""
    view: ProfileView = ProfileView.NOISY
    costs: Costs = NO_COSTS
    faults: FaultOptions = NO_FAULTS
    allocation: Allocation = Allocation.BEST_FIT
    history: tuple[TraceJob, ...] = ()
    """Jobs that the cluster has run before those of the trace: policies know how long they ran."""
    knobs: Mapping[str, object] = field(default_factory=dict)
    """Numbers of the policy that differ from the defaults, by field of PolicyKnobs."""

    def facts(self) -> dict[str, object]:
        """The options by name, as reports show them."""
        facts: dict[str, object] = {"policy": self.policy, "seed": self.seed}
        facts["network"] = "off" if self.network is None else "on"
        if self.network is not None:
            facts["congestion"] = self.network.congestion
            facts["jitter"] = self.network.jitter
            facts["profiles"] = f"drawn by the seed, {self.view} to the policy"
        facts["costs"] = "off" if self.costs == NO_COSTS else "on"
        facts["faults"] = "off" if self.faults == NO_FAULTS else "on"
        facts["allocation"] = str(self.allocation)
        facts["history"] = len(self.history)
        knobs = dict(written_knobs(knobs_of(self)))
        said = {written for written, name in knob_fields().items() if name in self.knobs}
        return facts | {"knobs": {name: knobs[name] for name in sorted(said)}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged:
    """A scenario, and what was made of the trace for it."""

    scenario: Scenario
    world: Loaded

    def facts(self, trace: Trace, topology: Topology) -> dict[str, object]:
        """What was run, by name."""
        return {
            "trace": trace.source,
            "cluster": topology.name,
            "gpus": self.world.topology.gpus,
            "dropped": {**trace.dropped, "TooLarge": self.world.too_large},
        }


def staged(trace: Trace, topology: Topology, options: RunOptions) -> Staged:
    """The scenario of a run. Raises OptionError, or TopologyError for a fabric nobody knows."""
    _check(options)
    fabric = profiles = None
    if options.network is not None:
        fabric = fabric_of(topology, options.network)
        profiles = Profiles(fabric, main_gpu_model(topology.nodes()), options.seed, options.view)
    world = loaded(
        trace.jobs,
        topology,
        allocation=options.allocation,
        profiles=profiles,
        costs=None if options.costs == NO_COSTS else options.costs,
    )
    if not world.jobs:
        raise OptionError("--topology", "no job of the trace fits this cluster")
    nodes = world.topology.nodes()
    scenario = Scenario(
        jobs=world.jobs,
        levels=world.topology.domain_levels(),
        nodes=nodes,
        knobs=knobs_of(options),
        seed=options.seed,
        costs=options.costs,
        faults=options.faults,
        tells_lengths=options.policy in KNOW_LENGTHS,
        past=tuple(_end_of(job) for job in options.history),
        speeds=_speeds(topology, nodes, options.network, fabric),
        step_times=_step_times(fabric),
    )
    return Staged(scenario=scenario, world=world)


def knobs_of(options: RunOptions) -> PolicyKnobs:
    """The knobs of a run. OptionError for a name that no knob has."""
    names = set(PolicyKnobs.__dataclass_fields__)
    for name in sorted(set(options.knobs) - names):
        raise OptionError("--set", f"no knob named {name!r}; there are {', '.join(sorted(names))}")
    knobs = PolicyKnobs(policy=options.policy, **options.knobs)  # type: ignore[arg-type]  # checked by name
    if options.allocation is Allocation.EIGHT_A_NODE:
        return replace(knobs, placing=Algorithm.FIRST_FIT)
    return knobs


def _end_of(job: TraceJob) -> JobEnd:
    """What its end taught; it ended as the first job of the trace comes."""
    return JobEnd(
        job_id=JobId(f"past-{job.row}"),
        queue=DEFAULT_QUEUE,
        gpus=job.gpus,
        ran_for=job.duration,
        is_complete=True,
        at=Instant(0),
    )


def check_policy(name: str, *, option: str = "--policy") -> None:
    """Raises OptionError if there is no policy of that name."""
    if name not in POLICIES:
        known = ", ".join(sorted(POLICIES))
        raise OptionError(option, f"no policy named {name!r}; there are {known}")


def _check(options: RunOptions) -> None:
    check_policy(options.policy)
    if options.network is not None and options.allocation is Allocation.COUNTER:
        raise OptionError("--allocation", "a counter has no network; say --network off")


def _step_times(fabric: Fabric | None) -> StepTimesMaker:
    """The policy knows the links of its cluster, and nothing of who is on them."""
    return NoDistance if fabric is None else partial(Ladders, fabric_maker=lambda *_: fabric)


def _speeds(
    topology: Topology,
    nodes: tuple[Node, ...],
    network: NetworkOptions | None,
    fabric: Fabric | None,
) -> Callable[[], Speeds]:
    if network is None or fabric is None:
        return FullSpeed
    ideal = fabric_of(topology, NetworkOptions(jitter=network.jitter))
    model = main_gpu_model(topology.nodes())
    return lambda: NetworkSpeeds(network_of(fabric, ideal, nodes, model))
