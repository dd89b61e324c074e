"""What every Cluster promises, whatever runs the workers."""

import pytest

from scheduler.domain.instants import seconds
from scheduler.domain.job import Outcome
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import WorkerReport, WorkerState
from tests.contract.cluster_worlds import (
    LEAVES_CLEANLY,
    NO_SUCH_COMMAND,
    RUNS,
    RUNS_AND_SAYS_SO,
    STUBBORN,
    Deed,
    World,
    exits,
    is_killed_by,
)
from tests.gangs import a_key, report_of

KEY = a_key()
LAST_STATES = {WorkerState.ENDED, WorkerState.GONE, WorkerState.REFUSED}


def states(world: World, key: AttemptKey = KEY) -> list[WorkerState]:
    """States of a gang's workers, by rank."""
    return [report.state for report in reports(world, key)]


def reports(world: World, key: AttemptKey = KEY) -> list[WorkerReport]:
    found = [report for report in world.cluster.observe().workers if report.attempt == key]
    return sorted(found, key=lambda report: report.rank)


def wait_for(world: World, *wanted: WorkerState, key: AttemptKey = KEY) -> None:
    world.wait_until(lambda: states(world, key) == list(wanted), f"{key}: {wanted}")


def wait_for_end(world: World, key: AttemptKey = KEY) -> WorkerReport:
    """The report of a gang's only worker once it is over."""

    def is_over() -> bool:
        found = states(world, key)
        return bool(found) and found[0] in LAST_STATES

    world.wait_until(is_over, f"{key} is over")
    return reports(world, key)[0]


def run(world: World, deeds: list[Deed], *, job: str = "job-1") -> AttemptKey:
    """Make a gang and release it once it is made."""
    order = world.order(deeds, job=job)
    world.cluster.prepare(order)
    wait_for(world, *[WorkerState.MADE] * len(deeds), key=order.attempt)
    world.cluster.release(order.attempt)
    return order.attempt


def wait_until_up(world: World, key: AttemptKey = KEY) -> None:
    """Until the gang's only worker has said so, which it does once it is ready for signals."""

    def is_up() -> bool:
        chunk = world.cluster.read(key, reports(world, key)[0].rank, offset=0, bytes_max=100)
        return chunk.data == b"up\n"

    world.wait_until(is_up, "the worker is up")


def test_levels_and_nodes_are_those_it_was_given(world: World) -> None:
    view = world.cluster.observe()
    assert view.levels == world.levels
    assert [(node.name, node.gpus, node.path) for node in view.nodes] == [
        (node.name, node.gpus, node.path) for node in sorted(world.nodes, key=lambda n: n.name)
    ]
    assert view.nodes is world.cluster.observe().nodes


def test_a_prepared_gang_waits_at_the_barrier(world: World) -> None:
    world.cluster.prepare(world.order([RUNS, RUNS]))
    wait_for(world, WorkerState.MADE, WorkerState.MADE)
    world.settle()
    assert states(world) == [WorkerState.MADE, WorkerState.MADE]
    assert KEY in world.cluster.observe().attempts_complete
    assert world.runs_of("job-1") == 0


def test_a_gang_prepared_again_and_again_is_made_once(world: World) -> None:
    order = world.order([exits(0), exits(0)])
    for _ in range(5):
        world.cluster.prepare(order)
    wait_for(world, WorkerState.MADE, WorkerState.MADE)
    world.cluster.prepare(order)
    world.cluster.release(KEY)
    world.cluster.prepare(order)
    wait_for(world, WorkerState.ENDED, WorkerState.ENDED)
    world.cluster.prepare(order)
    world.cluster.release(KEY)
    world.settle()
    assert states(world) == [WorkerState.ENDED, WorkerState.ENDED]
    assert world.runs_of("job-1") == 2


def test_a_released_gang_runs(world: World) -> None:
    run(world, [RUNS, RUNS])
    wait_for(world, WorkerState.RUNNING, WorkerState.RUNNING)
    for report in reports(world):
        assert report.started_at is not None
        assert (report.ended_at, report.exit_code, report.outcome) == (None, None, None)
        assert report.node == world.nodes[0].name


def test_a_gang_released_before_it_is_made_runs_once_it_is(world: World) -> None:
    world.cluster.prepare(world.order([exits(0), exits(0)]))
    world.cluster.release(KEY)
    wait_for(world, WorkerState.ENDED, WorkerState.ENDED)


def test_a_release_without_a_gang_does_nothing(world: World) -> None:
    world.cluster.release(KEY)
    world.cluster.prepare(world.order([RUNS]))
    wait_for(world, WorkerState.MADE)
    world.settle()
    assert states(world) == [WorkerState.MADE]


