"""Parsers of trace formats: what a row becomes, what is dropped, and what an error names."""

from io import StringIO
from pathlib import Path

import pytest

from scheduler.domain.instants import MINUTE, SECOND, Duration
from simulator.errors import TraceError
from simulator.traces.formats import format_named, format_of, read_trace
from simulator.traces.job import Changed, Dropped, Parsed, TraceJob

SAMPLES = Path(__file__).parent / "samples"


def parsed(format: str, text: str) -> list[Parsed]:
    return list(format_named(format).parse(StringIO(text), "t"))


def the_job(format: str, text: str) -> TraceJob:
    (only,) = parsed(format, text)
    assert isinstance(only, TraceJob)
    return only


@pytest.mark.parametrize(
    ("sample", "format", "jobs", "dropped", "changed"),
    [
        pytest.param(
            "philly.json",
            "philly-json",
            17,
            {"NeverStarted": 1, "NoRunTime": 1, "StillRunning": 1},
            {"AttemptWithoutTimes": 1},
            id="philly",
        ),
        pytest.param("helios.csv", "helios", 18, {"NoGpus": 1, "NoRunTime": 1}, {}, id="helios"),
        pytest.param("acme_seren.csv", "acme", 17, {"NoGpus": 2, "NoRunTime": 1}, {}, id="seren"),
        pytest.param(
            "acme_kalos.csv", "acme", 17, {"NeverStarted": 1, "NoGpus": 2}, {}, id="kalos"
        ),
        pytest.param(
            "pai_task_table.csv",
            "pai",
            13,
            {"NeverStarted": 1, "NoGpus": 1, "StillRunning": 1},
            {"FractionRoundedUp": 7},
            id="pai",
        ),
        pytest.param(
            "sample.swf",
            "swf",
            16,
            {"NeverStarted": 1, "NoGpus": 1, "NoRunTime": 1, "PartialJob": 1},
            {},
            id="swf",
        ),
    ],
)
def test_every_row_of_a_sample_is_a_job_or_is_dropped_for_a_reason(
    sample: str, *, format: str, jobs: int, dropped: dict[str, int], changed: dict[str, int]
) -> None:
    trace = read_trace(SAMPLES / sample)
    assert (trace.format, len(trace.jobs)) == (format, jobs)
    assert trace.dropped == dropped
    assert trace.changed == changed


@pytest.mark.parametrize(
    ("format", "text", "arrival", "duration", "gpus"),
    [
        pytest.param("itp", "job_id,submission_time,duration,num_gpu\na,5,7,2\n", 5, 7, 2, id="s"),
        pytest.param(
            "muri",
            "job_id,num_gpu,submit_time,duration,iteration_time,resource_time_0\n0,4,1500,2250,9,9\n",
            1.5,
            2.25,
            4,
            id="milliseconds",
        ),
        pytest.param(
            "tiresias",
            "job_id,num_gpu,submit_time,duration\n0,8,30,147\n",
            30,
            147,
            8,
            id="tiresias",
        ),
        pytest.param(
            "openb",
            "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\np,8,1000,10,90,15\n",
            10,
            75,
            8,
            id="run time starts when the pod is scheduled",
        ),
        pytest.param(
            "swf",
            "1 9 3 60 8 -1 -1 16 99 -1 1 1 1 -1 1 -1 -1 -1\n",
            9,
            60,
            16,
            id="asked processors",
        ),
        pytest.param(
            "swf",
            "1 9 3 60 8 -1 -1 -1 99 -1 1 1 1 -1 1 -1 -1 -1\n",
            9,
            60,
            8,
            id="given processors",
        ),
        pytest.param(
            "shockwave",
            "LM\tc\td\t-s\t1\t99\t4\tgns\t1\t-1\t3338\t55\n",
            55,
            3338,
            4,
            id="shockwave",
        ),
        pytest.param("gavel", "A3C\tc\td\t-s\t1\t748\t1\t1\t-1\t3\n", 3, 100.005, 1, id="gavel"),
    ],
)
def test_units_are_those_of_the_format(
    format: str, text: str, arrival: float, duration: float, gpus: int
) -> None:
    job = the_job(format, text)
    assert job.arrival == round(arrival * SECOND)
    assert job.duration == pytest.approx(duration * SECOND, abs=1000)
    assert job.gpus == gpus


