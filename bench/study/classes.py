"""Who pays: tails of completion times and finish-time fairness by demand, ours over the baseline
that has the best mean completion time in the cell."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from bench.study.reading import CellRuns, Stored
from bench.study.variants import OURS

JOBS_MIN = 10
"""A class of fewer jobs in a run has no tail to speak of."""

TITLES = ("p95 JCT", "p99 JCT", "p99 of fairness")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassRatios:
    """One class of demand over all cells."""

    gpus: int
    """The most of the class: a power of two."""
    cells: int
    ratios: tuple[float, ...]
    """Geometric means of ours over the baseline, one for each title."""


def by_class(cells: Sequence[CellRuns]) -> list[ClassRatios]:
    """All classes, the smallest demand first; odd seeds of untroubled cells."""
    logs: dict[int, list[list[float]]] = {}
    for cell in cells:
        best = None if cell.is_troubled else cell.best_baseline("jct_mean_s")
        if best is None:
            continue
        for gpus, ratios in _of_cell(cell, best).items():
            logs.setdefault(gpus, []).append(ratios)
    return [
        ClassRatios(
            gpus=gpus,
            cells=len(found),
            ratios=tuple(exp(fmean(column)) for column in zip(*found, strict=True)),
        )
        for gpus, found in sorted(logs.items())
    ]


def class_table(cells: Sequence[CellRuns]) -> Iterator[str]:
    """The same in Markdown; nothing where no run tells of classes."""
    rows = by_class(cells)
    if not rows:
        return
    yield "### Tails and fairness by demand\n"
    yield (
        "Ours over the baseline with the best mean completion time, geometric means over the cells "
        f"whose runs tell of classes; classes of {JOBS_MIN} jobs and more. Fairness: completion "
        "time over that in a fair share of the cluster.\n"
    )
    yield f"| GPUs | cells | {' | '.join(TITLES)} |"
    yield "|---" * (len(TITLES) + 2) + "|"
    for row in rows:
        least = row.gpus // 2 + 1
        demand = f"{row.gpus}" if least >= row.gpus else f"{least} to {row.gpus}"
        told = " | ".join(f"{ratio:.3f}" for ratio in row.ratios)
        yield f"| {demand} | {row.cells} | {told} |"
    yield ""


def _of_cell(cell: CellRuns, baseline: str) -> dict[int, list[float]]:
    """Logarithms of the ratios by class, means over the seeds of which both tell."""
    found: dict[int, list[list[float]]] = {}
    theirs = cell.by_variant[baseline]
    for seed, run in cell.by_variant[OURS].items():
        if seed % 2 == 0 or seed not in theirs:
            continue
        old = classes_of(theirs[seed])
        for gpus, (jobs, *values) in classes_of(run).items():
            if jobs >= JOBS_MIN and gpus in old:
                pairs = zip(values, old[gpus][1:], strict=True)
                found.setdefault(int(gpus), []).append([log(new / was) for new, was in pairs])
    return {
        gpus: [fmean(column) for column in zip(*logs, strict=True)] for gpus, logs in found.items()
    }


def classes_of(run: Stored) -> Mapping[str, Sequence[float]]:
    """Jobs, p95 and p99 of completion time and p99 of fairness by demand; empty if not kept."""
    classes = run.get("classes", {})
    assert isinstance(classes, Mapping)
    return classes
