"""Errors of the network model on measured points: held-out sizes, systems and models, or all."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bench.network_classes import Constants, fit_all, predicted_s
from bench.network_clusters import predicted_step_s, preset_name
from bench.network_pairs import Pair, agreeing, measured_steps
from bench.network_rows import CollectiveRow
from bench.network_step_fit import STARTS, fit_cluster, pair_steps_s
from bench.network_steps import ComputeTimes, StepRow, step_rows
from scheduler.network.fabric import Fabric
from scheduler.network.iteration import is_tie
from scheduler.network.presets import PRESETS

SIZE_FOLDS = 3

ROWS_PER_FIT = 120
"""A search looks at no more rows than this: every second, third, ... where there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """Predicted against measured."""

    case: str
    """System or cluster."""
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Relative error."""
        return abs(self.predicted / self.measured - 1)


def collective_misses(rows: Iterable[CollectiveRow], constants: Constants) -> list[Miss]:
    """Every row against these constants."""
    return [
        Miss(case=row.family, predicted=predicted_s(row, constants), measured=row.time_s)
        for row in rows
    ]


def held_out_sizes(rows: Sequence[CollectiveRow]) -> list[Miss]:
    """Every third size of every system predicted from the others, three times over."""
    sizes: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        sizes[row.system].append(row.size)
    fold_of = {
        (system, size): index % SIZE_FOLDS
        for system, found in sizes.items()
        for index, size in enumerate(sorted(set(found)))
    }
    misses: list[Miss] = []
    for fold in range(SIZE_FOLDS):
        kept = [row for row in rows if fold_of[row.system, row.size] != fold]
        left = [row for row in rows if fold_of[row.system, row.size] == fold]
        misses += collective_misses(left, fit_all(kept))
    return misses


def held_out_systems(rows: Sequence[CollectiveRow]) -> list[Miss]:
    """Every system predicted from the others of its class or, failing that, its wider class."""
    misses: list[Miss] = []
    for family in sorted({row.family for row in rows}):
        kept = [row for row in rows if row.family != family]
        left = [row for row in rows if row.family == family]
        misses += collective_misses(left, fit_all(kept))
    return misses


def measured_rows(path: Path, pairs: Sequence[Pair], times: ComputeTimes) -> list[StepRow]:
    """The step times of the profiles and those behind the pairs, each once."""
    rows, _ = step_rows(path, times)
    unique: dict[tuple[str, str, tuple[int, ...], float, float], StepRow] = {}
    for row in (*rows, *measured_steps(pairs)):
        key = (row.model, row.gpu, row.ranks_by_node, row.batch, row.step_s)
        unique.setdefault(key, row)
    return [row for row in unique.values() if row.compute_s > 0]


def ratio_pairs(pairs: Iterable[Pair]) -> list[Pair]:
    """Pairs whose ratio a fit may look at: the job's own compute time is known."""
    return [pair for pair in pairs if pair.job.has_own_time]


FabricOf = Callable[[str, str], Fabric]
"""The fabric of a preset for a model that had no part in its fit."""


def committed_fabric(preset: str, _: str) -> Fabric:
    """The preset as it is committed, whatever the model."""
    return PRESETS[preset]


def leaving_one_out(rows: Sequence[StepRow], pairs: Sequence[Pair], *, steps: int) -> FabricOf:
    """Fabrics fitted without any row of the model that they are asked for."""
    ratios = ratio_pairs(pairs)

    @cache
    def fabric_of(preset: str, model: str) -> Fabric:
        if preset not in STARTS:
            return PRESETS[preset]
        own = [row for row in rows if preset_name(row) == preset and row.model != model]
        others = [p for p in ratios if preset_name(p.job) == preset and p.job.model != model]
        stride = -(-len(own) // ROWS_PER_FIT) or 1
        return fit_cluster(preset, own[::stride], others, steps=steps)[0]

    return fabric_of


def step_misses(rows: Iterable[StepRow], fabric_of: FabricOf) -> list[Miss]:
    """Every step time."""
    return [
        Miss(
            case=row.cluster,
            predicted=predicted_step_s(row, fabric_of(preset_name(row), row.model)),
            measured=row.step_s,
        )
        for row in rows
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """One pair put in order."""

    pair: Pair
    predicted: float
    """Predicted slowdown of the other placement."""
    score: float
    """1 right, 0 wrong, 0.5 a predicted tie."""

    @property
    def case(self) -> str:
        """Cluster."""
        return self.pair.job.cluster


def ranked(pairs: Iterable[Pair], fabric_of: FabricOf) -> list[Ranked]:
    """The pairs that count, put in order."""
    result = []
    for pair in agreeing(pairs):
        fabric = fabric_of(preset_name(pair.job), pair.job.model)
        one, other = pair_steps_s(pair, fabric)
        is_right = (other > one) == (pair.slowdown > 1)
        score = 0.5 if is_tie(one, other) else float(is_right)
        result.append(Ranked(pair=pair, predicted=other / one, score=score))
    return result


def by_case(misses: Iterable[Miss]) -> Mapping[str, list[float]]:
    """Errors of every system."""
    cases: dict[str, list[float]] = defaultdict(list)
    for miss in misses:
        cases[miss.case].append(miss.error)
    return dict(sorted(cases.items()))
