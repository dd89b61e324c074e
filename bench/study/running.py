"""Runs of the study to one file each; a run whose file is there is not run again."""

import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path

from bench.study.conditions import WORKLOADS, drawn
from bench.study.plan import SIZE_FILE, Size, StudyRun
from scheduler.domain.instants import DAY, SECOND
from simulator.garbage import collect_seldom
from simulator.metrics import finish_time_fairness, measured, percentile
from simulator.outcome import RunOutcome
from simulator.replay import replay
from simulator.staging import staged
from simulator.traces.formats import Trace, first_jobs, read_trace

WEEK = 7 * DAY


def missing(runs: Sequence[StudyRun], folder: Path) -> list[StudyRun]:
    """Runs whose file is not in the folder."""
    return [run for run in runs if not file_of(run, folder).exists()]


def other_size(size: Size, folder: Path) -> str | None:
    """What the runs in the folder were made with, if that is not this; else it is noted there."""
    facts = json.dumps(size.facts(), sort_keys=True)
    noted = folder / SIZE_FILE
    if noted.exists():
        known = noted.read_text(encoding="utf-8").strip()
        return None if known == facts else known
    folder.mkdir(parents=True, exist_ok=True)
    noted.write_text(facts + "\n", encoding="utf-8")
    return None


def file_of(run: StudyRun, folder: Path) -> Path:
    """Where a run is written."""
    return folder / "runs" / f"{run.name}.json"


def run_all(
    runs: Sequence[StudyRun], folder: Path, data: Path, *, processes: int
) -> Iterator[StudyRun]:
    """Run and write them; yields each as it is done."""
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    if processes <= 1:
        for run in runs:
            yield run_one(run, folder, data)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = [pool.submit(run_one, run, folder, data) for run in runs]
        for done in as_completed(waiting):
            yield done.result()


def run_one(run: StudyRun, folder: Path, data: Path) -> StudyRun:
    """One run."""
    collect_seldom()
    workload = next(each for each in WORKLOADS if each.name == run.cell.workload)
    trace = first_jobs(_trace(data / "traces" / workload.file), run.jobs_max)
    fitting = tuple(job for job in trace.jobs if job.gpus <= workload.cluster.gpus)
    jobs = fitting
    if run.cell.load is None:
        jobs = drawn(fitting, count=run.batch_jobs, seed=run.seed)
    options = run.variant.options(run.cell, run.seed)
    if run.variant.knows_past:
        met = {job.row for job in jobs}
        options = replace(options, history=tuple(job for job in fitting if job.row not in met))
    jobs = run.cell.arrivals(jobs, gpus=workload.cluster.gpus)
    stage = staged(replace(trace, jobs=jobs), workload.cluster, options)
    outcome = replay(stage.scenario)
    facts = {
        "workload": run.cell.workload,
        "load": run.cell.load,
        "congestion": run.cell.congestion,
        "trouble": str(run.cell.trouble),
        "variant": run.variant.name,
        "knows_lengths": run.variant.knows_lengths,
        "is_ablation": run.variant.is_ablation,
        "seed": run.seed,
        **measured(outcome).facts(),
        "weeks": _by_week(outcome),
        "classes": _by_demand(outcome),
    }
    # Whoever is stopped in between leaves no half a file.
    file = file_of(run, folder)
    partial = file.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(facts) + "\n", encoding="utf-8")
    partial.replace(file)
    return run


@lru_cache(maxsize=len(WORKLOADS))
def _trace(file: Path) -> Trace:
    return read_trace(file)


def _by_week(outcome: RunOutcome) -> list[list[float]]:
    """Jobs and their summed completion time by week of arrival: the blocks of the bootstrap."""
    weeks: dict[int, list[float]] = {}
    for job in outcome.jobs:
        week = weeks.setdefault(job.arrival // WEEK, [0, 0.0])
        week[0] += 1
        week[1] += job.jct / SECOND
    return [weeks[week] for week in sorted(weeks)]


def _by_demand(outcome: RunOutcome) -> dict[str, list[float]]:
    """By GPUs rounded up to a power of two: jobs, p95 and p99 of JCT in seconds, p99 of finish-time
    fairness."""
    classes: dict[int, list[tuple[float, float]]] = {}
    rhos = finish_time_fairness(outcome.jobs, outcome.steps)
    for job, rho in zip(outcome.jobs, rhos, strict=True):
        bucket = 1 << (job.gpus - 1).bit_length()
        classes.setdefault(bucket, []).append((job.jct / SECOND, rho))
    found: dict[str, list[float]] = {}
    for bucket, of_class in sorted(classes.items()):
        jcts = sorted(jct for jct, _ in of_class)
        fair = sorted(rho for _, rho in of_class)
        found[str(bucket)] = [
            len(of_class),
            percentile(jcts, 95),
            percentile(jcts, 99),
            percentile(fair, 99),
        ]
    return found
