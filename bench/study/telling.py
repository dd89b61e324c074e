"""The report of a study: rows for machines, a page for people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

from bench.study.reading import CellRuns, headline_metrics
from bench.study.variants import OURS
from simulator.confidence import Bounded

HEADLINES = (
    ("exposed_communication_gpu_s", "nowait", False, 0.98),
    ("jct_mean_s", "fifo-consolidated", False, 0.83),
    ("jct_mean_s", "dally-consolidated", False, 0.83),
    ("makespan_s", "nowait", True, 0.69),
    ("makespan_s", "consolidated", True, 0.69),
    ("makespan_s", "dally-consolidated", True, 0.69),
)
"""Metric, the baseline that makes sense of it, batch cells or open ones, the paper's best gain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of the report."""

    name: str
    value: float
    unit: str
    reference: float | None = None


def figures(cells: Sequence[CellRuns]) -> Iterator[Figure]:
    """All figures: ratios cell by cell, then gains over all cells by metric and baseline."""
    for cell in cells:
        for metric in headline_metrics(cell):
            best = cell.best_baseline(metric)
            found = None if best is None else cell.against(best, metric)
            if found is not None:
                case = f"{cell.name},best={best}"
                yield Figure(name=f"ratio_{metric}[{case}]", value=found.value, unit="x")
                yield Figure(name=f"ratio_{metric}_low[{case}]", value=found.low, unit="x")
                yield Figure(name=f"ratio_{metric}_high[{case}]", value=found.high, unit="x")
    for metric, baseline, is_batch, paper in HEADLINES:
        ratios = [bounds.value for _, bounds in _ratios(cells, metric, baseline, is_batch=is_batch)]
        if ratios:
            case = f"against={baseline},cells={len(ratios)}"
            best_gain, mean_gain = 1 - min(ratios), 1 - _geometric(ratios)
            yield Figure(
                name=f"best_gain_{metric}[{case}]", value=best_gain, unit="share", reference=paper
            )
            yield Figure(name=f"mean_gain_{metric}[{case}]", value=mean_gain, unit="share")


def _ratios(
    cells: Sequence[CellRuns], metric: str, baseline: str, *, is_batch: bool
) -> Iterator[tuple[CellRuns, Bounded]]:
    for cell in cells:
        if cell.is_batch is is_batch and baseline in cell.by_variant:
            found = cell.against(baseline, metric)
            if found is not None and found.value > 0:
                yield cell, found


def _geometric(values: Sequence[float]) -> float:
    return exp(fmean(log(value) for value in values))


def page(cells: Sequence[CellRuns]) -> str:
    """The page in Markdown."""
    return "\n".join([*_head(cells), *_headlines(cells), *_cells(cells), *_ablations(cells)]) + "\n"


def _head(cells: Sequence[CellRuns]) -> Iterator[str]:
    seeds = max((len(runs) for cell in cells for runs in cell.by_variant.values()), default=0)
    yield "# The study\n"
    yield (
        f"{len(cells)} cells, up to {seeds} seeds each. Network profiles of jobs are drawn by the "
        "seed; no policy but `srtf`, `srsf` and `dally-informed` knows how long jobs run. Ratios "
        "are ours over the other on the odd seeds, with 95 % bounds; the best length-blind "
        "baseline of a cell is picked on the even ones. Under 1 ours is better.\n"
    )


def _headlines(cells: Sequence[CellRuns]) -> Iterator[str]:
    yield "## Beside the band of the paper\n"
    yield "| metric | against | cells | best gain | mean gain | the paper, up to |"
    yield "|---|---|---|---|---|---|"
    for metric, baseline, is_batch, paper in HEADLINES:
        ratios = [bounds.value for _, bounds in _ratios(cells, metric, baseline, is_batch=is_batch)]
        kind = "batch" if is_batch else "open"
        if ratios:
            yield (
                f"| {metric} | {baseline} | {len(ratios)} {kind} | {1 - min(ratios):.0%} "
                f"| {1 - _geometric(ratios):.0%} | {paper:.0%} |"
            )
    yield ""


def _cells(cells: Sequence[CellRuns]) -> Iterator[str]:
    yield "## Cell by cell, against the best length-blind baseline\n"
    yield "| cell | metric | best baseline | ratio | |"
    yield "|---|---|---|---|---|"
    for cell in cells:
        for metric in ("makespan_s", "jct_mean_s") if cell.is_batch else ("jct_mean_s",):
            best = cell.best_baseline(metric)
            found = None if best is None else cell.against(best, metric)
            if found is not None:
                mark = "**loses**" if found.low > 1 else ("gains" if found.high < 1 else "even")
                yield f"| {cell.name} | {metric} | {best} | {_words(found)} | {mark} |"
    yield ""


def _ablations(cells: Sequence[CellRuns]) -> Iterator[str]:
    yield "## One part off, one thing less known\n"
    yield "| cell | variant | mean JCT of ours over it |"
    yield "|---|---|---|"
    for cell in cells:
        for variant, runs in sorted(cell.by_variant.items()):
            if variant != OURS and any(run["is_ablation"] for run in runs.values()):
                found = cell.against(variant, "jct_mean_s")
                if found is not None:
                    yield f"| {cell.name} | {variant} | {_words(found)} |"
    yield ""


def _words(found: Bounded) -> str:
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"
