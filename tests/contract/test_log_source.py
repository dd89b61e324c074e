"""What every LogSource promises about the output of workers."""

import pytest

from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant, seconds
from scheduler.ports.cluster import WorkerState
from tests.contract.cluster_worlds import RUNS_AND_SAYS_SO, Deed, World, exits, prints
from tests.gangs import a_key, report_of

KEY = a_key()
RANK = Rank(0)
TEXT = "one\ntwo\nthree\nfour"


def run(world: World, *deeds: Deed) -> None:
    """Run a gang until its first worker has ended, or has said that it runs."""
    world.cluster.prepare(world.order(list(deeds)))
    world.cluster.release(KEY)
    world.wait_until(lambda: is_over(world) or bool(log_of(world)), "it ends or says something")


def is_over(world: World) -> bool:
    report = report_of(world.cluster.observe(), KEY, 0)
    return report is not None and report.state is WorkerState.ENDED


def log_of(world: World, rank: int = 0) -> bytes:
    """What there is of a log, read in pieces of three bytes."""
    try:
        found = b""
        while chunk := world.cluster.read(KEY, Rank(rank), offset=len(found), bytes_max=3).data:
            found += chunk
    except NotFoundError:
        return b""
    return found


def test_a_log_is_read_whole_and_has_an_end(world: World) -> None:
    run(world, prints(TEXT))
    world.wait_until(lambda: is_over(world), "it ends")
    chunk = world.cluster.read(KEY, RANK, offset=0, bytes_max=1000)
    assert (chunk.data, chunk.offset, chunk.is_end) == (TEXT.encode(), 0, True)
    assert chunk.next_offset == len(TEXT)


def test_a_log_is_read_in_pieces_from_any_place(world: World) -> None:
    run(world, prints(TEXT))
    world.wait_until(lambda: is_over(world), "it ends")
    piece = world.cluster.read(KEY, RANK, offset=4, bytes_max=3)
    assert (piece.data, piece.offset, piece.is_end) == (b"two", 4, False)
    last = world.cluster.read(KEY, RANK, offset=len(TEXT) - 4, bytes_max=4)
    assert (last.data, last.is_end) == (b"four", True)
    nothing = world.cluster.read(KEY, RANK, offset=len(TEXT), bytes_max=4)
    assert (nothing.data, nothing.is_end) == (b"", True)
    assert log_of(world) == TEXT.encode()


def test_a_follower_waits_while_the_worker_runs(world: World) -> None:
    run(world, RUNS_AND_SAYS_SO)
    world.wait_until(lambda: log_of(world) == b"up\n", "it says so")
    nothing = world.cluster.read(KEY, RANK, offset=3, bytes_max=10)
    assert (nothing.data, nothing.offset, nothing.is_end) == (b"", 3, False)
    world.cluster.stop(KEY, kill_at=world.in_time(seconds(0)))
    world.wait_until(lambda: is_over(world), "it ends")
    assert world.cluster.read(KEY, RANK, offset=3, bytes_max=10).is_end


@pytest.mark.parametrize(
    ("lines", "rest"),
    [
        pytest.param(0, "", id="nothing"),
        pytest.param(1, "four", id="a last line without a newline is a line"),
        pytest.param(2, "three\nfour", id="two lines"),
        pytest.param(4, TEXT, id="all lines"),
        pytest.param(99, TEXT, id="more lines than there are"),
    ],
)
def test_the_tail_begins_so_many_lines_before_the_end(world: World, lines: int, rest: str) -> None:
    run(world, prints(TEXT))
    world.wait_until(lambda: is_over(world), "it ends")
    assert world.cluster.tail_offset(KEY, RANK, lines=lines) == len(TEXT) - len(rest)


def test_a_newline_at_the_end_begins_no_line(world: World) -> None:
    run(world, prints("one\ntwo\n"))
    world.wait_until(lambda: is_over(world), "it ends")
    assert world.cluster.tail_offset(KEY, RANK, lines=1) == 4


def test_what_was_written_since_an_instant_is_found(world: World) -> None:
    before = world.in_time(seconds(0))
    run(world, prints(TEXT))
    world.wait_until(lambda: is_over(world), "it ends")
    later = world.in_time(seconds(3600))
    assert world.cluster.offset_since(KEY, RANK, since=before) == 0
    assert world.cluster.offset_since(KEY, RANK, since=later) == len(TEXT)


def test_a_chunk_says_when_it_was_written(world: World) -> None:
    before = world.in_time(seconds(0))
    run(world, prints(TEXT))
    world.wait_until(lambda: is_over(world), "it ends")
    times = world.cluster.read(KEY, RANK, offset=5, bytes_max=1).times
    assert len(times) == 1
    assert times[0].offset <= 5
    assert before <= times[0].at <= world.in_time(seconds(0))


def test_a_worker_that_wrote_nothing_has_an_empty_log(world: World) -> None:
    run(world, exits(0))
    chunk = world.cluster.read(KEY, RANK, offset=0, bytes_max=10)
    assert (chunk.data, chunk.is_end) == (b"", True)
    assert world.cluster.tail_offset(KEY, RANK, lines=5) == 0
    assert world.cluster.offset_since(KEY, RANK, since=Instant(0)) == 0


def test_each_rank_has_its_own_log(world: World) -> None:
    run(world, prints("zero"), prints("one"))
    world.wait_until(lambda: log_of(world, 1) == b"one", "rank 1 has written")
    world.wait_until(lambda: log_of(world, 0) == b"zero", "rank 0 has written")


def test_the_log_of_an_unknown_worker_is_not_found(world: World) -> None:
    run(world, exits(0))
    for key, rank in ((a_key("no-such-job"), 0), (KEY, 1)):
        with pytest.raises(NotFoundError):
            world.cluster.read(key, Rank(rank), offset=0, bytes_max=10)
        with pytest.raises(NotFoundError):
            world.cluster.tail_offset(key, Rank(rank), lines=10)
        with pytest.raises(NotFoundError):
            world.cluster.offset_since(key, Rank(rank), since=Instant(0))


def test_the_log_of_a_forgotten_gang_stays(world: World) -> None:
    run(world, prints(TEXT))
    world.wait_until(lambda: is_over(world), "it ends")
    world.cluster.forget(KEY)
    world.settle()
    world.restart()
    assert log_of(world) == TEXT.encode()
    assert world.cluster.read(KEY, RANK, offset=0, bytes_max=1000).is_end
