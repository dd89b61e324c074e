"""What the study runs, in which order: cells, the variants that meet in each, and the seeds.

In a cell every variant meets the same jobs with the same profiles under each seed. Even seeds are
the tuning half: which baseline is best is decided there, and all ratios are those of the odd ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import product

from bench.study.conditions import CONGESTIONS, LOADS, WORKLOADS, Cell, Trouble
from bench.study.variants import OURS, Variant, ablations, knowing_variants, variants
from scheduler.policies.registry import POLICIES

SEEDS = 20
JOBS_MAX = 5_000
BATCH_JOBS = 600
SQUARES = len(CONGESTIONS)
CENTRAL = ("itp06", "philly")
"""Workloads whose cells at load 0.9 and congestion 4 meet the ablations."""

COMPANIONS = (
    f"{OURS}[nobody stopped for the order]",
    f"{OURS}[everybody waits]",
    f"{OURS}[links count as free]",
)
"""Of the ablations, those that meet ours in every cell."""

SIZE_FILE = "size.json"
"""Tells of what size the runs of a folder are."""

QUICK_JOBS = 120
QUICK_BATCH_JOBS = 100
QUICK_SEEDS = 4


class Chapter(StrEnum):
    """A part of the study that can be run alone."""

    CELLS = "cells"
    """All policies over traces, loads and congestion."""
    COMPANIONS = "companions"
    """Ours with one of a few parts off, in every cell."""
    ABLATIONS = "ablations"
    TROUBLE = "trouble"
    """Node failures, bursts and a load step."""
    PAST = "past"
    """Batches on a cluster that knows how long the other jobs of the trace ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRun:
    """One run of the study."""

    cell: Cell
    variant: Variant
    seed: int
    jobs_max: int
    """Of the trace, from its beginning."""
    batch_jobs: int
    """Of these, drawn by the seed, if all come at once."""

    @property
    def name(self) -> str:
        """Of its file."""
        return run_name(self.cell, self.variant.name, self.seed)


def pace_of(load: float | None) -> str:
    """How jobs come, as names of runs and the command line have it."""
    return "batch" if load is None else f"{load:g}"


PACES = tuple(pace_of(load) for load in (*LOADS, None))


def run_name(cell: Cell, variant: str, seed: int) -> str:
    """Of the run of a variant in a cell under a seed."""
    parts = [cell.workload, pace_of(cell.load), *([cell.trouble] if cell.trouble else [])]
    told = variant.replace("[", "--").replace("]", "")
    return "-".join([*parts, f"c{cell.congestion:g}", told, f"s{seed}"]).replace(" ", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of the study is run."""

    quick: bool = False
    seeds: int = SEEDS
    jobs: int = JOBS_MAX
    batch_jobs: int = BATCH_JOBS
    squares: int = SQUARES
    paces: tuple[str, ...] = PACES
    chapters: tuple[Chapter, ...] = tuple(Chapter)
    traces: tuple[str, ...] = tuple(workload.name for workload in WORKLOADS)
    policies: tuple[str, ...] = tuple(sorted(POLICIES))

    def facts(self) -> dict[str, object]:
        """What must be equal for runs to be read together, as a folder of runs keeps it."""
        return {"quick": self.quick, "jobs": self.jobs, "batch_jobs_drawn": self.batch_jobs}


def runs(size: Size) -> Iterator[StudyRun]:
    """All runs, each once: square by square, in a square seed by seed, cell by cell.

    Whoever stops early has met each load on each trace, and each congestion with either.
    """
    planned = _quick_runs(size) if size.quick else _full_runs(size)
    # A central cell meets ours with the other policies and again beside its ablations.
    yield from {run.name: run for run in planned}.values()


def _full_runs(size: Size) -> Iterator[StudyRun]:
    chosen = [variant for variant in variants() if variant.name in size.policies]
    met = list(chosen) if Chapter.CELLS in size.chapters else []
    if Chapter.COMPANIONS in size.chapters:
        met += [variant for variant in ablations() if variant.name in COMPANIONS]
    if met:
        for square in range(size.squares):
            yield from _product(_square(square), met, size)
    if Chapter.ABLATIONS in size.chapters:
        central = [Cell(workload=name, load=0.9, congestion=4.0) for name in CENTRAL]
        ours = [variant for variant in variants() if variant.name == OURS]
        yield from _product(central, [*ours, *ablations()], size)
    if Chapter.PAST in size.chapters:
        for square in range(size.squares):
            batches = [cell for cell in _square(square) if cell.load is None]
            yield from _product(batches, knowing_variants(), size)
    if Chapter.TROUBLE in size.chapters:
        yield from _product(_troubled(CENTRAL), chosen, size)


def _quick_runs(size: Size) -> Iterator[StudyRun]:
    """One trace, few jobs, every kind of cell and every ablation."""
    small = replace(size, seeds=QUICK_SEEDS, jobs=QUICK_JOBS, batch_jobs=QUICK_BATCH_JOBS)
    cells = [Cell(workload="itp06", load=load, congestion=4.0) for load in (0.9, None)]
    names = ("nowait", "fifo", "las", "dally-consolidated", OURS)
    chosen = [variant for variant in variants() if variant.name in names]
    yield from _product(cells, chosen, small)
    once = replace(small, seeds=2)
    yield from _product(cells[:1], ablations(), once)
    few = [variant for variant in chosen if variant.name in ("las", OURS)]
    yield from _product(_troubled(("itp06",)), few, once)


def _square(number: int) -> list[Cell]:
    """One of the Latin squares that all cells fall into: each pair of trace, pace and congestion
    occurs in it."""
    return [
        Cell(
            workload=workload.name,
            load=load,
            congestion=CONGESTIONS[(trace + pace + number) % len(CONGESTIONS)],
        )
        for trace, workload in enumerate(WORKLOADS)
        for pace, load in enumerate((*LOADS, None))
    ]


def _troubled(names: Sequence[str]) -> list[Cell]:
    return [
        Cell(workload=name, load=0.9, congestion=4.0, trouble=trouble)
        for name in names
        for trouble in Trouble
        if trouble
    ]


def _product(cells: list[Cell], chosen: Sequence[Variant], size: Size) -> Iterator[StudyRun]:
    for seed, cell, variant in product(range(size.seeds), cells, chosen):
        if cell.workload in size.traces and pace_of(cell.load) in size.paces:
            yield StudyRun(
                cell=cell,
                variant=variant,
                seed=seed,
                jobs_max=size.jobs,
                batch_jobs=size.batch_jobs,
            )
