"""`dally-sim run`: one trace, one cluster, one policy."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from scheduler.policies.registry import POLICIES
from simulator.commands import options as opts
from simulator.commands.failing import told_as_errors
from simulator.commands.showing import console
from simulator.commands.trace import FormatName, TraceFile, chosen_format
from simulator.loading import Allocation
from simulator.metrics import measured
from simulator.profiles import ProfileView
from simulator.replay import replay
from simulator.run_folder import EventFile, write_run
from simulator.staging import RunOptions, staged
from simulator.traces.formats import read_trace


def run(
    trace: TraceFile,
    format: FormatName = None,
    topology: opts.TopologyFile = None,
    *,
    nodes: opts.Nodes = None,
    gpus_per_node: opts.GpusPerNode = None,
    racks: opts.Racks = 1,
    policy: Annotated[str, typer.Option(help=f"One of {', '.join(sorted(POLICIES))}.")],
    settings: opts.Settings = None,
    history: opts.History = None,
    seed: opts.Seed = 0,
    network: opts.NetworkSwitch = opts.Switch.ON,
    congestion: opts.Congestion = 1.0,
    jitter: opts.Jitter = opts.JITTER,
    profiles: opts.Profile = ProfileView.NOISY,
    costs: opts.CostsSwitch = opts.Switch.ON,
    start_up: opts.StartUp = opts.START_UP_S,
    restore: opts.Restore = opts.RESTORE_S,
    checkpoint_every: opts.CheckpointEvery = opts.CHECKPOINT_EVERY_S,
    node_mtbf: opts.NodeMtbf = None,
    repair: opts.Repair = opts.REPAIR_HOURS,
    slow_nodes: opts.SlowNodes = 0.0,
    slow_factor: opts.SlowFactor = opts.SLOW_FACTOR,
    allocation: opts.AllocationName = Allocation.BEST_FIT,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder to write the run to.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object of metrics.")] = False,
) -> None:
    """Replay a trace on a cluster under one policy, and show what came of it."""
    with told_as_errors():
        recorded = read_trace(trace, chosen_format(trace, format))
        cluster = opts.cluster_of(topology, nodes=nodes, gpus_per_node=gpus_per_node, racks=racks)
        options = RunOptions(
            policy=policy,
            seed=seed,
            network=opts.network_of(network, congestion, jitter),
            view=profiles,
            costs=opts.costs_of(costs, start_up, restore, checkpoint_every),
            faults=opts.faults_of(node_mtbf, repair, slow_nodes, slow_factor),
            allocation=allocation,
            history=opts.history_of(history),
            knobs=opts.knobs_of(settings or ()),
        )
        stage = staged(recorded, cluster, options)
        if out is None:
            outcome = replay(stage.scenario)
        else:
            with EventFile(out) as events:
                outcome = replay(stage.scenario, log=events.write)
        metrics = measured(outcome)
    facts = {**options.facts(), **stage.facts(recorded, cluster), **metrics.facts()}
    if out is not None:
        write_run(out, facts, outcome)
    if as_json:
        typer.echo(json.dumps(facts))
    else:
        _show(facts)


def _show(facts: Mapping[str, object]) -> None:
    table = Table(show_header=False, box=None)
    for name, value in _rows(facts):
        table.add_row(name, value)
    console().print(table)


def _rows(facts: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        yield name, f"{value:,.2f}" if isinstance(value, float) else str(value)