def test_a_philly_job_that_was_retried_ran_for_the_sum_of_its_attempts() -> None:
    jobs = read_trace(SAMPLES / "philly.json").jobs
    retried = next(job for job in jobs if job.name.endswith("_14015"))
    assert retried.duration == Duration((6_000 + 90_000 + 12) * SECOND)
    assert (retried.gpus, retried.workers) == (16, 2)


def test_a_run_over_the_end_of_daylight_saving_is_one_hour_longer_than_the_wall_clock_says() -> (
    None
):
    last = read_trace(SAMPLES / "philly.json").jobs[-1]
    assert last.duration == Duration((3 * 60 + 30 + 60) * MINUTE)


def test_kalos_run_times_leave_out_the_queueing_its_duration_column_counts() -> None:
    text = (
        "job_id,user,node_num,gpu_num,type,state,submit_time,start_time,end_time,duration\n"
        "d,u,8,64,Other,FAILED,2023-05-17 11:00:58+00:00,2023-05-17 11:01:08+00:00,"
        "2023-05-17 11:01:16+00:00,18\n"
    )
    assert the_job("acme", text).duration == 8 * SECOND


def test_tasks_of_one_pai_job_become_one_gang_wherever_their_rows_stand() -> None:
    jobs = {job.name: job for job in read_trace(SAMPLES / "pai_task_table.csv").jobs}
    apart = jobs["1f2642aadcded20443b30f66"]
    assert (apart.gpus, apart.workers, apart.gpu_models) == (4, 4, ("V100",))
    three_roles = jobs["e3838b9ed5a9422a8bc08311"]
    assert (three_roles.gpus, three_roles.workers) == (9, 9)


def test_a_share_of_a_gpu_counts_as_a_whole_one_and_is_told() -> None:
    text = "name,num_gpu,gpu_milli,creation_time,deletion_time,scheduled_time\np,1,460,0,9,0\n"
    (only,) = parsed("openb", text)
    assert isinstance(only, Changed)
    assert (only.change, only.job.gpus) == ("FractionRoundedUp", 1)


def test_a_pair_gavel_has_no_throughput_of_is_dropped() -> None:
    (only,) = parsed("gavel", "A3C\tc\td\t-s\t1\t748\t64\t1\t-1\t3\n")
    assert only == Dropped(row=1, reason="NoThroughput")


@pytest.mark.parametrize(
    ("format", "text", "place", "field"),
    [
        pytest.param(
            "itp",
            "job_id,submission_time,duration,num_gpu\na,5,7,2\nb,x,7,2\n",
            "t:3",
            "submission_time",
            id="not a number",
        ),
        pytest.param(
            "itp",
            "job_id,submission_time,duration,num_gpu\na,5,nan,2\n",
            "t:2",
            "duration",
            id="not finite",
        ),
        pytest.param(
            "itp",
            "job_id,submission_time,duration,num_gpu\na,5,7,1.5\n",
            "t:2",
            "num_gpu",
            id="not whole",
        ),
        pytest.param(
            "itp",
            "job_id,submission_time,duration,num_gpu\na,5,-7,1\n",
            "t:2",
            "duration",
            id="negative",
        ),
        pytest.param(
            "itp",
            "job_id,submission_time,duration,num_gpu\na,5,7\n",
            "t:2",
            None,
            id="a field too few",
        ),
        pytest.param("itp", "job_id,duration,num_gpu\n", "t:1", None, id="a column too few"),
        pytest.param(
            "philly",
            "timestamp,duration,num_gpus,gpu_time,cluster\n2017-13-01 00:00:00,1,1,1,v\n",
            "t:2",
            "timestamp",
            id="no such date",
        ),
        pytest.param("swf", "; c\n1 2 3\n", "t:2", None, id="swf with too few fields"),
        pytest.param("gavel", "a\tb\nc\n", "t:1", None, id="a short line that is not the last"),
        pytest.param("jsonl", "{", "t:1", None, id="broken JSON line"),
        pytest.param(
            "jsonl",
            '{"name":"a","arrival_s":0,"duration_s":1,"gpus":0}',
            "t:1",
            "gpus",
            id="no GPUs",
        ),
        pytest.param(
            "jsonl",
            '{"name":"a","arrival_s":0,"duration_s":1,"gpus":1,"gpu":1}',
            "t:1",
            "gpu",
            id="unknown name",
        ),
        pytest.param(
            "philly-json",
            '[\n{"jobid": "a",\n"submitted_time": 5}]',
            "t:2",
            "submitted_time",
            id="json",
        ),
        pytest.param("philly-json", '[\n{"jobid": "a"', "t:2", None, id="json that ends early"),
        pytest.param("philly-json", "[1, 2]", "t:1", None, id="json that is not of objects"),
    ],
)
def test_an_error_names_file_line_and_field(
    format: str, text: str, place: str, field: str | None
) -> None:
    with pytest.raises(TraceError) as caught:
        parsed(format, text)
    assert str(caught.value).startswith(f"{place}: ")
    assert caught.value.field == field


