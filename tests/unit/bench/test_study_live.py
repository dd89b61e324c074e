"""A real run beside its replay: what is submitted, how it is replayed, how both are compared."""

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from api.job_files.schemas import JobFile
from api.job_files.spec_mapping import to_spec
from bench.reporting import Options, Report
from bench.study.live.comparing import most_apart, rank_correlation, report
from bench.study.live.page import table
from bench.study.live.record import (
    BrokenRecordError,
    Foretold,
    Life,
    LiveRun,
    Record,
    Replay,
    read,
    write,
)
from bench.study.live.replaying import recorded
from bench.study.live.showing import add_options, ended_in_order, show_live
from bench.study.live.worker import pairs, tier_of
from bench.study.live.workload import FULL, LOAD, WORKER, PacedJob, drawn, job_file, paced, question
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.queue import DEFAULT_QUEUE
from tests.builders import a_snapshot
from tests.source_tree import ROOT

STEP_S = {"node": 0.25, "rack": 0.5, "cluster": 1.0}
RACKS = {"r1-n0": "r1", "r1-n1": "r1", "r2-n0": "r2"}


def a_paced_job(name: str, *, workers: int, steps: int) -> PacedJob:
    return PacedJob(name=name, workers=workers, model="resnet50", steps=steps, step_s=STEP_S)


def a_life(name: str, *, submitted_s: float = 0, wait_s: float = 0, end_s: float = 10) -> Life:
    start_s = submitted_s + wait_s
    return Life(
        name=name,
        submitted_s=submitted_s,
        first_start_s=start_s,
        end_s=end_s,
        held_s=end_s - start_s,
        stepping_s=end_s - start_s - 1,
        attempts=1,
        tiers=("node",),
        nodes=("r1-n0",),
    )


def a_run(jobs: Sequence[PacedJob], lives: Sequence[Life]) -> LiveRun:
    return LiveRun(
        seed=1,
        machine="here",
        cluster=a_snapshot("r1: 4 4\nr2: 4 4", knobs=PolicyKnobs(policy="nowait")),
        jobs=tuple(jobs),
        ids=tuple(f"id-{number}" for number in range(len(jobs))),
        lives=tuple(lives),
        starting_s=(0.75,),
        ending_s=(0.25,),
        apart_s=(0.5,),
        foretold=(),
    )


def figures_of(record: Record) -> dict[str, tuple[float | None, float | None]]:
    rows = Report(Options(quick=False, json=False, data=Path()))
    report(record, rows)
    return {row.name: (row.value, row.reference) for row in rows.rows}


def test_jobs_would_keep_the_slots_busy_until_the_last_one_comes() -> None:
    shapes = drawn(FULL, slots=16, seed=3)
    work = sum(shape.workers * shape.length_s for shape in shapes)
    assert work / (16 * shapes[-1].arrival_s) == pytest.approx(LOAD)
    assert [shape.arrival_s for shape in shapes] == sorted(shape.arrival_s for shape in shapes)
    assert shapes[0].arrival_s == 0
    assert drawn(FULL, slots=16, seed=3) == shapes
    assert drawn(FULL, slots=16, seed=4) != shapes


def test_a_job_has_as_many_steps_as_fit_its_length_at_its_closest_tier() -> None:
    shape = replace(drawn(FULL, slots=16, seed=3)[0], length_s=10.1)
    assert paced(shape, STEP_S).steps == 40
    assert paced(replace(shape, length_s=0.01), STEP_S).steps == 1


def test_what_is_submitted_is_a_job_file() -> None:
    job = a_paced_job("gang", workers=3, steps=40)
    file = JobFile.model_validate(job_file(job, RACKS))
    spec = to_spec(file.spec, labels={}, default_queue=DEFAULT_QUEUE)
    assert (spec.gpus, spec.iterations, spec.checkpoint.is_declared) == (3, 40, True)
    shape = drawn(FULL, slots=16, seed=3)[0]
    assert JobFile.model_validate(question(shape)).spec.workers == shape.workers


@pytest.mark.parametrize(
    ("nodes", "tier"),
    [
        pytest.param(["r1-n0", "r1-n0"], "node", id="one node"),
        pytest.param(["r1-n0", "r1-n1"], "rack", id="two of a rack"),
        pytest.param(["r1-n1", "r2-n0"], "cluster", id="of two racks"),
    ],
)
def test_a_worker_knows_how_far_apart_its_gang_is(nodes: list[str], tier: str) -> None:
    assert tier_of(nodes, pairs("r1-n0=r1,r1-n1=r1,r2-n0=r2")) == tier


