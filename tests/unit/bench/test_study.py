"""The study: its plan, its resumable runs, and how they are read."""

import json
from pathlib import Path

import pytest

from bench.study.plan import BATCH_JOBS, OURS, WORKLOADS, Size, runs
from bench.study.reading import CellRuns, read_cells
from bench.study.running import file_of, missing, other_size
from bench.study.telling import figures, page

NOTHING_KNOWN = {"knows_lengths": False, "is_ablation": False}


def a_run(jct_s: float, **more: object) -> dict[str, object]:
    weeks = [[10, 10 * jct_s], [10, 10 * jct_s]]
    return {
        **NOTHING_KNOWN,
        "weeks": weeks,
        "jct_mean_s": jct_s,
        "jct_p95_s": jct_s,
        "jct_p99_s": jct_s,
        "queueing_mean_s": 1.0,
        "exposed_communication_gpu_s": 1.0,
        "makespan_s": jct_s,
        **more,
    }


def a_cell(jct_s: dict[str, list[float]], *, pace: str = "load 0.9") -> CellRuns:
    return CellRuns(
        ("trace", pace, 4.0),
        {name: {seed: a_run(v) for seed, v in enumerate(values)} for name, values in jct_s.items()},
    )


def test_the_best_baseline_is_picked_on_the_tuning_half_alone() -> None:
    # `early` is best on even seeds, `late` on the odd ones.
    cell = a_cell({OURS: [1, 1, 1, 1], "early": [2, 9, 2, 9], "late": [9, 2, 9, 2]})
    assert cell.best_baseline("jct_mean_s") == "early"
    found = cell.against("early", "jct_mean_s")
    assert found is not None
    assert found.value == pytest.approx(1 / 9)


def test_policies_that_know_lengths_are_no_baseline() -> None:
    cell = a_cell({OURS: [2, 2], "srtf": [1, 1], "las": [3, 3]})
    knowing = {
        seed: {**run, "knows_lengths": True} for seed, run in cell.by_variant["srtf"].items()
    }
    cell = CellRuns(cell.key, {**cell.by_variant, "srtf": knowing})
    assert cell.best_baseline("jct_mean_s") == "las"


def test_variants_of_ours_are_no_baseline_but_the_two_extremes_are() -> None:
    cell = a_cell({OURS: [2, 2], "dally-classic": [1, 1], "dally-nowait": [3, 3]})
    assert cell.baselines() == ["dally-nowait"]


def test_seeds_that_ours_has_not_run_do_not_count() -> None:
    cell = a_cell({OURS: [1, 1], "las": [2, 2, 7, 7]})
    assert cell.values("las", "jct_mean_s", odd=True) == [2]


def test_a_batch_cell_is_read_by_its_makespan_too() -> None:
    cell = a_cell({OURS: [1, 1], "las": [2, 2]}, pace="batch")
    names = {figure.name.split("[")[0] for figure in figures([cell])}
    assert "ratio_makespan_s" in names
    open_names = {f.name.split("[")[0] for f in figures([a_cell({OURS: [1, 1], "las": [2, 2]})])}
    assert "ratio_makespan_s" not in open_names


def test_the_page_says_where_ours_loses() -> None:
    told = page([a_cell({OURS: [3, 3, 3, 3], "las": [2, 2, 2, 2]})])
    assert "**loses**" in told
    assert "1.500 (1.500 to 1.500)" in told


def test_runs_are_named_apart_and_batches_are_short() -> None:
    planned = list(runs(Size()))
    assert len({run.name for run in planned}) == len(planned)
    assert {run.jobs_max for run in planned if run.cell.load is None} == {BATCH_JOBS}
    assert {run.seed for run in planned} == set(range(20))


def test_parts_share_out_every_run_once() -> None:
    planned = list(runs(Size(quick=True)))
    parts = [planned[part::3] for part in range(3)]
    assert sorted(run.name for part in parts for run in part) == sorted(r.name for r in planned)


def test_a_run_that_is_there_is_not_run_again(tmp_path: Path) -> None:
    planned = list(runs(Size(quick=True)))
    done = file_of(planned[0], tmp_path)
    done.parent.mkdir(parents=True)
    facts = {"workload": "w", "load": None, "congestion": 1.0, "variant": OURS, "seed": 0}
    done.write_text(json.dumps(facts))
    assert missing(planned, tmp_path) == planned[1:]
    assert [cell.key for cell in read_cells(tmp_path)] == [("w", "batch", 1.0)]


def test_the_first_quarter_of_the_runs_meets_every_pair_of_conditions() -> None:
    size = Size(seeds=3, jobs=50, batch_jobs=20, policies=(OURS, "las"))
    planned = [run for run in runs(size) if not run.variant.is_ablation]
    assert len({(run.cell, run.seed, run.variant.name) for run in planned}) == len(planned)
    assert len({run.cell for run in planned}) == len(WORKLOADS) * 4 * 4
    cells = {run.cell for run in planned[: len(planned) // 4]}
    assert len({(cell.workload, cell.load) for cell in cells}) == len(WORKLOADS) * 4
    assert len({(cell.workload, cell.congestion) for cell in cells}) == len(WORKLOADS) * 4
    assert len({(cell.load, cell.congestion) for cell in cells}) == 16
    assert {run.jobs_max for run in planned} == {50, 20}


def test_runs_of_another_size_do_not_go_into_one_folder(tmp_path: Path) -> None:
    small = Size(seeds=2, jobs=50)
    assert other_size(small, tmp_path) is None
    assert other_size(small, tmp_path) is None
    told = other_size(Size(), tmp_path)
    assert told is not None
    assert '"jobs": 50' in told
