"""`dally-sim compare`: policies side by side, over loads, congestion and seeds."""

import json
import os
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from simulator.commands import options as opts
from simulator.commands.failing import told_as_errors
from simulator.commands.showing import console
from simulator.commands.trace import FormatName, TraceFile, chosen_format
from simulator.commands.variants import (
    Baseline,
    PolicyNames,
    VariantTexts,
    baseline_of,
    chosen_variants,
)
from simulator.comparing import Cell, Comparison, Result, Variant, grid, results
from simulator.confidence import Bounded, mean, ratio
from simulator.errors import OptionError
from simulator.loading import Allocation
from simulator.profiles import ProfileView
from simulator.staging import RunOptions
from simulator.traces.formats import first_jobs, read_trace

Processes = Annotated[int | None, typer.Option(min=1, help="Runs at once; else one per core.")]

COLUMNS = (
    ("mean JCT s", "jct_mean_s"),
    ("p99 JCT s", "jct_p99_s"),
    ("makespan s", "makespan_s"),
    ("queueing s", "queueing_mean_s"),
    ("exposed GPU-s", "exposed_communication_gpu_s"),
    ("stops/job", "preemptions_per_job"),
)


def compare(
    trace: TraceFile,
    format: FormatName = None,
    topology: opts.TopologyFile = None,
    *,
    nodes: opts.Nodes = None,
    gpus_per_node: opts.GpusPerNode = None,
    racks: opts.Racks = 1,
    policies: PolicyNames = "",
    variants: VariantTexts = None,
    settings: opts.Settings = None,
    history: opts.History = None,
    baseline: Baseline = "",
    seeds: Annotated[int, typer.Option(min=1, help="So many seeds, from 0.")] = 3,
    load: Annotated[str, typer.Option(help="Loads, with commas; else the pace of the trace.")] = "",
    congestion: Annotated[str, typer.Option(help="Congestion factors, with commas.")] = "1",
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many jobs of the trace.")
    ] = None,
    network: opts.NetworkSwitch = opts.Switch.ON,
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
    processes: Processes = None,
    out: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder for a folder of each run.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line for each run.")
    ] = False,
) -> None:
    """Run policies side by side on the same jobs; means over seeds with 95 % bounds."""
    with told_as_errors():
        compared = chosen_variants(policies, variants or ())
        against = baseline_of(compared, baseline)
        cells = _cells(compared, seeds=seeds, load=load, congestion=congestion)
        recorded = first_jobs(read_trace(trace, chosen_format(trace, format)), jobs)
        options = RunOptions(
            policy=against.policy,
            network=opts.network_of(network, 1.0, jitter),
            view=profiles,
            costs=opts.costs_of(costs, start_up, restore, checkpoint_every),
            faults=opts.faults_of(node_mtbf, repair, slow_nodes, slow_factor),
            allocation=allocation,
            history=opts.history_of(history),
            knobs=opts.knobs_of(settings or ()),
        )
        cluster = opts.cluster_of(topology, nodes=nodes, gpus_per_node=gpus_per_node, racks=racks)
        comparison = Comparison(trace=recorded, topology=cluster, options=options, out=out)
        _show(_watched(comparison, cells, processes), against.name, as_json=as_json)


def _cells(variants: Sequence[Variant], *, seeds: int, load: str, congestion: str) -> list[Cell]:
    return grid(
        variants,
        seeds=range(seeds),
        loads=_numbers(load, "--load") or [None],
        congestions=_numbers(congestion, "--congestion") or [1.0],
    )


def _watched(comparison: Comparison, cells: Sequence[Cell], processes: int | None) -> list[Result]:
    """All runs in the order of their cells, with a bar while they go on."""
    found: dict[int, Result] = {}
    at_once = processes or os.cpu_count() or 1
    with _progress() as progress:
        task = progress.add_task("runs", total=len(cells))
        for place, result in results(comparison, cells, processes=at_once):
            found[place] = result
            progress.advance(task)
    return [found[place] for place in sorted(found)]


def _numbers(text: str, option: str) -> list[float]:
    try:
        numbers = [float(part) for part in text.split(",") if part.strip()]
    except ValueError:
        numbers = [-1.0]
    if any(not 0 < number < inf for number in numbers):
        raise OptionError(option, f"{text!r} is not a list of numbers above 0")
    return numbers


def _progress() -> Progress:
    """On stderr, and only where somebody watches."""
    watched = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=watched,
        disable=not watched.is_terminal,
    )


def _show(done: Sequence[Result], baseline: str, *, as_json: bool) -> None:
    if as_json:
        for result in done:
            typer.echo(json.dumps(result.facts))
        return
    shown = console()
    by_group: dict[tuple[float | None, float], dict[str, list[Result]]] = {}
    for result in done:
        cell = result.cell
        group = by_group.setdefault((cell.load, cell.congestion), {})
        group.setdefault(cell.variant.name, []).append(result)
    for (load, congestion), by_policy in by_group.items():
        pace = "the trace's own pace" if load is None else f"load {load:g}"
        title = f"{pace}, congestion {congestion:g}, {len(by_policy[baseline])} seeds"
        headers = ["policy", *(header for header, _ in COLUMNS), f"mean JCT / {baseline}"]
        table = Table(*headers, title=title, title_justify="left", box=None)
        for policy, runs in by_policy.items():
            table.add_row(policy, *_row(runs, by_policy[baseline]))
        shown.print(table)
    shown.print("Network profiles are drawn by the seed; ± is half of a 95 % interval.")


def _row(results: Sequence[Result], baseline: Sequence[Result]) -> list[str]:
    cells = [_rounded(mean([_number(r, name) for r in results])) for _, name in COLUMNS]
    against = ratio(
        [_number(r, "jct_mean_s") for r in results], [_number(r, "jct_mean_s") for r in baseline]
    )
    return [*cells, f"{against.value:.3f} ({against.low:.3f} to {against.high:.3f})"]


def _number(result: Result, name: str) -> float:
    return float(getattr(result.metrics, name))


def _rounded(value: Bounded) -> str:
    digits = 0 if abs(value.value) >= 100 else 3  # noqa: PLR2004 - small values need their decimals
    half = (value.high - value.low) / 2
    return f"{value.value:,.{digits}f}" + (f" ± {half:,.{digits}f}" if half else "")