@pytest.mark.parametrize(
    ("deed", "exit_code", "outcome"),
    [
        pytest.param(exits(0), 0, Outcome.COMPLETED, id="success"),
        pytest.param(exits(1), 1, Outcome.USER_ERROR, id="failure"),
        pytest.param(exits(77), 77, Outcome.USER_ERROR, id="any code"),
        pytest.param(is_killed_by(9), 137, Outcome.KILLED, id="killed"),
        pytest.param(is_killed_by(11), 139, Outcome.KILLED, id="crashed"),
        pytest.param(is_killed_by(15), 143, Outcome.KILLED, id="terminated by a stranger"),
    ],
)
def test_an_end_is_reported_with_its_exit_code(
    world: World, deed: Deed, exit_code: int, outcome: Outcome
) -> None:
    report = wait_for_end(world, run(world, [deed]))
    assert report.state is WorkerState.ENDED
    assert (report.exit_code, report.outcome) == (exit_code, outcome)
    assert report.started_at is not None
    assert report.ended_at is not None
    assert report.started_at <= report.ended_at


def test_one_end_leaves_the_others_running(world: World) -> None:
    run(world, [RUNS, exits(5)])
    wait_for(world, WorkerState.RUNNING, WorkerState.ENDED)


def test_the_first_end_holds_for_ever(world: World) -> None:
    run(world, [exits(3)])
    first = wait_for_end(world)
    world.cluster.stop(KEY, kill_at=world.in_time(seconds(0)))
    world.settle()
    world.restart()
    world.settle()
    assert reports(world) == [first]


def test_a_stop_before_the_release_ends_the_gang_before_any_user_code(world: World) -> None:
    world.cluster.prepare(world.order([RUNS, RUNS]))
    wait_for(world, WorkerState.MADE, WorkerState.MADE)
    world.cluster.stop(KEY, kill_at=world.in_time(seconds(60)))
    world.cluster.release(KEY)
    wait_for(world, WorkerState.ENDED, WorkerState.ENDED)
    assert [report.started_at for report in reports(world)] == [None, None]
    assert world.runs_of("job-1") == 0


def test_a_stop_right_after_prepare_leaves_nothing_that_could_run(world: World) -> None:
    world.cluster.prepare(world.order([RUNS, RUNS]))
    world.cluster.stop(KEY, kill_at=world.in_time(seconds(60)))
    world.cluster.release(KEY)
    world.settle()
    world.wait_until(lambda: set(states(world)) <= LAST_STATES, "nothing lives")
    assert world.runs_of("job-1") == 0


def may_hold_gpus(world: World, key: AttemptKey) -> bool:
    """Whether the present view leaves it open that workers of the gang hold GPUs."""
    view = world.cluster.observe()
    assert view.is_complete
    if key in view.attempts_unsettled:
        return True
    return any(r.attempt == key and r.state not in LAST_STATES for r in view.workers)


def test_what_was_just_asked_for_is_either_listed_or_unsettled(world: World) -> None:
    world.cluster.prepare(world.order([RUNS, RUNS]))
    assert may_hold_gpus(world, KEY)
    wait_for(world, WorkerState.MADE, WorkerState.MADE)
    world.settle()
    assert world.cluster.observe().attempts_unsettled == frozenset()


@pytest.mark.parametrize("looks", [0, 1, 10, 100, 1_000])
def test_gpus_of_a_stopped_gang_are_free_once_a_view_says_so(world: World, looks: int) -> None:
    # The looks are a wait: the stop comes at different moments of the making.
    gpus = world.nodes[0].gpus
    first, second = (world.order([RUNS], job=job, gpus=gpus) for job in ("first", "second"))
    world.cluster.prepare(first)
    for _ in range(looks):
        world.cluster.observe()
    world.cluster.stop(first.attempt, kill_at=world.in_time(seconds(0)))
    world.wait_until(lambda: not may_hold_gpus(world, first.attempt), "its GPUs are free")
    world.cluster.prepare(second)
    wait_for(world, WorkerState.MADE, key=second.attempt)


def test_a_stop_gives_the_worker_time_to_leave_cleanly(world: World) -> None:
    run(world, [LEAVES_CLEANLY])
    wait_until_up(world)
    world.cluster.stop(KEY, kill_at=world.in_time(seconds(600)))
    report = wait_for_end(world)
    assert (report.exit_code, report.outcome) == (0, Outcome.COMPLETED)