def test_a_worker_goes_on_from_the_steps_that_were_saved(tmp_path: Path) -> None:
    (tmp_path / "steps").write_text("38", encoding="ascii")
    variables = {
        "DALLY_CHECKPOINT_DIR": str(tmp_path),
        "DALLY_RANK": "0",
        "DALLY_WORKERS": "1",
        "DALLY_ATTEMPT": "1",
        "DALLY_NODE": "r1-n0",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "runtime")]),
    }
    command = [sys.executable, *WORKER[1:], "40", "r1-n0=r1", "node=0.01"]
    done = subprocess.run(  # noqa: S603 - our own program
        command, env=variables, capture_output=True, check=True, text=True
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["what"], line["step"]) for line in told] == [("began", 38), ("ended", 40)]
    assert told[1]["at_s"] - told[0]["at_s"] >= 0.02


def test_a_replay_has_the_steps_of_the_workers_and_the_overheads_of_the_run() -> None:
    """Ten seconds on one node; eight workers over a rack take ten more, after it."""
    jobs = [a_paced_job("one", workers=4, steps=40), a_paced_job("two", workers=8, steps=20)]
    lives = [a_life("one"), a_life("two", submitted_s=1)]
    nothing, costs, ends = recorded(a_run(jobs, lives)).replays
    one, two = nothing.lives
    assert (one.first_start_s, one.end_s, one.tiers) == (0, 10, ("node",))
    assert (two.first_start_s, two.end_s, two.tiers) == (1, 11, ("rack",))
    assert (one.stepping_s, one.overhead_s) == (10, 0)
    assert [life.end_s for life in costs.lives] == [11, 12]
    assert [life.overhead_s for life in ends.lives] == [1, 1]


@pytest.mark.parametrize(
    ("apart_s", "starts_s"),
    [
        pytest.param(0.5, 14.25, id="within a second all come together"),
        pytest.param(3.0, 12.25, id="a second after the others, where rank 0 takes longer"),
    ],
)
def test_slots_of_a_gang_whose_ends_are_apart(apart_s: float, starts_s: float) -> None:
    """The others end at 14.25 less what rank 0 takes longer; one of them makes room for three."""
    jobs = [a_paced_job(f"gang-{n}", workers=4, steps=40) for n in range(4)]
    jobs.append(a_paced_job("next", workers=3, steps=40))
    lives = [a_life(job.name, submitted_s=float(n)) for n, job in enumerate(jobs)]
    run = replace(a_run(jobs, lives), starting_s=(4.0,), apart_s=(apart_s,))
    _, costs, ends = recorded(run).replays
    assert costs.lives[-1].first_start_s == 14.25
    assert ends.lives[-1].first_start_s == starts_s


def test_figures_tell_what_a_job_differs_by_and_why() -> None:
    jobs = [a_paced_job(name, workers=1, steps=4) for name in ("a", "b", "c")]
    live = [a_life("a", end_s=11), a_life("b", submitted_s=1, wait_s=4, end_s=20), a_life("c")]
    live[2] = replace(live[2], nodes=("r1-n1",))
    told = [a_life("a"), a_life("b", submitted_s=1, wait_s=1, end_s=20), a_life("c")]
    run = replace(
        a_run(jobs, live), foretold=(Foretold(name="b", is_running=False, at_s=5, ends_s=17),)
    )
    replay = Replay(told="costs", lives=tuple(told))
    found = figures_of(Record(run=run, replays=(replay,)))
    case = "policy=nowait,told=costs"
    assert found[f"jct_mean[{case}]"] == (40 / 3, 13)
    assert found[f"makespan[{case}]"] == (20, 20)
    assert found[f"jct_deviation_max[{case}]"] == (1, None)
    assert found[f"same_nodes[{case}]"] == (2 / 3, None)
    assert found[f"later_mean[{case},part=waiting]"] == (1, None)
    assert found[f"later_mean[{case},part=stepping]"][0] == pytest.approx(-2 / 3)
    assert found["foretold_end_late_mean[policy=nowait,of=waiting]"] == (-3, None)
    assert found["foretold_end_off_mean[policy=nowait,of=waiting]"] == (3, 15)
    assert found["ends_apart_max[policy=nowait]"] == (0.5, None)
    assert most_apart(run, replay)[0].startswith(
        "a (1 slots): +1.0 s = waiting +0.0, stepping +1.0"
    )


