"""Many runs side by side: loads x congestion x seeds x variants of policies, in parallel processes.

A run is a pure function of its cell, so which process does it plays no part in what comes out.
"""

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path

from simulator.fabric import NetworkOptions
from simulator.garbage import collect_seldom
from simulator.metrics import Metrics, measured
from simulator.replay import replay
from simulator.run_folder import EventFile, write_run
from simulator.staging import RunOptions, staged
from simulator.topology_file import Topology
from simulator.traces.formats import Trace
from simulator.workload import at_load


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A policy, as it is or with knobs of its own."""

    name: str
    policy: str
    knobs: Mapping[str, object] = field(default_factory=dict)
    """By field of PolicyKnobs; over those that all runs have in common."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What differs between the runs of a comparison."""

    load: float | None
    """None: as recorded."""
    congestion: float
    seed: int
    variant: Variant

    @property
    def name(self) -> str:
        """Of its run folder."""
        load = "recorded" if self.load is None else f"{self.load:g}"
        return f"{self.variant.name}-load-{load}-congestion-{self.congestion:g}-seed-{self.seed}"

    def facts(self) -> dict[str, object]:
        """What makes it differ, by name."""
        return {
            "variant": self.variant.name,
            "load": self.load,
            "congestion": self.congestion,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One run."""

    cell: Cell
    facts: Mapping[str, object]
    """Options and metrics by name."""
    metrics: Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What all runs have in common."""

    trace: Trace
    topology: Topology
    options: RunOptions
    """Policy, seed, congestion and some knobs are each cell's own."""
    out: Path | None = None
    """Folder that gets the folder of each run."""


def grid(
    variants: Sequence[Variant],
    *,
    seeds: Sequence[int],
    loads: Sequence[float | None],
    congestions: Sequence[float],
) -> list[Cell]:
    """All cells, those that are compared with each other side by side."""
    return [
        Cell(load=load, congestion=congestion, seed=seed, variant=variant)
        for load, congestion, seed, variant in product(loads, congestions, seeds, variants)
    ]


def results(
    comparison: Comparison, cells: Sequence[Cell], *, processes: int
) -> Iterator[tuple[int, Result]]:
    """Each run with its place among the cells, as it is done."""
    if processes <= 1 or len(cells) == 1:
        yield from ((place, run_cell(comparison, cell)) for place, cell in enumerate(cells))
        return
    with ProcessPoolExecutor(
        max_workers=min(processes, len(cells)),
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(comparison,),
    ) as pool:
        places = {pool.submit(_run_here, cell): place for place, cell in enumerate(cells)}
        try:
            for done in as_completed(places):
                yield places[done], done.result()
        finally:
            for waiting in places:
                waiting.cancel()


def run_cell(comparison: Comparison, cell: Cell) -> Result:
    """One run."""
    trace, options = comparison.trace, comparison.options
    if cell.load is not None:
        jobs = at_load(trace.jobs, gpus=comparison.topology.gpus, load=cell.load)
        trace = replace(trace, jobs=jobs)
    network = options.network
    if network is not None:
        network = NetworkOptions(congestion=cell.congestion, jitter=network.jitter)
    options = replace(
        options,
        policy=cell.variant.policy,
        knobs={**options.knobs, **cell.variant.knobs},
        seed=cell.seed,
        network=network,
    )
    stage = staged(trace, comparison.topology, options)
    folder = None if comparison.out is None else comparison.out / cell.name
    if folder is None:
        outcome = replay(stage.scenario)
    else:
        with EventFile(folder) as events:
            outcome = replay(stage.scenario, log=events.write)
    metrics = measured(outcome)
    facts = {
        **options.facts(),
        **cell.facts(),
        **stage.facts(trace, comparison.topology),
        **metrics.facts(),
    }
    if folder is not None:
        write_run(folder, facts, outcome)
    return Result(cell=cell, facts=facts, metrics=metrics)


_here: list[Comparison] = []
"""The comparison this process works on; filled once, when it begins."""


def _begin(comparison: Comparison) -> None:
    collect_seldom()
    _here.append(comparison)


def _run_here(cell: Cell) -> Result:
    return run_cell(_here[0], cell)