def test_a_stop_ends_a_worker_that_does_nothing_about_it(world: World) -> None:
    run(world, [RUNS])
    wait_for(world, WorkerState.RUNNING)
    world.cluster.stop(KEY, kill_at=world.in_time(seconds(600)))
    assert wait_for_end(world).exit_code == 143


def test_a_stubborn_worker_is_killed_when_its_grace_is_over(world: World) -> None:
    run(world, [STUBBORN])
    wait_until_up(world)
    kill_at = world.in_time(seconds(1))
    world.cluster.stop(KEY, kill_at=kill_at)
    report = wait_for_end(world)
    assert (report.exit_code, report.outcome) == (137, Outcome.KILLED)
    assert report.ended_at is not None
    assert report.ended_at >= kill_at - world.resolution


def test_asked_again_the_earlier_kill_holds(world: World) -> None:
    run(world, [STUBBORN])
    wait_until_up(world)
    world.cluster.stop(KEY, kill_at=world.in_time(seconds(600)))
    world.settle()
    assert states(world) == [WorkerState.RUNNING]
    world.cluster.stop(KEY, kill_at=world.in_time(seconds(0)))
    world.cluster.stop(KEY, kill_at=world.in_time(seconds(600)))
    assert wait_for_end(world).exit_code == 137


def test_a_stop_of_an_unknown_attempt_does_nothing(world: World) -> None:
    world.cluster.stop(a_key("no-such-job"), kill_at=world.in_time(seconds(0)))
    world.settle()
    assert reports(world, a_key("no-such-job")) == []


def test_a_worker_that_can_not_be_made_is_refused_and_the_gang_never_runs(world: World) -> None:
    world.cluster.prepare(world.order([RUNS, NO_SUCH_COMMAND]))
    world.cluster.release(KEY)
    wait_for(world, WorkerState.MADE, WorkerState.REFUSED)
    world.settle()
    assert states(world) == [WorkerState.MADE, WorkerState.REFUSED]
    refused = reports(world)[1]
    assert refused.outcome is world.refusal
    assert refused.message.endswith("no such command: no-such-command")
    assert world.runs_of("job-1") == 0


def test_a_forgotten_gang_is_not_reported_and_not_made_again(world: World) -> None:
    order = world.order([exits(0)])
    world.cluster.prepare(order)
    world.cluster.release(KEY)
    wait_for_end(world)
    world.cluster.forget(KEY)
    world.wait_until(lambda: reports(world) == [], "it is forgotten")
    world.cluster.prepare(order)
    world.settle()
    world.restart()
    world.cluster.prepare(order)
    world.settle()
    assert reports(world) == []
    assert world.runs_of("job-1") == 1


def test_attempts_of_one_job_are_apart(world: World) -> None:
    run(world, [exits(1)])
    wait_for_end(world)
    second = world.order([exits(0)], number=1)
    world.cluster.prepare(second)
    world.cluster.release(second.attempt)
    assert wait_for_end(world, second.attempt).exit_code == 0
    assert wait_for_end(world, KEY).exit_code == 1


def test_a_new_adapter_adopts_what_waits_runs_and_has_ended(world: World) -> None:
    waiting = world.order([RUNS_AND_SAYS_SO], job="waits")
    world.cluster.prepare(waiting)
    wait_for(world, WorkerState.MADE, key=waiting.attempt)
    running = run(world, [LEAVES_CLEANLY], job="runs")
    wait_until_up(world, running)
    ended = run(world, [exits(7)], job="ends")
    before = wait_for_end(world, ended)

    world.restart()

    assert reports(world, ended) == [before]
    assert states(world, running) == [WorkerState.RUNNING]
    assert states(world, waiting.attempt) == [WorkerState.MADE]
    world.cluster.prepare(waiting)
    world.cluster.release(waiting.attempt)
    wait_until_up(world, waiting.attempt)
    world.cluster.stop(running, kill_at=world.in_time(seconds(600)))
    assert wait_for_end(world, running).exit_code == 0
    assert [world.runs_of(job) for job in ("waits", "runs", "ends")] == [1, 1, 1]


def test_change_sets_add_up_to_the_whole_view(world: World) -> None:
    first = world.cluster.observe()
    run(world, [exits(0)], job="one")
    wait_for_end(world, a_key("one"))
    second = world.cluster.observe(first.sequence)
    assert report_of(second, a_key("one"), 0) == reports(world, a_key("one"))[0]
    run(world, [RUNS], job="two")
    wait_for(world, WorkerState.RUNNING, key=a_key("two"))
    third = world.cluster.observe(second.sequence)
    assert report_of(third, a_key("two"), 0) == reports(world, a_key("two"))[0]
    assert world.cluster.observe(third.sequence).workers == ()