def test_so_many_jobs_are_placed_alike_before_one_is_not() -> None:
    jobs = [a_paced_job(name, workers=1, steps=4) for name in ("a", "b", "c")]
    live = [a_life(job.name, submitted_s=float(n)) for n, job in enumerate(jobs)]
    other = [live[0], replace(live[1], nodes=("r2-n0",)), live[2]]
    replay = Replay(told="costs", lives=tuple(other))
    found = figures_of(Record(run=a_run(jobs, live), replays=(replay,)))
    assert found["same_nodes_from_the_start[policy=nowait,told=costs]"] == (1, None)


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param([1, 2, 3], 1, id="the same order"),
        pytest.param([30, 20, 10], -1, id="the reverse"),
        pytest.param([5, 5, 5], None, id="no order"),
        pytest.param([1, 1, 2], 0.866, id="ties share a rank"),
    ],
)
def test_order_of_starts(other: list[float], expected: float | None) -> None:
    found = rank_correlation([1, 2, 3], other)
    assert found == (None if expected is None else pytest.approx(expected, abs=1e-3))


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    jobs = [a_paced_job("one", workers=4, steps=40)]
    record = recorded(a_run(jobs, [a_life("one")]))
    assert read(tmp_path / "nowait.json") is None
    write(record, tmp_path / "nowait.json")
    assert read(tmp_path / "nowait.json") == record
    (tmp_path / "nowait.json").write_text("{}")
    with pytest.raises(BrokenRecordError, match="is no record"):
        read(tmp_path / "nowait.json")


KEPT = ROOT / "bench" / "study" / "live"
POLICIES = ("dally", "las-consolidated")
PAGE = ROOT / "docs" / "study.md"
BEGIN, END = "<!-- live -->\n", "<!-- end of live -->"


def kept(policy: str) -> Record:
    record = read(KEPT / f"{policy}.json")
    assert record is not None
    return record


def test_the_page_shows_the_kept_runs() -> None:
    rows = Report(Options(quick=False, json=False, data=Path()))
    for policy in POLICIES:
        report(kept(policy), rows)
    text = PAGE.read_text(encoding="utf-8")
    shown = text[text.index(BEGIN) + len(BEGIN) : text.index(END)]
    assert shown.strip() == table(rows.rows, POLICIES)


@pytest.mark.parametrize("policy", POLICIES)
def test_the_simulator_still_tells_what_the_real_run_came_to(policy: str) -> None:
    record = kept(policy)
    assert len(record.run.jobs) == FULL.jobs
    for replay in recorded(record.run).replays:
        anew = figures_of(Record(run=record.run, replays=(replay,)))
        for name in ("jct_mean", "makespan"):
            live, simulated = anew[f"{name}[policy={policy},told={replay.told}]"]
            assert simulated == pytest.approx(live, rel=0.1)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        pytest.param(["--json"], 0, "jct_mean[policy=dally,told=costs]", id="as rows"),
        pytest.param(["--markdown"], 0, "| mean JCT, s |", id="as the page's table"),
        pytest.param(["--again"], 0, "jobs that differ most", id="replayed anew"),
        pytest.param(["--seed", "7"], 2, "36 gangs of seed 1 under dally", id="another seed"),
        pytest.param(["--quick"], 2, "holds another run", id="another size"),
    ],
)
def test_kept_runs_are_shown_and_not_run_again(
    arguments: list[str],
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = argparse.ArgumentParser()
    add_options(parser, lambda text: text.split(","))
    given = parser.parse_args(["--out", str(KEPT), *arguments])
    assert show_live(given) == code
    out, err = capsys.readouterr()
    assert said in (err if code else out)


def test_a_folder_that_can_not_be_written_is_refused_before_the_run(tmp_path: Path) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("", encoding="utf-8")
    parser = argparse.ArgumentParser()
    add_options(parser, lambda text: text.split(","))
    with pytest.raises(FileExistsError):
        show_live(parser.parse_args(["--quick", "--out", str(in_the_way)]))


def test_a_run_that_is_told_to_end_is_ended_as_by_ctrl_c() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), ended_in_order():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