def test_a_json_array_longer_than_one_read_is_streamed_whole() -> None:
    entry = (
        '{"status":"Pass","vc":"v","jobid":"j%d","user":"u","submitted_time":"2017-10-07 01:00:00",'
        '"attempts":[{"start_time":"2017-10-07 01:00:00","end_time":"2017-10-07 01:00:09",'
        '"detail":[{"ip":"m","gpus":["g0"]}]}]}'
    )
    text = "[" + ",\n".join(entry % number for number in range(2_000)) + "]"
    jobs = parsed("philly-json", text)
    assert [job.row for job in jobs if isinstance(job, TraceJob)] == list(range(1, 2_001))


def test_a_file_of_another_kind_is_not_recognised(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("date,vcA,total\n2020-04-01,8,8\n")
    with pytest.raises(TraceError, match="looks like no trace format"):
        format_of(other)


def test_an_unknown_format_name_lists_those_there_are() -> None:
    with pytest.raises(TraceError, match="philly, acme"):
        format_named("phily")


def test_a_trace_without_a_job_is_an_error(tmp_path: Path) -> None:
    empty = tmp_path / "none.csv"
    empty.write_text("job_id,num_gpu,submit_time,duration\n0,0,1,5\n")
    with pytest.raises(TraceError, match=r"has no job \(1 rows dropped\)"):
        read_trace(empty)


def test_jobs_that_arrive_together_keep_the_order_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "t.csv"
    file.write_text("job_id,num_gpu,submit_time,duration\nz,1,9,5\na,1,4,5\nb,1,9,5\n")
    trace = read_trace(file)
    assert [(job.name, job.arrival // SECOND) for job in trace.jobs] == [
        ("a", 0),
        ("z", 5),
        ("b", 5),
    ]


ONE_NAME_TWICE = {
    "jsonl": '{"name": "a", "arrival_s": 0, "duration_s": 1, "gpus": 1}\n' * 2,
    "itp": "job_id,submission_time,duration,num_gpu\na,5,7,2\na,6,7,2\n",
}


@pytest.mark.parametrize(("format", "first", "second"), [("jsonl", 1, 2), ("itp", 2, 3)])
def test_two_jobs_of_one_name_are_an_error_that_names_both_lines(
    tmp_path: Path, format: str, first: int, second: int
) -> None:
    file = tmp_path / "t"
    file.write_text(ONE_NAME_TWICE[format])
    with pytest.raises(TraceError) as refused:
        read_trace(file, format_named(format))
    assert str(refused.value) == f"t:{second}: has the name of the job on line {first}: 'a'"


def test_a_job_that_slurm_queued_again_is_a_job_more(tmp_path: Path) -> None:
    lines = (SAMPLES / "helios.csv").read_text().splitlines()
    file = tmp_path / "helios.csv"
    file.write_text("\n".join([*lines, lines[1]]))
    assert len(read_trace(file).jobs) == len(read_trace(SAMPLES / "helios.csv").jobs) + 1


@pytest.mark.parametrize(
    "value", [pytest.param("9" * 5000, id="digits"), pytest.param("[" * 100_000, id="depth")]
)
@pytest.mark.parametrize("format", ["jsonl", "philly-json"])
def test_json_that_python_does_not_read_is_an_error_with_its_line(
    tmp_path: Path, format: str, value: str
) -> None:
    file = tmp_path / "t"
    file.write_text(f'[{{"jobid": {value}}}]' if format == "philly-json" else f'{{"name": {value}')
    with pytest.raises(TraceError, match=r"^t:1: "):
        read_trace(file, format_named(format))
    with pytest.raises(TraceError):
        format_of(file)
