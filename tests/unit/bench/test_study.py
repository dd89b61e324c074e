"""The study: its plan, its resumable runs, and how they are read."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from bench.study.conditions import LOADS, NODE_MTBF, WORKLOADS, Cell, Trouble, drawn
from bench.study.packing import pack, unpack, unpacked
from bench.study.plan import (
    BATCH_JOBS,
    COMPANIONS,
    JOBS_MAX,
    PACES,
    Chapter,
    Size,
    StudyRun,
    runs,
)
from bench.study.plotting import plot
from bench.study.reading import BrokenRunError, CellRuns, cells_of, stored_runs
from bench.study.running import file_of, missing, other_size, run_all
from bench.study.telling import figures, page
from bench.study.variants import OURS, PAST_KNOWN, SUSPENDING, ablations, variants
from scheduler.domain.instants import SECOND, Duration, Instant
from simulator.replay import replay
from simulator.staging import staged
from simulator.topology_file import plain_topology
from simulator.traces.formats import Trace
from simulator.traces.job import TraceJob
from simulator.workload import load_of
from tests.source_tree import ROOT

NOTHING_KNOWN = {"knows_lengths": False, "is_ablation": False}

CELL = Cell(workload="itp06", load=0.9, congestion=4.0)


def a_trace_job(*, at_s: float, runs_s: float) -> TraceJob:
    return TraceJob(
        row=1,
        name="j",
        arrival=Instant(round(at_s * SECOND)),
        duration=Duration(round(runs_s * SECOND)),
        gpus=1,
    )


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


def test_with_a_past_those_that_learn_know_it_and_the_others_stay_as_they_are() -> None:
    cell = a_cell(
        {
            OURS: [9, 9],
            f"{OURS}{PAST_KNOWN}": [4, 4],
            "gittins-consolidated": [9, 9],
            f"gittins-consolidated{PAST_KNOWN}": [8, 8],
            "gittins-nowait": [1, 1],
            "dally-consolidated": [1, 1],
            "las": [6, 5],
        },
        pace="batch",
    )
    ablated = {
        name: {
            seed: {**run, "is_ablation": name.endswith(PAST_KNOWN)} for seed, run in runs_.items()
        }
        for name, runs_ in cell.by_variant.items()
    }
    cell = CellRuns(cell.key, ablated)
    # Without it nothing changes: what knows the past is no baseline there.
    assert cell.best_baseline("jct_mean_s") == "dally-consolidated"
    later = cell.with_past()
    assert later is not None
    assert later.name == "trace, batch with a past, congestion 4"
    assert later.is_batch
    assert later.baselines() == ["gittins-consolidated", "las"]
    assert later.best_baseline("jct_mean_s") == "las"
    found = later.against("las", "jct_mean_s")
    assert found is not None
    assert found.value == pytest.approx(4 / 5)
    told = page([cell])
    assert "### Batches on a cluster that has run for long" in told
    assert "| trace, batch with a past, congestion 4 | 2 | jct_mean_s | las | 0.800" in told
    assert PAST_KNOWN not in told
    missed = {figure.name: figure.value for figure in figures([cell]) if "missed" in figure.name}
    assert missed["cells_missed_jct_mean_s"] == 1
    assert missed["cells_missed_jct_mean_s[with a past]"] == 0


def test_a_cell_that_was_not_run_with_a_past_has_none() -> None:
    cell = a_cell({OURS: [2, 2], "las": [2, 2]}, pace="batch")
    assert cell.with_past() is None
    assert "run for long" not in page([cell])


def test_the_past_of_a_batch_is_the_rest_of_its_trace(tmp_path: Path, data_dir: Path) -> None:
    size = Size(seeds=1, jobs=200, batch_jobs=100, squares=1, traces=("muri",))
    size = replace(size, chapters=(Chapter.CELLS, Chapter.PAST), policies=(OURS,), paces=("batch",))
    planned = list(runs(size))
    assert {run.variant.name for run in planned} == {
        OURS,
        f"{OURS}{PAST_KNOWN}",
        f"gittins-consolidated{PAST_KNOWN}",
    }
    assert {run.cell.load for run in planned} == {None}
    list(run_all(planned, tmp_path, data_dir, processes=1))
    jct = {run["variant"]: run["jct_mean_s"] for run in stored_runs(tmp_path)}
    assert jct[OURS] != jct[f"{OURS}{PAST_KNOWN}"]
    assert {run["jobs"] for run in stored_runs(tmp_path)} == {100}


def test_seeds_that_ours_has_not_run_do_not_count() -> None:
    cell = a_cell({OURS: [1, 1], "las": [2, 2, 7, 7]})
    assert cell.values("las", "jct_mean_s", odd=True) == [2]


def test_a_batch_cell_is_read_by_its_makespan_too() -> None:
    cell = a_cell({OURS: [2, 2], "las": [2, 2]}, pace="batch")
    names = {figure.name.split("[")[0] for figure in figures([cell])}
    assert "ratio_makespan_s" in names
    open_names = {f.name.split("[")[0] for f in figures([a_cell({OURS: [1, 1], "las": [2, 2]})])}
    assert "ratio_makespan_s" not in open_names


def test_in_makespan_a_baseline_counts_only_while_its_completion_times_are_near() -> None:
    cell = a_cell({OURS: [10, 10], "near": [11, 11], "far": [13, 13]}, pace="batch")
    quick = {seed: {**run, "makespan_s": 1.0} for seed, run in cell.by_variant["far"].items()}
    cell = CellRuns(cell.key, {**cell.by_variant, "far": quick})
    assert cell.best_baseline("makespan_s") == "near"
    assert cell.best_baseline("exposed_communication_gpu_s") == "far"


def test_a_baseline_that_is_better_in_both_is_named() -> None:
    cell = a_cell({OURS: [3, 3], "both": [2, 2], "neither": [4, 4]}, pace="batch")
    assert [name for name, _, _ in cell.better_in_both()] == ["both"]


def test_only_seeds_that_both_ran_are_compared() -> None:
    cell = a_cell({OURS: [1, 2, 1, 9], "las": [1, 4]}, pace="batch")
    found = cell.against("las", "jct_mean_s")
    assert found is not None
    assert found.value == pytest.approx(0.5)


def test_every_part_of_the_study_can_be_run_alone() -> None:
    for chapter in Chapter:
        alone = list(runs(Size(chapters=(chapter,), traces=("itp06",), policies=(OURS,), seeds=1)))
        assert {run.cell.workload for run in alone} == {"itp06"}
        parts = {run.variant.name for run in alone if run.variant.is_ablation}
        assert (len(parts) > len(COMPANIONS)) is (chapter is Chapter.ABLATIONS)
        assert (parts == set(COMPANIONS)) is (chapter is Chapter.COMPANIONS)
        assert any(run.cell.trouble for run in alone) is (chapter is Chapter.TROUBLE)
        assert any(run.variant.knows_past for run in alone) is (chapter is Chapter.PAST)


def test_every_ablation_differs_from_ours_in_one_thing() -> None:
    plain = next(variant for variant in variants() if variant.name == OURS)
    for each in ablations():
        options = each.options(CELL, 0)
        if each.policy == OURS:
            assert options != plain.options(CELL, 0)
            facts = {"knobs", "view", "costs"}
            differing = [f for f in facts if getattr(each, f) != getattr(plain, f)]
            assert len(differing) == 1


@pytest.mark.parametrize("policy", sorted(SUSPENDING))
def test_gangs_of_policies_that_suspend_lose_no_work_by_a_stop(policy: str) -> None:
    """Stopped every few minutes, they would never end: checkpoints are ten minutes apart."""
    variant = next(each for each in variants() if each.name == policy)
    jobs = tuple(
        replace(a_trace_job(at_s=number, runs_s=3_600), gpus=8, row=number, name=f"j{number}")
        for number in range(1, 4)
    )
    trace = Trace(source="three", format="none", jobs=jobs, dropped={}, changed={})
    one_node = plain_topology(nodes=1, gpus_per_node=8, racks=1)
    outcome = replay(staged(trace, one_node, variant.options(CELL, 0)).scenario)
    assert sum(job.preemptions for job in outcome.jobs) > 0
    assert [job.lost for job in outcome.jobs] == [0, 0, 0]


@pytest.mark.parametrize(
    ("trouble", "arrivals_s"),
    [
        pytest.param(Trouble.NONE, [0, 100, 200, 300], id="evenly"),
        pytest.param(Trouble.BURSTS, [0, 10, 20, 30], id="one burst"),
        pytest.param(Trouble.FAILURES, [0, 100, 200, 300], id="failures move no arrival"),
    ],
)
def test_arrivals_of_a_cell(trouble: Trouble, arrivals_s: list[float]) -> None:
    jobs = [a_trace_job(at_s=100 * i, runs_s=75 * 0.9) for i in range(4)]
    arrived = replace(CELL, trouble=trouble).arrivals(jobs, gpus=1)
    assert [job.arrival / SECOND for job in arrived] == pytest.approx(arrivals_s)


def test_each_seed_draws_a_batch_of_its_own_in_the_order_of_the_trace() -> None:
    jobs = [a_trace_job(at_s=float(number), runs_s=60) for number in range(50)]
    batches = [drawn(jobs, count=20, seed=seed) for seed in range(5)]
    assert len(set(batches)) == 5
    assert batches[0] == drawn(jobs, count=20, seed=0)
    for batch in batches:
        assert len(set(batch)) == 20
        assert sorted(batch, key=lambda job: job.arrival) == list(batch)
    assert drawn(jobs, count=50, seed=1) == drawn(jobs, count=90, seed=2) == tuple(jobs)


def test_policies_meet_the_same_batch_under_a_seed_and_another_under_the_next(
    tmp_path: Path, data_dir: Path
) -> None:
    size = Size(seeds=2, jobs=60, batch_jobs=10, squares=1, paces=("batch",), traces=("muri",))
    size = replace(size, chapters=(Chapter.CELLS,), policies=("las", "nowait"))
    done = list(run_all(list(runs(size)), tmp_path, data_dir, processes=1))
    assert len(done) == 4
    found = {
        (run["variant"], run["seed"]): {gpus: told[0] for gpus, told in classes.items()}
        for run in stored_runs(tmp_path)
        if isinstance(classes := run["classes"], dict)
    }
    assert {run["jobs"] for run in stored_runs(tmp_path)} == {10}
    for seed in range(2):
        assert found["las", seed] == found["nowait", seed]
    assert found["las", 0] != found["las", 1]


def test_a_load_step_doubles_the_load_in_the_middle() -> None:
    jobs = [a_trace_job(at_s=100 * i, runs_s=60) for i in range(20)]
    stepped = replace(CELL, trouble=Trouble.LOAD_STEP).arrivals(jobs, gpus=1)
    assert load_of(stepped[:10], gpus=1) == pytest.approx(0.6)
    assert load_of(stepped[10:], gpus=1) == pytest.approx(1.2)
    assert [job.arrival for job in stepped] == sorted(job.arrival for job in stepped)


def test_nodes_fail_only_in_cells_with_failures() -> None:
    assert CELL.faults().node_mtbf is None
    assert replace(CELL, trouble=Trouble.FAILURES).faults().node_mtbf == NODE_MTBF


def test_the_page_says_where_ours_loses() -> None:
    told = page([a_cell({OURS: [3, 3, 3, 3], "las": [2, 2, 2, 2]})])
    assert "**misses**" in told
    assert "1.500 (1.500 to 1.500)" in told


def test_runs_are_named_apart_and_batches_are_short() -> None:
    planned = list(runs(Size()))
    assert len({run.name for run in planned}) == len(planned)
    assert {(run.jobs_max, run.batch_jobs) for run in planned} == {(JOBS_MAX, BATCH_JOBS)}
    assert {run.seed for run in planned} == set(range(20))


def test_parts_share_out_every_run_once() -> None:
    planned = list(runs(Size(quick=True)))
    parts = [planned[part::3] for part in range(3)]
    assert sorted(run.name for part in parts for run in part) == sorted(r.name for r in planned)


def test_a_run_that_is_there_is_not_run_again(tmp_path: Path) -> None:
    planned = list(runs(Size(quick=True)))
    done = file_of(planned[0], tmp_path)
    done.parent.mkdir(parents=True)
    facts = {
        "workload": "w",
        "load": None,
        "congestion": 1.0,
        "trouble": "",
        "variant": OURS,
        "seed": 0,
    }
    done.write_text(json.dumps(facts))
    assert missing(planned, tmp_path) == planned[1:]
    assert [cell.key for cell in cells_of(stored_runs(tmp_path))] == [("w", "batch", 1.0)]


def test_the_first_quarter_of_the_runs_meets_every_pair_of_conditions() -> None:
    size = Size(seeds=3, jobs=50, batch_jobs=20, policies=(OURS, "las"))
    size = replace(size, chapters=(Chapter.CELLS,))
    planned = list(runs(size))
    assert len({(run.cell, run.seed, run.variant.name) for run in planned}) == len(planned)
    assert len({run.cell for run in planned}) == len(WORKLOADS) * 4 * 4
    cells = {run.cell for run in planned[: len(planned) // 4]}
    assert len({(cell.workload, cell.load) for cell in cells}) == len(WORKLOADS) * 4
    assert len({(cell.workload, cell.congestion) for cell in cells}) == len(WORKLOADS) * 4
    assert len({(cell.load, cell.congestion) for cell in cells}) == 16
    assert {(run.jobs_max, run.batch_jobs) for run in planned} == {(50, 20)}


def test_paces_can_be_run_alone() -> None:
    cells = Size(seeds=1, chapters=(Chapter.CELLS,), policies=(OURS,))
    for pace, load in zip(PACES, (*LOADS, None), strict=True):
        alone = list(runs(replace(cells, paces=(pace,))))
        assert {run.cell.load for run in alone} == {load}
        assert len(alone) == len(WORKLOADS) * 4


def test_runs_of_another_size_do_not_go_into_one_folder(tmp_path: Path) -> None:
    small = Size(seeds=2, jobs=50)
    assert other_size(small, tmp_path) is None
    assert other_size(small, tmp_path) is None
    told = other_size(Size(), tmp_path)
    assert told is not None
    assert '"jobs": 50' in told


def test_packed_results_are_read_as_the_runs_they_were(tmp_path: Path) -> None:
    facts = {"workload": "itp06", "congestion": 4.0, "trouble": "", "jobs": 20}
    more = {"preemptions_per_job": 0.25, "fairness_p99": 3.0}
    runs_ = [
        {**a_run(10.0 * (seed + 1)), **facts, **more, "load": load, "variant": name, "seed": seed}
        for load in (0.9, None)
        for name in (OURS, "las")
        for seed in range(4)
    ]
    cells = cells_of(runs_)
    pack(cells, tmp_path, size="{}\n")
    again = cells_of(unpacked(tmp_path))
    assert page(again) == page(cells)
    assert list(figures(again)) == list(figures(cells))


def test_a_study_goes_on_from_packed_results(tmp_path: Path) -> None:
    size = Size(seeds=2, jobs=50, policies=(OURS, "las"), chapters=(Chapter.CELLS,), squares=1)
    packed, going_on = tmp_path / "packed", tmp_path / "study"
    planned = list(runs(size))
    done, left = planned[:7], planned[7:]
    assert other_size(size, tmp_path) is None
    cells = cells_of([stored_run_of(run) for run in done])
    pack(cells, packed, size=(tmp_path / "size.json").read_text())
    assert unpack(packed, going_on) == len(done)
    assert missing(planned, going_on) == left
    assert page(cells_of(stored_runs(going_on))) == page(cells)
    assert unpack(packed, going_on) == 0
    assert other_size(size, going_on) is None


def test_packed_results_of_another_size_do_not_go_into_a_folder(tmp_path: Path) -> None:
    other_size(Size(seeds=2, jobs=50), tmp_path / "study")
    pack([], tmp_path, size='{"jobs": 7}\n')
    with pytest.raises(BrokenRunError, match="another size"):
        unpack(tmp_path, tmp_path / "study")
    assert not (tmp_path / "study" / "runs").exists()


def stored_run_of(run: StudyRun) -> dict[str, object]:
    return {
        **a_run(10.0 + run.seed),
        "workload": run.cell.workload,
        "load": run.cell.load,
        "congestion": run.cell.congestion,
        "trouble": str(run.cell.trouble),
        "variant": run.variant.name,
        "seed": run.seed,
        "jobs": 20,
        "preemptions_per_job": 0.25,
        "fairness_p99": 3.0,
    }


PAGE = ROOT / "docs" / "study.md"
BEGIN, END = "<!-- report -->\n", "<!-- end of report -->"


def test_the_page_shows_what_the_report_prints_of_the_committed_results() -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    assert shown.strip() == page(cells_of(unpacked(ROOT / "bench" / "study"))).strip()


def test_the_page_shows_every_plot() -> None:
    text = PAGE.read_text(encoding="utf-8")
    plots = sorted(each.name for each in (PAGE.parent / "study").glob("*.svg"))
    assert plots == ["gains.svg", "jct.svg", "makespan.svg"]
    assert all(f"](study/{name})" in text for name in plots)


def test_plots_are_made_of_the_cells(tmp_path: Path) -> None:
    jct = {OURS: [2.0, 2.0], "las": [2.0, 3.0]}
    plot([a_cell(jct), a_cell(jct, pace="batch")], tmp_path)
    assert "trace, load 0.9, congestion 4 (las)" in (tmp_path / "jct.svg").read_text()
    assert "las" in (tmp_path / "gains.svg").read_text()


def test_a_run_that_is_half_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "half.json").write_text('{"workload": "ph')
    with pytest.raises(BrokenRunError, match="is broken: remove it"):
        list(stored_runs(tmp_path))
