"""The report of a study: rows for machines, tables for people."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, isfinite, log
from statistics import fmean

from bench.study.classes import by_class, class_table
from bench.study.reading import CellRuns, headline_metrics, number
from bench.study.variants import OURS, PAST_KNOWN
from simulator.confidence import Bounded

HEADLINES = (
    ("exposed_communication_gpu_s", "nowait", False, 0.98),
    ("jct_mean_s", "fifo-consolidated", False, 0.83),
    ("makespan_s", "nowait", True, 0.69),
    ("makespan_s", "consolidated", True, 0.69),
)
"""Metric, the baseline that makes sense of it, batch cells or open ones, the paper's best gain."""

GAINS = (
    ("mean JCT", "jct_mean_s", False),
    ("p95 JCT", "jct_p95_s", False),
    ("p99 JCT", "jct_p99_s", False),
    ("queueing", "queueing_mean_s", False),
    ("exposed communication", "exposed_communication_gpu_s", False),
    ("batch: makespan", "makespan_s", True),
    ("batch: mean JCT", "jct_mean_s", True),
)

CLASS_TITLES = ("jct_p95_s", "jct_p99_s", "fairness_p99")

QUEUEING_LEAST_S = 60.0
"""In cells where jobs queue for less under either, a gain says nothing."""

BOUND = 1.02
"""Ours misses a cell if the lower bound of its ratio to the best baseline is above this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One figure of the report."""

    name: str
    value: float
    unit: str
    reference: float | None = None


def figures(cells: Sequence[CellRuns]) -> Iterator[Figure]:
    """All figures: ratios cell by cell, then gains over all cells by metric and baseline."""
    later = with_past(cells)
    yield from _ratios([*cells, *later])
    for metric, baseline, is_batch, paper in HEADLINES:
        ratios = gain_ratios(cells, metric, baseline, is_batch=is_batch)
        if ratios:
            case = f"against={baseline},cells={len(ratios)}"
            best_gain, mean_gain = 1 - min(ratios), 1 - geometric(ratios)
            yield Figure(
                name=f"best_gain_{metric}[{case}]", value=best_gain, unit="share", reference=paper
            )
            yield Figure(name=f"mean_gain_{metric}[{case}]", value=mean_gain, unit="share")
    for row in by_class(cells):
        for title, ratio in zip(CLASS_TITLES, row.ratios, strict=True):
            case = f"gpus={row.gpus},cells={row.cells}"
            yield Figure(name=f"class_{title}[{case}]", value=ratio, unit="x")
    yield from _misses(cells, "")
    if later:
        yield from _misses(later, "[with a past]")


def _ratios(cells: Sequence[CellRuns]) -> Iterator[Figure]:
    for cell in cells:
        for metric in headline_metrics(cell):
            best = cell.best_baseline(metric)
            found = None if best is None else cell.against(best, metric)
            if found is not None:
                case = f"{cell.name},best={best}"
                yield Figure(name=f"ratio_{metric}[{case}]", value=found.value, unit="x")
                yield Figure(name=f"ratio_{metric}_low[{case}]", value=found.low, unit="x")
                yield Figure(name=f"ratio_{metric}_high[{case}]", value=found.high, unit="x")


def _misses(cells: Sequence[CellRuns], case: str) -> Iterator[Figure]:
    for metric in ("jct_mean_s", "makespan_s"):
        count = sum(found.low > BOUND for _, _, found in judged(cells, metric))
        yield Figure(name=f"cells_missed_{metric}{case}", value=count, unit="cells")


def with_past(cells: Sequence[CellRuns]) -> list[CellRuns]:
    """Those that were run on a cluster that knows its past, too."""
    return [found for cell in cells if (found := cell.with_past()) is not None]


def judged(cells: Sequence[CellRuns], metric: str) -> Iterator[tuple[CellRuns, str, Bounded]]:
    """Cells in which the metric says something, with the best baseline and ours over it."""
    for cell in cells:
        best = cell.best_baseline(metric) if metric in headline_metrics(cell) else None
        found = None if best is None else cell.against(best, metric)
        if best is not None and found is not None:
            yield cell, best, found


def gain_ratios(
    cells: Sequence[CellRuns], metric: str, baseline: str, *, is_batch: bool
) -> list[float]:
    """Ours over the baseline, in cells of the kind where both have some of it."""
    found = []
    for cell in cells:
        if cell.is_batch is not is_batch or cell.is_troubled or baseline not in cell.by_variant:
            continue
        bounds = cell.against(baseline, metric)
        least = QUEUEING_LEAST_S if metric == "queueing_mean_s" else 0.0
        values = [
            *cell.values(baseline, metric, odd=True),
            *(number(run, metric) for seed, run in cell.by_variant[OURS].items() if seed % 2),
        ]
        if bounds is not None and isfinite(bounds.value) and min(values) > least:
            found.append(bounds.value)
    return found


def geometric(values: Sequence[float]) -> float:
    """Their geometric mean."""
    return exp(fmean(log(value) for value in values))


def page(cells: Sequence[CellRuns]) -> str:
    """The tables in Markdown."""
    parts = (
        _head,
        _headlines,
        _gains,
        _cells,
        _both,
        _later,
        class_table,
        _troubled,
        _ablations,
    )
    return "\n".join(line for part in parts for line in part(cells)) + "\n"


