"""Logs on disk: bounded, with offsets that stay and times that are true."""

import os
from pathlib import Path

from scheduler.adapters.local.supervisor.output_log import TIME_STEP_US
from scheduler.domain.ids import Rank
from scheduler.ports.cluster import WorkerState
from tests.contract.cluster_worlds import WallClock
from tests.gangs import an_order
from tests.local.executor import KEY, Executor, an_executor, settings, sh
from tests.polling import wait_until

RANK = Rank(0)
LINE = "line {:07d}\n"
LINE_BYTES = len(LINE.format(0))
LINES = 20_000
BYTES_MAX = 80_000


def log_bytes_on_disk(executor: Executor) -> int:
    folder = executor.worker_folder()
    files = [*folder.glob("log.*"), *folder.glob("times.*")]
    return sum(file.stat().st_size for file in files)


def test_a_long_log_keeps_its_end_and_its_offsets(tmp_path: Path) -> None:
    with an_executor(tmp_path, settings(tmp_path, log_bytes_max=BYTES_MAX)) as executor:
        script = f"import sys\nfor n in range({LINES}): sys.stdout.write('line %07d\\n' % n)"
        executor.launch(an_order(command=("python3", "-c", script)))
        executor.ends()

        kept = executor.cluster.read(KEY, RANK, offset=0, bytes_max=10 * BYTES_MAX)
        assert kept.is_end
        assert kept.next_offset == LINES * LINE_BYTES
        # At least seven eighths of the room, less the times, are used; never more than all of it.
        assert BYTES_MAX * 3 // 4 < len(kept.data) <= BYTES_MAX
        assert log_bytes_on_disk(executor) <= BYTES_MAX

        first_whole = -(-kept.offset // LINE_BYTES)
        expected = "".join(LINE.format(number) for number in range(first_whole, LINES))
        assert kept.data.decode()[first_whole * LINE_BYTES - kept.offset :] == expected

        middle = executor.cluster.read(
            KEY, RANK, offset=(LINES - 9) * LINE_BYTES, bytes_max=LINE_BYTES
        )
        assert middle.data.decode() == LINE.format(LINES - 9)
        tail = executor.cluster.tail_offset(KEY, RANK, lines=3000)
        assert tail == (LINES - 3000) * LINE_BYTES
        everything = executor.cluster.tail_offset(KEY, RANK, lines=LINES)
        assert everything == kept.offset


def test_times_tell_early_output_from_late(executor: Executor, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    executor.launch(an_order(command=sh(f"echo early; cat {gate}")))
    executor.wait_for_log("early\n")
    seen = WallClock().now()
    wait_until(lambda: WallClock().now() > seen + 2 * TIME_STEP_US, "a time step is over")
    between = WallClock().now()
    gate.write_text("late\n")
    executor.ends()
    ended = WallClock().now()
    assert executor.log() == "early\nlate\n"
    assert executor.cluster.offset_since(KEY, RANK, since=between) == len("early\n")
    times = executor.cluster.read(KEY, RANK, offset=0, bytes_max=100).times
    assert [time.offset for time in times] == [0, len("early\n")]
    assert times[0].at <= between <= times[1].at <= ended
    late = executor.cluster.read(KEY, RANK, offset=len("early\n") + 1, bytes_max=100)
    assert [time.offset for time in late.times] == [len("early\n")]


def test_a_log_is_the_bytes_that_were_written(executor: Executor) -> None:
    executor.launch(an_order(command=("printf", r"\000\377\r\n\303")))
    executor.ends()
    assert executor.cluster.read(KEY, RANK, offset=0, bytes_max=9).data == b"\x00\xff\r\n\xc3"


def test_the_last_words_of_a_killed_worker_are_kept(executor: Executor) -> None:
    executor.launch(an_order(command=sh("echo last words; kill -9 $$")))
    (end,) = executor.ends()
    assert (end.state, end.exit_code) == (WorkerState.ENDED, 137)
    assert executor.log() == "last words\n"
