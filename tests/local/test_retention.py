"""What gangs leave behind goes when it has been kept long enough or takes too much room."""

import os
from pathlib import Path

import pytest

from scheduler.adapters.local.folders import Layout, WorkerPlace
from scheduler.adapters.local.retention import Retention, RetentionLimits
from scheduler.adapters.memory.clock import ManualClock
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import DAY, Duration, Instant, after
from tests.gangs import a_key

NOW = Instant(1_700_000_000_000_000)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    made.make()
    return made


def a_gang(
    layout: Layout, job: str, *, age: Duration, number: int = 0, size: int = 10, forgotten: bool
) -> Path:
    """A gang that was over `age` ago and left a log of `size` bytes, and its job's checkpoint."""
    gang = layout.gang(a_key(job, number))
    gang.worker(0).path.mkdir(parents=True)
    gang.write_places((WorkerPlace(node=NodeName("n0"), port=1, gpus=()),))
    (gang.worker(0).path / "log.0").write_bytes(b"x" * size)
    checkpoint = layout.jobs / job / "checkpoint"
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "latest").touch()
    paths = [checkpoint / "latest", checkpoint, checkpoint.parent]
    if forgotten:
        gang.mark_forgotten()
        paths.append(gang.path / "forgotten")
    for path in paths:
        os.utime(path, ns=((NOW - age) * 1000,) * 2)
    return gang.path


def sweep(layout: Layout, limits: RetentionLimits, *, later: Duration = Duration(0)) -> None:
    Retention(layout, limits, ManualClock(after(NOW, later))).sweep()


def left(layout: Layout) -> list[str]:
    return [gang.path.name for gang in layout.gangs()]


def test_what_is_over_is_kept_for_its_time(layout: Layout) -> None:
    a_gang(layout, "old", age=Duration(8 * DAY), forgotten=True)
    a_gang(layout, "new", age=Duration(6 * DAY), forgotten=True)
    sweep(layout, RetentionLimits(attempts_for=Duration(7 * DAY)))
    assert left(layout) == ["new-a0"]


def test_the_oldest_goes_first_when_there_is_no_room(layout: Layout) -> None:
    for days in (1, 3, 2):
        a_gang(layout, f"job{days}", age=Duration(days * DAY), size=1000, forgotten=True)
    sweep(layout, RetentionLimits(attempts_bytes_max=2500))
    assert left(layout) == ["job1-a0", "job2-a0"]


def test_what_is_not_over_stays_whatever_room_it_takes(layout: Layout) -> None:
    a_gang(layout, "runs", age=Duration(99 * DAY), size=1000, forgotten=False)
    sweep(layout, RetentionLimits(attempts_bytes_max=10))
    assert left(layout) == ["runs-a0"]


def test_checkpoints_stay_as_long_as_an_attempt_of_the_job(layout: Layout) -> None:
    a_gang(layout, "waits", age=Duration(99 * DAY), forgotten=False)
    limits = RetentionLimits(checkpoints_for=Duration(30 * DAY))
    sweep(layout, limits)
    assert [job.name for job in layout.jobs.iterdir()] == ["waits"]


def test_checkpoints_of_a_job_without_attempts_stay_for_their_time(layout: Layout) -> None:
    a_gang(layout, "done", age=Duration(10 * DAY), forgotten=True)
    limits = RetentionLimits(attempts_for=Duration(7 * DAY), checkpoints_for=Duration(30 * DAY))
    sweep(layout, limits)
    assert left(layout) == []
    assert [job.name for job in layout.jobs.iterdir()] == ["done"]
    sweep(layout, limits, later=Duration(21 * DAY))
    assert list(layout.jobs.iterdir()) == []
