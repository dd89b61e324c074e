"""Alibaba: the openb pod lists (GPU v2023), and PAI's task table (GPU v2020).

openb: one pod is one job; times are seconds from the trace's start. The run time is
`deletion_time - scheduled_time`. A pod that asks a share of one card (`gpu_milli` under 1000) gets
a whole GPU here: `FractionRoundedUp`. Dropped: `NoGpus`, `NeverStarted` (phase Pending, no
scheduled_time), `NoRunTime`. The multigpuNN lists have no times and are not traces.

PAI (`pai_task_table.csv`, which has no header line; a header is accepted): rows of one `job_name`
are the tasks of one job, wherever they stand in the file. `plan_gpu` is a percentage of a GPU per
instance, rounded up to whole GPUs (`FractionRoundedUp`). The table has no submission, so a job
arrives when its first task starts, and runs until its last task ends. Dropped: `NoGpus`,
`NeverStarted`, `StillRunning` (a GPU task has no end), `NoRunTime`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TextIO

from scheduler.domain.instants import SECOND, Duration, Instant
from simulator.traces.job import Changed, Dropped, Parsed, TraceJob
from simulator.traces.source import Fields, Head, rows_with_header, rows_without_header

POD_COLUMNS = ("name", "num_gpu", "gpu_milli", "creation_time", "deletion_time", "scheduled_time")
TASK_COLUMNS = (
    "job_name",
    "task_name",
    "inst_num",
    "status",
    "start_time",
    "end_time",
    "plan_cpu",
    "plan_mem",
    "plan_gpu",
    "gpu_type",
)
WHOLE_CARD_MILLI = 1000
PERCENT_OF_A_GPU = 100


def recognises_openb(head: Head) -> bool:
    """Whether this is an openb pod list with times."""
    return head.has_columns(*POD_COLUMNS)


def parse_openb(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of an openb pod list."""
    for row in rows_with_header(stream, source, required=POD_COLUMNS):
        yield _pod(row)


def _pod(row: Fields) -> Parsed:
    gpus = row.count("num_gpu")
    if gpus == 0:
        return Dropped(row=row.line, reason="NoGpus")
    if row.is_empty("scheduled_time") or row.is_empty("deletion_time"):
        return Dropped(row=row.line, reason="NeverStarted")
    run_time = row.time("deletion_time") - row.time("scheduled_time")
    if run_time <= 0:
        return Dropped(row=row.line, reason="NoRunTime")
    models = row.text("gpu_spec", default="")
    job = TraceJob(
        row=row.line,
        name=row.text("name"),
        arrival=Instant(row.time("creation_time")),
        duration=Duration(run_time),
        gpus=gpus,
        workers=1,
        queue=row.text("qos", default=""),
        status=row.text("pod_phase", default=""),
        gpu_models=tuple(models.split("|")) if models else (),
    )
    if row.count("gpu_milli") < WHOLE_CARD_MILLI:
        return Changed(job=job, change="FractionRoundedUp")
    return job


def recognises_pai(head: Head) -> bool:
    """Whether this is PAI's task table, with or without a header."""
    if head.has_columns(*TASK_COLUMNS):
        return True
    values = head.first.split(",")
    return len(values) == len(TASK_COLUMNS) and values[3] in {
        "Terminated",
        "Failed",
        "Running",
        "Waiting",
    }


@dataclass(slots=True)
class _Tasks:
    """The GPU tasks of one job so far."""

    row: int
    gpus: int = 0
    workers: int = 0
    start: int | None = None
    end: int | None = None
    is_open: bool = False
    is_rounded: bool = False
    gpu_type: str = ""
    status: str = ""


def parse_pai(stream: TextIO, source: str) -> Iterator[Parsed]:
    """Jobs of PAI's task table, in the order of their first rows."""
    jobs: dict[str, _Tasks] = {}
    for row in _task_rows(stream, source):
        _add_task(jobs.setdefault(row.text("job_name"), _Tasks(row=row.line)), row)
    for name, tasks in jobs.items():
        yield _pai_job(name, tasks)


def _task_rows(stream: TextIO, source: str) -> Iterator[Fields]:
    first = stream.readline()
    lines = chain([first], stream)
    if first.startswith("job_name"):
        return rows_with_header(lines, source, required=TASK_COLUMNS)
    return rows_without_header(lines, source, TASK_COLUMNS)


def _add_task(tasks: _Tasks, row: Fields) -> None:
    if row.is_empty("plan_gpu") or row.number("plan_gpu") <= 0:
        return
    share = row.number("plan_gpu") / PERCENT_OF_A_GPU
    gpus_per_instance = int(-(-share // 1))
    instances = row.count("inst_num")
    tasks.gpus += gpus_per_instance * instances
    tasks.workers += instances
    tasks.is_rounded |= gpus_per_instance != share
    tasks.gpu_type = tasks.gpu_type or row.text("gpu_type", default="")
    tasks.status = row.text("status")
    if row.is_empty("start_time"):
        return
    start = row.time("start_time")
    tasks.start = start if tasks.start is None else min(tasks.start, start)
    if row.is_empty("end_time"):
        tasks.is_open = True
    else:
        tasks.end = max(tasks.end or 0, row.time("end_time"))


def _pai_job(name: str, tasks: _Tasks) -> Parsed:
    if tasks.gpus == 0:
        return Dropped(row=tasks.row, reason="NoGpus")
    if tasks.start is None:
        return Dropped(row=tasks.row, reason="NeverStarted")
    if tasks.is_open or tasks.end is None:
        return Dropped(row=tasks.row, reason="StillRunning")
    if tasks.end - tasks.start < SECOND:
        return Dropped(row=tasks.row, reason="NoRunTime")
    job = TraceJob(
        row=tasks.row,
        name=name,
        arrival=Instant(tasks.start),
        duration=Duration(tasks.end - tasks.start),
        gpus=tasks.gpus,
        workers=tasks.workers,
        status=tasks.status,
        gpu_models=(tasks.gpu_type,) if tasks.gpu_type not in {"", "MISC"} else (),
    )
    return Changed(job=job, change="FractionRoundedUp") if tasks.is_rounded else job
