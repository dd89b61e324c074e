"""`dally-sim run`: one trace, one cluster, one policy."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from scheduler.domain.instants import DAY, HOUR, SECOND, Duration, seconds
from scheduler.policies.registry import POLICIES
from simulator.commands.failing import told_as_errors
from simulator.commands.trace import FormatName, TraceFile, chosen_format
from simulator.errors import OptionError
from simulator.fabric import NetworkOptions
from simulator.faults import FaultOptions
from simulator.loading import Allocation, Loaded
from simulator.metrics import Metrics, measured
from simulator.profiles import ProfileView
from simulator.replay import replay
from simulator.run_folder import EventFile, write_run
from simulator.staging import RunOptions, staged
from simulator.topology_file import Topology, plain_topology, read_topology
from simulator.traces.formats import Trace, read_trace
from simulator.world import NO_COSTS, Costs


class Switch(StrEnum):
    """A part of the model, on or off."""

    ON = "on"
    OFF = "off"


TopologyFile = Annotated[
    Path | None, typer.Option(exists=True, dir_okay=False, help="Topology file of the cluster.")
]
Nodes = Annotated[int | None, typer.Option(min=1, help="Or: so many equal nodes.")]
GpusPerNode = Annotated[int | None, typer.Option(min=1, help="GPUs of each node.")]
Racks = Annotated[int, typer.Option(min=1, help="Racks the nodes are spread over.")]
NetworkSwitch = Annotated[Switch, typer.Option(help="The network model.")]
Congestion = Annotated[
    float, typer.Option(min=0.01, help="Divides the capacity above the rack switches.")
]
Jitter = Annotated[
    float, typer.Option(min=0, help="Deviation of a worker's compute time over its mean.")
]
Profile = Annotated[
    ProfileView, typer.Option("--profiles", help="What the policy is told of network profiles.")
]
CostsSwitch = Annotated[
    Switch, typer.Option(help="Start-up, restore and lost work; off: free and instant.")
]
StartUp = Annotated[float, typer.Option("--start-up", min=0, help="Seconds until containers run.")]
Restore = Annotated[float, typer.Option(min=0, help="Seconds to load a checkpoint.")]
CheckpointEvery = Annotated[float, typer.Option(min=0, help="Seconds between checkpoints.")]
NodeMtbf = Annotated[
    float | None,
    typer.Option("--node-mtbf", min=0.001, help="Days a node works until it fails, on average."),
]
Repair = Annotated[float, typer.Option(min=0.001, help="Hours a failed node is away, on average.")]
SlowNodes = Annotated[float, typer.Option(min=0, max=1, help="Share of nodes that are slow.")]
SlowFactor = Annotated[float, typer.Option(min=1, help="Step time on a slow node over another.")]
AllocationName = Annotated[Allocation, typer.Option(help="How the GPUs of a gang are laid out.")]
Seed = Annotated[int, typer.Option(help="The one number behind all chance.")]
DEFAULT_COSTS = Costs()


def run(
    trace: TraceFile,
    format: FormatName = None,
    topology: TopologyFile = None,
    *,
    nodes: Nodes = None,
    gpus_per_node: GpusPerNode = None,
    racks: Racks = 1,
    policy: Annotated[str, typer.Option(help=f"One of {', '.join(sorted(POLICIES))}.")],
    seed: Seed = 0,
    network: NetworkSwitch = Switch.ON,
    congestion: Congestion = 1.0,
    jitter: Jitter = 0.05,
    profiles: Profile = ProfileView.NOISY,
    costs: CostsSwitch = Switch.ON,
    start_up: StartUp = DEFAULT_COSTS.start_up / SECOND,
    restore: Restore = DEFAULT_COSTS.restore / SECOND,
    checkpoint_every: CheckpointEvery = DEFAULT_COSTS.checkpoint_every / SECOND,
    node_mtbf: NodeMtbf = None,
    repair: Repair = 4.0,
    slow_nodes: SlowNodes = 0.0,
    slow_factor: SlowFactor = 1.5,
    allocation: AllocationName = Allocation.BEST_FIT,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder to write the run to.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object of metrics.")] = False,
) -> None:
    """Replay a trace on a cluster under one policy, and show what came of it."""
    with told_as_errors():
        recorded = read_trace(trace, chosen_format(trace, format))
        cluster = cluster_of(topology, nodes=nodes, gpus_per_node=gpus_per_node, racks=racks)
        options = RunOptions(
            policy=policy,
            seed=seed,
            network=network_of(network, congestion, jitter),
            view=profiles,
            costs=costs_of(costs, start_up, restore, checkpoint_every),
            faults=faults_of(node_mtbf, repair, slow_nodes, slow_factor),
            allocation=allocation,
        )
        stage = staged(recorded, cluster, options)
        if out is None:
            outcome = replay(stage.scenario)
        else:
            with EventFile(out) as events:
                outcome = replay(stage.scenario, log=events.write)
        metrics = measured(outcome)
    facts = facts_of(recorded, stage.world, metrics, {**options.facts(), "cluster": cluster.name})
    if out is not None:
        write_run(out, facts, outcome)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts)


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
        return read_topology(topology)
    if nodes is None or gpus_per_node is None:
        raise OptionError("--topology", "give it, or --nodes and --gpus-per-node")
    return plain_topology(nodes=nodes, gpus_per_node=gpus_per_node, racks=racks)


def facts_of(
    trace: Trace, world: Loaded, metrics: Metrics, options: Mapping[str, object]
) -> dict[str, object]:
    """Metrics by name, with what they were measured on."""
    facts: dict[str, object] = {"trace": trace.source, **options}
    facts["gpus"] = world.topology.gpus
    facts["dropped"] = {**trace.dropped, "TooLarge": world.too_large}
    facts.update(asdict(metrics))
    return facts


def _show(facts: Mapping[str, object]) -> None:
    table = Table(show_header=False, box=None)
    for name, value in _rows(facts):
        table.add_row(name, value)
    Console().print(table)


def _rows(facts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        yield name, f"{value:,.2f}" if isinstance(value, float) else str(value)
