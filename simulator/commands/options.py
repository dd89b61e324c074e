"""Options that commands share: what they are called, and what they make."""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from scheduler.domain.instants import DAY, HOUR, SECOND, Duration, seconds
from scheduler.domain.knobs import PolicyKnobs
from scheduler.knob_assignments import AssignmentError, assigned
from scheduler.knob_settings import knob_fields, read_knobs
from simulator.errors import OptionError
from simulator.fabric import NetworkOptions
from simulator.faults import FaultOptions
from simulator.loading import Allocation
from simulator.profiles import ProfileView
from simulator.topology_file import Topology, plain_topology, read_topology
from simulator.traces.formats import read_trace
from simulator.traces.job import TraceJob
from simulator.world import NO_COSTS, Costs


class Switch(StrEnum):
    """A part of the model, on or off."""

    ON = "on"
    OFF = "off"


SECONDS_MAX = 1e9
"""About 31 years: a longer start or repair is a slip of the keyboard."""
FACTOR_MAX = 1e6
"""Most a factor may stretch or divide by; inf is no number."""
GPUS_PER_NODE_MAX = 1024
TopologyFile = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="Topology file of the cluster.")
]
Nodes = Annotated[int | None, typer.Option(min=1, help="Or: so many equal nodes.")]
GpusPerNode = Annotated[
    int | None, typer.Option(min=1, max=GPUS_PER_NODE_MAX, help="GPUs of each node.")
]
Racks = Annotated[int, typer.Option(min=1, help="Racks the nodes are spread over.")]
NetworkSwitch = Annotated[Switch, typer.Option(help="The network model.")]
Congestion = Annotated[
    float,
    typer.Option(min=0.01, max=FACTOR_MAX, help="Divides the capacity above the rack switches."),
]
Jitter = Annotated[
    float, typer.Option(min=0, max=10, help="Deviation of a worker's compute time over its mean.")
]
Profile = Annotated[
    ProfileView, typer.Option("--profiles", help="What the policy is told of network profiles.")
]
CostsSwitch = Annotated[
    Switch, typer.Option(help="Start-up, restore and lost work; off: free and instant.")
]
StartUp = Annotated[
    float, typer.Option("--start-up", min=0, max=SECONDS_MAX, help="Seconds until containers run.")
]
Restore = Annotated[
    float, typer.Option(min=0, max=SECONDS_MAX, help="Seconds to load a checkpoint.")
]
CheckpointEvery = Annotated[
    float, typer.Option(min=0, max=SECONDS_MAX, help="Seconds between checkpoints.")
]
NodeMtbf = Annotated[
    float | None,
    typer.Option(
        "--node-mtbf",
        min=0.001,
        max=FACTOR_MAX,
        help="Days a node works until it fails, on average.",
    ),
]
Repair = Annotated[
    float, typer.Option(min=0.001, max=FACTOR_MAX, help="Hours a failed node is away, on average.")
]
SlowNodes = Annotated[float, typer.Option(min=0, max=1, help="Share of nodes that are slow.")]
SlowFactor = Annotated[
    float, typer.Option(min=1, max=FACTOR_MAX, help="Step time on a slow node over another.")
]
AllocationName = Annotated[Allocation, typer.Option(help="How the GPUs of a gang are laid out.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KNOB=VALUE",
        help="A knob of the policy, as dallyd.yaml has it (repeat it for more).",
    ),
]
History = Annotated[
    Path | None,
    typer.Option(
        exists=True,
        dir_okay=False,
        help="Trace of jobs that have run before: policies know how long those took.",
    ),
]
Seed = Annotated[int, typer.Option(help="The one number behind all chance.")]
_COSTS = Costs()
START_UP_S = _COSTS.start_up / SECOND
RESTORE_S = _COSTS.restore / SECOND
CHECKPOINT_EVERY_S = _COSTS.checkpoint_every / SECOND
JITTER = 0.05
REPAIR_HOURS = 4.0
SLOW_FACTOR = 1.5

NODES_MAX = 100_000
"""Of a cluster; more are a slip of the pen, and fill the memory before anything runs."""


def knobs_of(settings: Iterable[str], *, option: str = "--set") -> Mapping[str, object]:
    """The knobs that the settings name, by field of PolicyKnobs. Raises OptionError."""
    try:
        values = assigned(settings)
    except AssignmentError as error:
        raise OptionError(option, str(error)) from error
    if "policy" in values:
        raise OptionError(option, "policy is no knob here: name it where the policy is named")
    knobs, problems = read_knobs(values, PolicyKnobs())
    if problems:
        told = "; ".join(f"{problem.name}: {problem.detail}" for problem in problems)
        raise OptionError(option, told)
    names = knob_fields()
    return {names[written]: getattr(knobs, names[written]) for written in values}


def history_of(trace: Path | None) -> tuple[TraceJob, ...]:
    """The jobs that have run before. Raises TraceError."""
    return () if trace is None else read_trace(trace).jobs


def network_of(switch: Switch, congestion: float, jitter: float) -> NetworkOptions | None:
    """The network a run is asked for."""
    if switch is Switch.OFF:
        return None
    return NetworkOptions(congestion=congestion, jitter=jitter)


def costs_of(switch: Switch, start_up: float, restore: float, checkpoint_every: float) -> Costs:
    """The costs a run is asked for; times in seconds."""
    if switch is Switch.OFF:
        return NO_COSTS
    return Costs(
        start_up=seconds(start_up),
        restore=seconds(restore),
        checkpoint_every=seconds(checkpoint_every),
    )


def faults_of(
    mtbf_days: float | None, repair_hours: float, slow_share: float, slow_factor: float
) -> FaultOptions:
    """The faults a run is asked for."""
    return FaultOptions(
        node_mtbf=None if mtbf_days is None else Duration(round(mtbf_days * DAY)),
        repair_mean=Duration(round(repair_hours * HOUR)),
        slow_share=slow_share,
        slow_factor=slow_factor,
    )


def cluster_of(
    topology: Path | None, *, nodes: int | None, gpus_per_node: int | None, racks: int
) -> Topology:
    """The cluster a run is asked for."""
    if topology is not None:
        if nodes is not None or gpus_per_node is not None:
            raise OptionError("--topology", "names the nodes; leave out --nodes, --gpus-per-node")
        cluster = read_topology(topology)
        count = sum(group.count for group in cluster.groups)
        if count > NODES_MAX:
            raise OptionError("--topology", f"has {count} nodes, and over {NODES_MAX} is too many")
        return cluster
    if nodes is None or gpus_per_node is None:
        raise OptionError("--topology", "give it, or --nodes and --gpus-per-node")
    if nodes > NODES_MAX:
        raise OptionError("--nodes", f"{nodes} is over {NODES_MAX}")
    return plain_topology(nodes=nodes, gpus_per_node=gpus_per_node, racks=racks)
