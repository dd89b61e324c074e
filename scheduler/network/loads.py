"""What a placed job asks of each uplink: the input of `sharing`, from its workload and shape."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.domain.communication import Axis, Collective, Strategy
from scheduler.domain.ids import GpuModel
from scheduler.network.collectives import bus_factor
from scheduler.network.demand import all_to_all_bytes
from scheduler.network.fabric import Fabric
from scheduler.network.groups import Group, groups_of
from scheduler.network.neighbours import gossip_degree
from scheduler.network.shape import Shape
from scheduler.network.sharing import Load
from scheduler.network.strategies import GRADIENT_AXES, dimensions_of, step_parts
from scheduler.network.transfer import ALONE
from scheduler.network.workload import Workload

LinkKey = tuple[int, str]
"""(level, domain): the way out of that domain."""


BLOCKING_STRATEGIES = frozenset({Strategy.ZERO1, Strategy.ZERO2, Strategy.PS})
"""Some of their exchange of gradients and weights hides behind nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Uplink:
    """The way out of one topology domain that holds ranks of a job."""

    level: int
    """Level of the domain; 0 is the node, whose way out are its NICs."""
    domain: str
    """Name of the domain, unique in its level."""
    ranks: int
    """Ranks of the job in the domain."""

    @property
    def link(self) -> LinkKey:
        """Its name among all links of the fabric."""
        return self.level, self.domain


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """One exchange of a step: so many bytes of one rank's buffer among the ranks of some axes."""

    collective: Collective
    size: float
    axes: frozenset[Axis]
    is_blocking: bool = False
    """Whether computation waits for it."""


def flows_of(workload: Workload, ranks: int) -> tuple[Flow, ...]:
    """The exchanges of one step of a gang of so many ranks, gradients first."""
    flows = [] if _declares_data(workload) else _gradient_flows(workload, ranks)
    flows += [
        Flow(
            collective=entry.collective,
            size=entry.bytes_per_step,
            axes=GRADIENT_AXES if entry.axis is Axis.DATA else frozenset({entry.axis}),
            is_blocking=entry.is_blocking,
        )
        for entry in workload.traffic
    ]
    return tuple(flow for flow in flows if flow.size > 0)


def load_of(
    workload: Workload,
    shape: Shape,
    fabric: Fabric,
    uplinks: Sequence[Uplink],
    *,
    gpu_model: GpuModel = GpuModel(""),
) -> Load[LinkKey]:
    """The job's load on the uplinks of the domains it touches; give those below its tier."""
    parts = step_parts(workload, shape, fabric, fabric.node(gpu_model), ALONE)
    bytes_by_link: dict[LinkKey, float] = {}
    dimensions = dimensions_of(workload.parallel, shape.ranks)
    waits = False
    for flow in flows_of(workload, shape.ranks):
        group = groups_of(shape, dimensions, flow.axes)[0]
        for uplink in uplinks:
            size = _bytes_out(flow, group, uplink, shape)
            if size:
                bytes_by_link[uplink.link] = bytes_by_link.get(uplink.link, 0.0) + size
                waits = waits or flow.is_blocking
    # Communication that blocks adds to the exchange where some of it goes over the links (tensor
    # groups on one node do not), and may hide as little as before.
    blocking_s = parts.blocking.total_s if waits else 0.0
    return Load(
        compute_s=parts.compute_s + parts.blocking.total_s - blocking_s,
        exchange_s=parts.exchange.total_s + blocking_s,
        hideable_s=parts.hideable_s,
        last_s=parts.last.total_s + blocking_s,
        bytes_by_link=bytes_by_link,
    )


def uplink_capacities(
    fabric: Fabric, domains: Mapping[int, Sequence[str]], *, gpu_model: GpuModel = GpuModel("")
) -> dict[LinkKey, float]:
    """Bytes per second out of every domain, by (level, domain)."""
    return {
        (level, name): fabric.uplink_bytes_per_s(level, gpu_model) * fabric.network.efficiency
        for level, names in sorted(domains.items())
        for name in names
    }


def _declares_data(workload: Workload) -> bool:
    return any(entry.axis is Axis.DATA for entry in workload.traffic)


def _gradient_flows(workload: Workload, ranks: int) -> list[Flow]:
    size = workload.gradient_bytes / workload.model_ranks
    if workload.strategy in (Strategy.ZERO3, Strategy.FSDP, Strategy.HSDP):
        return _sharded_flows(workload, size)
    compression = workload.compression
    if compression is not None:
        size *= compression.ratio
    collective = Collective.ALL_REDUCE
    match workload.strategy:
        case Strategy.NONE:
            return []
        case Strategy.GOSSIP:
            collective = Collective.SEND_RECEIVE
            size *= gossip_degree(ranks, workload.degree)
        case Strategy.PS:
            collective = Collective.ALL_TO_ALL
            # Servers beside the workers send weights while they receive gradients.
            size *= 1.0 if workload.servers else 2.0
        case _ if compression is not None and compression.is_sparse:
            # Ranks send different entries, so all of them go to everybody.
            collective = Collective.ALL_GATHER
            size *= max(1, ranks // workload.model_ranks)
    if workload.strategy is Strategy.LOCAL_SGD:
        size /= workload.local_steps
    is_blocking = workload.strategy in BLOCKING_STRATEGIES
    return [Flow(collective=collective, size=size, axes=GRADIENT_AXES, is_blocking=is_blocking)]


def _sharded_flows(workload: Workload, size: float) -> list[Flow]:
    """Parameters gathered twice and gradients scattered once, every micro-step."""
    shard = workload.parallel.shard
    inner = frozenset({Axis.SHARD}) if shard > 1 else GRADIENT_AXES
    passed = size * workload.accumulation_steps
    flows = [
        # A scatter and a gather are an all-reduce.
        Flow(collective=Collective.ALL_REDUCE, size=passed, axes=inner),
        Flow(collective=Collective.ALL_GATHER, size=passed, axes=inner),
    ]
    if shard > 1:
        outer = GRADIENT_AXES - {Axis.SHARD}
        summed = Flow(
            collective=Collective.ALL_REDUCE, size=size / shard, axes=outer, is_blocking=True
        )
        flows.append(summed)
    return flows


def _bytes_out(flow: Flow, group: Group, uplink: Uplink, shape: Shape) -> float:
    """Bytes of all groups of a flow that leave one domain in one direction."""
    if uplink.level >= len(group.domains_by_level) or group.domains_by_level[uplink.level] == 1:
        return 0.0
    if flow.collective is Collective.ALL_TO_ALL:
        return all_to_all_bytes(flow.size, ranks=shape.ranks, ranks_in_rack=uplink.ranks)
    # As many rings run through the domain as it has ranks for each rank of one of them.
    own = max(1.0, group.ranks * uplink.ranks / shape.ranks)
    return uplink.ranks / own * bus_factor(flow.collective, group.ranks) * flow.size
