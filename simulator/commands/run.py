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

from scheduler.domain.knobs import PolicyKnobs
from scheduler.policies.registry import POLICIES
from simulator.commands.failing import told_as_errors
from simulator.commands.trace import FormatName, TraceFile, chosen_format
from simulator.errors import NotSupportedYetError, OptionError
from simulator.loading import Allocation, Loaded, loaded
from simulator.metrics import Metrics, measured
from simulator.replay import Scenario, replay
from simulator.run_folder import EventFile, write_run
from simulator.topology_file import Topology, plain_topology, read_topology
from simulator.traces.formats import Trace, read_trace
from simulator.world import NO_COSTS, Costs

KNOW_LENGTHS = frozenset({"srtf", "srsf"})
"""Policies that are told how long jobs run; all others are blind to it."""


class Switch(StrEnum):
    """A part of the model, on or off."""

    ON = "on"
    OFF = "off"


def run(
    trace: TraceFile,
    format: FormatName = None,
    topology: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Topology file of the cluster.")
    ] = None,
    *,
    nodes: Annotated[int | None, typer.Option(min=1, help="Or: so many equal nodes.")] = None,
    gpus_per_node: Annotated[int | None, typer.Option(min=1, help="GPUs of each node.")] = None,
    racks: Annotated[int, typer.Option(min=1, help="Racks the nodes are spread over.")] = 1,
    policy: Annotated[str, typer.Option(help=f"One of {', '.join(sorted(POLICIES))}.")],
    seed: Annotated[int, typer.Option(help="The one number behind all chance.")] = 0,
    network: Annotated[Switch, typer.Option(help="The network model.")] = Switch.ON,
    costs: Annotated[
        Switch, typer.Option(help="Start-up, restore and lost work; off: free and instant.")
    ] = Switch.ON,
    allocation: Annotated[
        Allocation, typer.Option(help="How the GPUs of a gang are laid out.")
    ] = Allocation.BEST_FIT,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder to write the run to.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object of metrics.")] = False,
) -> None:
    """Replay a trace on a cluster under one policy, and show what came of it."""
    with told_as_errors():
        recorded = read_trace(trace, chosen_format(trace, format))
        cluster = _cluster(topology, nodes=nodes, gpus_per_node=gpus_per_node, racks=racks)
        _refuse_what_is_missing(policy, network, allocation)
        world = loaded(recorded.jobs, cluster, allocation=allocation)
        if not world.jobs:
            raise OptionError("--topology", "no job of the trace fits this cluster")
        scenario = Scenario(
            jobs=world.jobs,
            levels=world.topology.domain_levels(),
            nodes=world.topology.nodes(),
            knobs=PolicyKnobs(policy=policy),
            seed=seed,
            costs=NO_COSTS if costs is Switch.OFF else Costs(),
            tells_lengths=policy in KNOW_LENGTHS,
        )
        if out is None:
            outcome = replay(scenario)
        else:
            with EventFile(out) as events:
                outcome = replay(scenario, log=events.write)
        metrics = measured(outcome)
    facts = _facts(
        recorded, world, metrics, {"policy": policy, "seed": seed, "cluster": cluster.name}
    )
    if out is not None:
        write_run(out, facts, outcome)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts)


def _cluster(
    topology: Path | None, *, nodes: int | None, gpus_per_node: int | None, racks: int
) -> Topology:
    if topology is not None:
        if nodes is not None or gpus_per_node is not None:
            raise OptionError("--topology", "names the nodes; leave out --nodes, --gpus-per-node")
        return read_topology(topology)
    if nodes is None or gpus_per_node is None:
        raise OptionError("--topology", "give it, or --nodes and --gpus-per-node")
    return plain_topology(nodes=nodes, gpus_per_node=gpus_per_node, racks=racks)


def _refuse_what_is_missing(policy: str, network: Switch, allocation: Allocation) -> None:
    if policy not in POLICIES:
        known = ", ".join(sorted(POLICIES))
        raise OptionError("--policy", f"no policy named {policy!r}; there are {known}")
    if network is Switch.ON:
        raise NotSupportedYetError("the network model in runs (say --network off)", version="0.2")
    if allocation is Allocation.EIGHT_A_NODE:
        raise NotSupportedYetError("--allocation eight-a-node", version="0.2")


def _facts(
    trace: Trace, world: Loaded, metrics: Metrics, options: Mapping[str, str | int]
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
