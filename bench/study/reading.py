"""Reading the runs of a study: paired ratios with 95 % bounds, cell by cell and over all.

The best length-blind baseline of a cell is the one with the least geometric mean over even seeds;
all ratios are those of the odd seeds. Bounds are by bootstrap over seeds and, for mean completion
times of open arrivals, over blocks of whole weeks inside each seed.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path
from random import Random
from statistics import fmean

from bench.study.conditions import Cell, Trouble
from bench.study.variants import LEARNS, OURS, PAST_KNOWN
from simulator.confidence import LEVEL, RESAMPLES, SEED, Bounded, ratio

Stored = Mapping[str, object]
CellKey = tuple[str, str, float]
"""Workload, pace, congestion."""

VARIANTS_OF_OURS = "dally"
"""Policies whose names begin so are not baselines, but for those that stand for older ideas."""

RIVALS_OF_OURS = frozenset({"dally-nowait", "dally-consolidated"})
"""Named after us, and the two extremes everybody else schedules by: rivals."""

MAKESPAN_JCT_MAX = 1.2
"""A baseline is a rival in makespan if its mean completion time is at most so many times ours."""


@dataclass(frozen=True, slots=True)
class CellRuns:
    """All runs of one cell, by variant and seed."""

    key: CellKey
    by_variant: Mapping[str, Mapping[int, Stored]]

    @property
    def is_batch(self) -> bool:
        """Whether all jobs are there at once."""
        return self.key[1].startswith("batch")

    @property
    def is_troubled(self) -> bool:
        """Whether something else is amiss than load and congestion."""
        return "," in self.key[1]

    @property
    def name(self) -> str:
        """As reports show it."""
        return f"{self.key[0]}, {self.key[1]}, congestion {self.key[2]:g}"

    def baselines(self) -> list[str]:
        """Length-blind variants that ours is measured against, by name."""
        return [
            name
            for name, runs in sorted(self.by_variant.items())
            if not any(run["knows_lengths"] or run["is_ablation"] for run in runs.values())
            and (not name.startswith(VARIANTS_OF_OURS) or name in RIVALS_OF_OURS)
        ]

    def values(self, variant: str, metric: str, *, odd: bool) -> list[float]:
        """One number a seed, of seeds that ours ran too."""
        runs = self.by_variant[variant]
        return [number(runs[seed], metric) for seed in self._seeds(variant, odd=odd)]

    def best_baseline(self, metric: str) -> str | None:
        """The one with the least geometric mean on the tuning half; None if there is none.

        In makespan those do not count whose mean completion time is far from ours: a long tail of
        small jobs that wait for ever makes any makespan short.
        """
        means = {
            name: _geometric(tuned)
            for name in self.baselines()
            if (tuned := self.values(name, metric, odd=False)) and self._counts(name, metric)
        }
        return min(means, key=lambda name: (means[name], name), default=None)

    def against(self, variant: str, metric: str) -> Bounded | None:
        """Ours over the variant, on the odd seeds that both ran."""
        old = self.values(variant, metric, odd=True)
        if not old:
            return None
        if metric == "jct_mean_s" and not self.is_batch:
            return self._by_weeks(variant)
        ours = self.by_variant[OURS]
        new = [number(ours[seed], metric) for seed in self._seeds(variant, odd=True)]
        return ratio(new, old)

    def seeds_against(self, variant: str) -> int:
        """How many seeds both ran, of either half."""
        return sum(len(self._seeds(variant, odd=odd)) for odd in (False, True))

    def better_in_both(self) -> list[tuple[str, Bounded, Bounded]]:
        """Baselines with the better mean completion time and the better makespan, by name."""
        found = []
        for name in self.baselines():
            jct, makespan = self.against(name, "jct_mean_s"), self.against(name, "makespan_s")
            if jct is not None and makespan is not None and min(jct.value, makespan.value) > 1:
                found.append((name, jct, makespan))
        return found

    def with_past(self) -> "CellRuns | None":
        """The same on a cluster that has run for long, if that was run: who learns lengths knows
        those of other jobs; who learns none does what it does anyhow."""
        if f"{OURS}{PAST_KNOWN}" not in self.by_variant:
            return None
        knowing = {
            name.removesuffix(PAST_KNOWN): {
                seed: {**run, "is_ablation": False} for seed, run in runs.items()
            }
            for name, runs in self.by_variant.items()
            if name.endswith(PAST_KNOWN)
        }
        blind = {
            name: runs
            for name, runs in self.by_variant.items()
            if not name.startswith(OURS) and LEARNS not in name
        }
        workload, pace, congestion = self.key
        return CellRuns((workload, f"{pace} with a past", congestion), {**blind, **knowing})

    def _counts(self, name: str, metric: str) -> bool:
        if metric != "makespan_s":
            return True
        theirs = _geometric(self.values(name, "jct_mean_s", odd=False))
        ours = [
            number(self.by_variant[OURS][s], "jct_mean_s") for s in self._seeds(name, odd=False)
        ]
        return theirs <= MAKESPAN_JCT_MAX * _geometric(ours)

    def _seeds(self, variant: str, *, odd: bool) -> list[int]:
        both = self.by_variant[variant].keys() & self.by_variant[OURS].keys()
        return sorted(seed for seed in both if (seed % 2 == 1) == odd)

    def _by_weeks(self, variant: str) -> Bounded:
        """The ratio of mean completion times, whole weeks drawn inside drawn seeds."""
        ours, others = self.by_variant[OURS], self.by_variant[variant]
        pairs = [
            list(zip(_weeks(ours[seed]), _weeks(others[seed]), strict=True))
            for seed in self._seeds(variant, odd=True)
        ]
        rng = Random(SEED)
        drawn = sorted(
            _ratio([rng.choices(weeks, k=len(weeks)) for weeks in rng.choices(pairs, k=len(pairs))])
            for _ in range(RESAMPLES)
        )
        tail = (1 - LEVEL) / 2
        low, high = drawn[int(tail * RESAMPLES)], drawn[int((1 - tail) * RESAMPLES) - 1]
        return Bounded(_ratio(pairs), low, high)


def _geometric(values: Sequence[float]) -> float:
    return exp(fmean(log(max(value, 1e-9)) for value in values))


Week = tuple[float, float]
"""Jobs, and their summed completion time."""


def _weeks(run: Stored) -> list[Week]:
    weeks = run["weeks"]
    assert isinstance(weeks, list)
    return [(week[0], week[1]) for week in weeks]


def _ratio(pairs: Sequence[Sequence[tuple[Week, Week]]]) -> float:
    """Geometric mean over seeds of summed time / summed time: both ran the same jobs."""
    logs = [
        log(sum(new[1] for new, _ in weeks) / sum(old[1] for _, old in weeks)) for weeks in pairs
    ]
    return exp(fmean(logs))


def number(run: Stored, metric: str) -> float:
    """A metric of a run."""
    value = run[metric]
    assert isinstance(value, int | float), metric
    return float(value)


def cell_of(run: Stored) -> Cell:
    """Where it was run."""
    return Cell(
        workload=str(run["workload"]),
        load=None if run["load"] is None else number(run, "load"),
        congestion=number(run, "congestion"),
        trouble=Trouble(str(run["trouble"])),
    )


def cells_of(runs: Iterable[Stored]) -> list[CellRuns]:
    """All cells in which ours has run, in the order of their names."""
    cells: dict[CellKey, dict[str, dict[int, Stored]]] = {}
    for run in runs:
        cell = cell_of(run)
        key = (cell.workload, cell.pace, cell.congestion)
        variants = cells.setdefault(key, {})
        variants.setdefault(str(run["variant"]), {})[round(number(run, "seed"))] = run
    return [CellRuns(key, cells[key]) for key in sorted(cells) if OURS in cells[key]]


def stored_runs(folder: Path) -> Iterator[Stored]:
    """What `run` has written to a folder."""
    for file in sorted((folder / "runs").glob("*.json")):
        try:
            yield json.loads(file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise BrokenRunError(f"{file} is broken: remove it, and run its part again") from error


class BrokenRunError(Exception):
    """A file of the folder holds no run."""


def headline_metrics(cell: CellRuns) -> Iterator[str]:
    """What says something in a cell: makespan where all jobs are there at once."""
    if cell.is_batch:
        yield "makespan_s"
    yield from ("jct_mean_s", "jct_p95_s", "jct_p99_s", "queueing_mean_s")
    yield "exposed_communication_gpu_s"
