"""Tails and fairness by demand: which runs count, and against whom."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bench.study.classes import by_class, class_table
from bench.study.packing import pack, unpacked
from bench.study.reading import CellRuns, cells_of
from bench.study.variants import OURS

Classes = Mapping[str, Sequence[float]]
LARGE = {"8": [20, 100.0, 200.0, 4.0]}


def a_run(jct_s: float, classes: Classes | None, seed: int, variant: str) -> dict[str, object]:
    kept = {} if classes is None else {"classes": classes}
    return {
        "workload": "itp06",
        "load": 0.9,
        "congestion": 4.0,
        "trouble": "",
        "knows_lengths": False,
        "is_ablation": False,
        "jobs": 20,
        "variant": variant,
        "seed": seed,
        "weeks": [[20, 20 * jct_s]],
        "jct_mean_s": jct_s,
        "jct_p95_s": jct_s,
        "jct_p99_s": jct_s,
        "queueing_mean_s": 1.0,
        "exposed_communication_gpu_s": 1.0,
        "makespan_s": jct_s,
        "preemptions_per_job": 0.0,
        "fairness_p99": 1.0,
        **kept,
    }


def a_cell(ours: Classes | None, theirs: Classes | None) -> list[CellRuns]:
    """`las` is the best baseline, `nowait` is not."""
    found = []
    for seed in range(2):
        found.append(a_run(10.0, ours, seed, OURS))
        found.append(a_run(10.0, theirs, seed, "las"))
        found.append(a_run(99.0, {"8": [20, 1.0, 1.0, 1.0]}, seed, "nowait"))
    return cells_of(found)


def test_a_class_is_measured_against_the_best_baseline_of_the_cell() -> None:
    (row,) = by_class(a_cell({"8": [20, 50.0, 400.0, 4.0]}, LARGE))
    assert (row.gpus, row.cells) == (8, 1)
    assert row.ratios == pytest.approx((0.5, 2.0, 1.0))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        pytest.param({"8": [9, 50.0, 50.0, 1.0]}, {"8": [9, 9.0, 9.0, 1.0]}, id="too few jobs"),
        pytest.param(LARGE, None, id="the baseline tells of no classes"),
        pytest.param(None, LARGE, id="ours tells of none"),
    ],
)
def test_what_says_nothing_is_left_out(ours: Classes | None, theirs: Classes | None) -> None:
    assert by_class(a_cell(ours, theirs)) == []
    assert list(class_table(a_cell(ours, theirs))) == []


def test_classes_outlive_packing(tmp_path: Path) -> None:
    cells = a_cell({"8": [20, 50.0, 400.0, 4.0], "1": [30, 1.0, 2.0, 3.0]}, LARGE)
    pack(cells, tmp_path, size="{}\n")
    assert by_class(cells_of(unpacked(tmp_path))) == by_class(cells)
    shown = list(class_table(cells))
    assert any(line.startswith("| 5 to 8 | 1 | 0.500 | 2.000 | 1.000 |") for line in shown)