def _head(cells: Sequence[CellRuns]) -> Iterator[str]:
    runs = sum(len(runs) for cell in cells for runs in cell.by_variant.values())
    jobs = sorted(
        {
            round(number(run, "jobs"))
            for cell in cells
            for by_seed in cell.by_variant.values()
            for run in by_seed.values()
            if "jobs" in run
        }
    )
    seeds = sorted({len(cell.by_variant[OURS]) for cell in cells})
    yield (
        f"{len(cells)} cells, {runs} runs; {_range(seeds)} seeds of ours a cell, "
        f"{_range(jobs)} jobs a run.\n"
    )


def _range(values: Sequence[int]) -> str:
    if not values:
        return "no"
    return f"{values[0]}" if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def _headlines(cells: Sequence[CellRuns]) -> Iterator[str]:
    yield "### Beside the band of the paper\n"
    yield "| metric | against | cells | best gain | mean gain | the paper, up to |"
    yield "|---|---|---|---|---|---|"
    for metric, baseline, is_batch, paper in HEADLINES:
        ratios = gain_ratios(cells, metric, baseline, is_batch=is_batch)
        kind = "batch" if is_batch else "open"
        if ratios:
            yield (
                f"| {metric} | {baseline} | {len(ratios)} {kind} | {1 - min(ratios):.0%} "
                f"| {1 - geometric(ratios):.0%} | {paper:.0%} |"
            )
    yield ""


def _gains(cells: Sequence[CellRuns]) -> Iterator[str]:
    yield "### Gains against each baseline: geometric mean (best) over cells\n"
    yield f"| baseline | {' | '.join(title for title, _, _ in GAINS)} |"
    yield "|---" * (len(GAINS) + 1) + "|"
    names = sorted({name for cell in cells if not cell.is_troubled for name in cell.baselines()})
    for name in names:
        told = []
        for _, metric, is_batch in GAINS:
            ratios = gain_ratios(cells, metric, name, is_batch=is_batch)
            told.append(f"{1 - geometric(ratios):.0%} ({1 - min(ratios):.0%})" if ratios else "-")
        yield f"| {name} | {' | '.join(told)} |"
    yield ""


def _cells(cells: Sequence[CellRuns]) -> Iterator[str]:
    yield "### Cell by cell, against the best length-blind baseline\n"
    yield "| cell | seeds | metric | best baseline | ratio | |"
    yield "|---|---|---|---|---|---|"
    yield from _rows([cell for cell in cells if not cell.is_troubled])
    yield ""


def _rows(cells: Sequence[CellRuns]) -> Iterator[str]:
    for metric in ("jct_mean_s", "makespan_s"):
        for cell, best, found in judged(cells, metric):
            seeds, told = cell.seeds_against(best), f"{_words(found)} | {_verdict(found)}"
            yield f"| {cell.name} | {seeds} | {metric} | {best} | {told} |"


def _later(cells: Sequence[CellRuns]) -> Iterator[str]:
    later = with_past(cells)
    if not later:
        return
    yield "### Batches on a cluster that has run for long\n"
    yield (
        "The other jobs of the trace have ended there before: who learns lengths knows those, "
        "ours and its rival alike.\n"
    )
    yield "| cell | seeds | metric | best baseline | ratio | |"
    yield "|---|---|---|---|---|---|"
    yield from _rows(later)
    yield ""


def _verdict(found: Bounded) -> str:
    if found.low > BOUND:
        return "**misses**"
    if found.low > 1:
        return "loses a little"
    return "gains" if found.high < 1 else "even"


def _both(cells: Sequence[CellRuns]) -> Iterator[str]:
    yield "### Baselines with both the better mean JCT and the better makespan in a batch cell\n"
    told = [
        f"* {cell.name}: {name}, {_words(jct)} in mean JCT and {_words(makespan)} in makespan"
        for cell in cells
        if cell.is_batch
        for name, jct, makespan in cell.better_in_both()
    ]
    yield from told or ["None."]
    yield ""


def _troubled(cells: Sequence[CellRuns]) -> Iterator[str]:
    troubled = [cell for cell in cells if cell.is_troubled]
    if not troubled:
        return
    yield "### With node failures, bursts and a load step\n"
    yield "| cell | best baseline | mean JCT of ours over it | |"
    yield "|---|---|---|---|"
    for cell, best, found in judged(troubled, "jct_mean_s"):
        yield f"| {cell.name} | {best} | {_words(found)} | {_verdict(found)} |"
    yield ""


def _ablations(cells: Sequence[CellRuns]) -> Iterator[str]:
    rows = [
        f"| {cell.name} | {variant} | {_words(found)} |"
        for cell in cells
        for variant, runs in sorted(cell.by_variant.items())
        if variant != OURS and not variant.endswith(PAST_KNOWN)
        if any(run["is_ablation"] for run in runs.values())
        if (found := cell.against(variant, "jct_mean_s")) is not None
    ]
    if not rows:
        return
    yield "### One part off, one thing less known\n"
    yield f"Over 1: `{OURS}` as it is takes longer than the variant.\n"
    yield "| cell | variant | mean JCT of ours over it |"
    yield "|---|---|---|"
    yield from rows
    yield ""


def _words(found: Bounded) -> str:
    return f"{found.value:.3f} ({found.low:.3f} to {found.high:.3f})"
