"""The simulated cluster: progress, checkpoints, evictions, speeds, lost nodes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pytest

from scheduler.adapters.memory.clock import ManualClock
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import SECOND, Duration, Instant
from scheduler.domain.job import Outcome
from scheduler.domain.placement import Placement
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import GangOrder, WorkerState
from simulator.agenda import Agenda, Kind
from simulator.cluster import SimulatedCluster
from simulator.crowd import Crowd
from simulator.gang import Account
from simulator.happenings import Arrives, Happening, NodeFails, NodeReturns
from simulator.speeds import FULL_SPEED, Change, FullSpeed, Speed, Speeds
from simulator.world import NO_COSTS, Costs, SimulatedJob
from tests.builders import a_cluster, a_spec
from tests.gangs import a_key, an_order

LATER = Instant(10**15)


def s(seconds: float) -> Duration:
    return Duration(round(seconds * SECOND))


@dataclass
class SharedLink:
    """Gangs that run together go at a share of their speed, all of what they lose exposed."""

    running: dict[AttemptKey, None] = field(default_factory=dict)

    def begin(
        self, attempt: AttemptKey, job: SimulatedJob, placement: Placement
    ) -> Iterable[Change]:
        self.running[attempt] = None
        return self._all()

    def end(self, attempt: AttemptKey) -> Iterable[Change]:
        del self.running[attempt]
        return self._all()

    def _all(self) -> list[Change]:
        share = 1 / max(1, len(self.running))
        return [Change(key, Speed(share, 1 - share)) for key in self.running]


class AWorld:
    """A cluster of two nodes with jobs `job-1`, `job-2`, ... of the given work in seconds."""

    def __init__(
        self,
        *works: float,
        costs: Costs = NO_COSTS,
        speeds: Speeds | None = None,
        nodes: Mapping[str, int] | None = None,
    ) -> None:
        picture = a_cluster("r1: 8 8")
        self.clock = ManualClock()
        self.crowd = Crowd(gpus_available=16)
        self.agenda: Agenda[Happening] = Agenda()
        self.cluster = SimulatedCluster(
            picture.levels,
            picture.nodes,
            clock=self.clock,
            agenda=self.agenda,
            crowd=self.crowd,
            speeds=speeds or FullSpeed(),
            costs=costs,
        )
        self._nodes = nodes or {"r1-n0": 2}
        for number, work in enumerate(works, start=1):
            order = self._order(f"job-{number}", 0)
            self.crowd.arrives(2)
            self.cluster.expect(
                SimulatedJob(
                    id=order.attempt.job_id,
                    name=f"job-{number}",
                    arrival=Instant(0),
                    work=s(work),
                    gpus=2,
                    spec=a_spec(),
                )
            )

    def _order(self, job: str, number: int) -> GangOrder:
        return an_order(job=job, number=number, nodes=self._nodes)

    def start(self, job: str = "job-1", number: int = 0) -> None:
        self.cluster.prepare(self._order(job, number))
        self.cluster.release(a_key(job, number))

    def stop(self, job: str = "job-1", number: int = 0, *, kill_at: Instant = LATER) -> None:
        self.cluster.stop(a_key(job, number), kill_at=kill_at)

    def until(self, seconds: float) -> None:
        """Let everything happen up to then."""
        end = Instant(s(seconds))
        while (at := self.agenda.next_at()) is not None and at <= end:
            self.clock.advance_to(at)
            for happening in self.agenda.due(at):
                assert not isinstance(happening, Arrives)
                self.cluster.happen(happening)
        self.clock.advance_to(end)

    def account(self, job: str = "job-1") -> Account:
        return self.cluster.accounts[a_key(job).job_id]

    def states(self, job: str = "job-1", number: int = 0) -> list[WorkerState]:
        return [
            report.state
            for report in self.cluster.observe().workers
            if report.attempt == a_key(job, number)
        ]


def test_a_gang_ends_when_its_work_is_done() -> None:
    world = AWorld(100)
    world.start()
    world.until(99.999)
    assert world.states() == [WorkerState.RUNNING, WorkerState.RUNNING]
    world.until(100)
    (first, _) = world.cluster.observe().workers
    assert (first.state, first.exit_code, first.ended_at) == (WorkerState.ENDED, 0, Instant(s(100)))
    assert (world.account().held, world.account().kept, world.account().lost) == (s(100), s(100), 0)


def test_a_gang_waits_at_the_barrier_until_it_is_released() -> None:
    world = AWorld(100)
    world.cluster.prepare(an_order(nodes={"r1-n0": 2}))
    world.until(500)
    assert world.states() == [WorkerState.MADE, WorkerState.MADE]


def test_start_up_is_held_and_is_no_progress() -> None:
    world = AWorld(100, costs=Costs(start_up=s(10)))
    world.start()
    assert world.states() == [WorkerState.MADE] * 2
    world.until(10)
    assert world.states() == [WorkerState.RUNNING] * 2
    world.until(110)
    assert world.states() == [WorkerState.ENDED] * 2
    assert (world.account().held, world.account().kept) == (s(110), s(100))


def test_an_evicted_gang_goes_on_from_its_last_checkpoint_after_a_restore() -> None:
    costs = Costs(start_up=s(0), restore=s(20), checkpoint_every=s(30))
    world = AWorld(100, costs=costs)
    world.start()
    world.until(70)
    world.stop()
    account = world.account()
    assert (account.done, account.kept, account.lost) == (s(60), s(60), s(10))
    world.start(number=1)
    world.until(70 + 20 + 40)
    assert world.states(number=1) == [WorkerState.ENDED] * 2
    assert (account.kept, account.lost, account.held) == (s(100), s(10), s(130))


def test_checkpoints_count_from_where_a_run_begins_to_progress() -> None:
    costs = Costs(start_up=s(0), restore=s(20), checkpoint_every=s(30))
    world = AWorld(1000, costs=costs)
    world.start()
    world.until(30)
    world.stop()
    world.start(number=1)
    world.until(30 + 20 + 29)
    world.stop(number=1)
    assert (world.account().done, world.account().lost) == (s(30), s(29))


def test_a_gang_evicted_in_its_restore_loses_nothing_more() -> None:
    world = AWorld(1000, costs=Costs(start_up=s(0), restore=s(20), checkpoint_every=s(30)))
    world.start()
    world.until(30)
    world.stop()
    world.start(number=1)
    world.until(40)
    world.stop(number=1)
    account = world.account()
    assert (account.done, account.kept, account.lost, account.held) == (s(30), s(30), 0, s(40))


def test_a_gang_that_saves_when_told_loses_nothing_and_leaves_later() -> None:
    costs = Costs(start_up=s(0), restore=s(0), save=s(5), saves_when_told=True)
    world = AWorld(100, costs=costs)
    world.start()
    world.until(42)
    world.stop()
    assert world.states() == [WorkerState.RUNNING] * 2
    world.until(47)
    assert world.states() == [WorkerState.ENDED] * 2
    account = world.account()
    assert (account.done, account.kept, account.lost, account.held) == (s(42), s(42), 0, s(47))


def test_a_save_that_outlasts_the_grace_is_cut_off() -> None:
    costs = Costs(start_up=s(0), checkpoint_every=s(30), save=s(5), saves_when_told=True)
    world = AWorld(100, costs=costs)
    world.start()
    world.until(42)
    world.stop(kill_at=Instant(s(45)))
    world.until(45)
    assert {report.exit_code for report in world.cluster.observe().workers} == {128 + 9}
    assert (world.account().done, world.account().lost) == (s(30), s(12))


def test_a_gang_stopped_before_it_is_up_never_runs() -> None:
    world = AWorld(100, costs=Costs(start_up=s(10)))
    world.start()
    world.until(5)
    world.stop()
    world.until(50)
    assert world.states() == [WorkerState.ENDED] * 2
    assert (world.account().held, world.account().kept) == (s(5), 0)


def test_gangs_that_share_a_link_slow_each_other_only_while_both_run() -> None:
    """100 alone until 50, then both at half until the first has done its other 50 at 150; the
    second has done 50 by then and needs 50 more alone."""
    world = AWorld(100, 100, speeds=SharedLink())
    world.start("job-1")
    world.until(50)
    world.start("job-2")
    world.until(149.9)
    assert world.states("job-1") == [WorkerState.RUNNING] * 2
    world.until(150)
    assert world.states("job-1") == [WorkerState.ENDED] * 2
    world.until(199.9)
    assert world.states("job-2") == [WorkerState.RUNNING] * 2
    world.until(200)
    assert world.states("job-2") == [WorkerState.ENDED] * 2
    assert world.account("job-1").exposed == s(50)
    assert world.account("job-2").exposed == s(50)


def test_a_checkpoint_holds_what_was_done_at_the_speed_of_its_time() -> None:
    """Full speed to 10, half to 40: the checkpoint at 30 holds 10 + 10 of work."""
    costs = Costs(start_up=s(0), restore=s(0), checkpoint_every=s(30))
    world = AWorld(100, 100, speeds=SharedLink(), costs=costs)
    world.start("job-1")
    world.until(10)
    world.start("job-2")
    world.until(40)
    world.stop("job-1")
    assert (world.account().done, world.account().lost) == (s(20), s(10))


def test_an_eviction_gives_the_others_their_speed_back() -> None:
    world = AWorld(100, 100, speeds=SharedLink())
    world.start("job-1")
    world.start("job-2")
    world.until(20)
    world.stop("job-1")
    world.until(20 + 90)
    assert world.states("job-2") == [WorkerState.ENDED] * 2


def test_a_lost_node_takes_its_workers_and_stops_the_rest_of_their_gang() -> None:
    world = AWorld(
        100, costs=Costs(start_up=s(0), checkpoint_every=s(30)), nodes={"r1-n0": 1, "r1-n1": 1}
    )
    world.agenda.put(Instant(s(50)), Kind.NODE, NodeFails(NodeName("r1-n1")))
    world.agenda.put(Instant(s(80)), Kind.NODE, NodeReturns(NodeName("r1-n1")))
    world.start()
    world.until(60)
    view = world.cluster.observe()
    assert [report.state for report in view.workers] == [WorkerState.RUNNING, WorkerState.GONE]
    assert view.workers[1].outcome is Outcome.NODE_LOST
    assert [node.is_ready for node in view.nodes] == [True, False]
    world.stop()
    account = world.account()
    assert (account.done, account.lost, account.held, account.failures) == (s(30), s(20), s(60), 1)
    world.until(80)
    assert all(node.is_ready for node in world.cluster.observe().nodes)


def test_a_gang_whole_on_a_lost_node_is_gone_at_once() -> None:
    world = AWorld(100)
    world.agenda.put(Instant(s(50)), Kind.NODE, NodeFails(NodeName("r1-n0")))
    world.start()
    world.until(50)
    assert world.states() == [WorkerState.GONE] * 2
    world.cluster.forget(a_key())
    assert world.cluster.observe().workers == ()


APART = Costs(start_up=s(0), restore=s(0), ends_apart=s(4))
"""Rank 0 needs four seconds more when the work is done."""


def test_rank_0_ends_after_the_others_whose_gpus_are_free_before() -> None:
    world = AWorld(100, costs=APART)
    world.start()
    world.until(100)
    first, second = world.cluster.observe().workers
    assert (first.state, first.exit_code) == (WorkerState.RUNNING, None)
    ended = (WorkerState.ENDED, 0, Outcome.COMPLETED, Instant(s(100)))
    assert (second.state, second.exit_code, second.outcome, second.ended_at) == ended
    assert world.crowd.gpus_held == 1
    world.until(103.999)
    assert world.states() == [WorkerState.RUNNING, WorkerState.ENDED]
    world.until(104)
    first, second = world.cluster.observe().workers
    assert (first.state, first.exit_code, first.ended_at) == (WorkerState.ENDED, 0, Instant(s(104)))
    assert second.ended_at == Instant(s(100))
    assert world.crowd.gpus_held == 0
    assert (world.account().held, world.account().kept, world.account().lost) == (s(104), s(100), 0)


def test_a_gang_that_is_stopped_while_rank_0_ends_has_its_work_saved_and_its_gpus_back() -> None:
    world = AWorld(100, costs=replace(APART, saves_when_told=True))
    world.start()
    world.until(102)
    world.stop()
    first, second = world.cluster.observe().workers
    assert (first.exit_code, second.exit_code) == (128 + 15, 0)
    assert (world.account().done, world.account().held) == (s(100), s(102))
    assert world.crowd.gpus_held == 0


@pytest.mark.parametrize(
    ("lost", "states"),
    [
        pytest.param("r1-n0", [WorkerState.GONE, WorkerState.ENDED], id="that of rank 0"),
        pytest.param("r1-n1", [WorkerState.ENDED, WorkerState.ENDED], id="that of another rank"),
    ],
)
def test_a_node_lost_while_rank_0_ends_matters_only_to_rank_0(
    lost: str, states: list[WorkerState]
) -> None:
    world = AWorld(100, costs=APART, nodes={"r1-n0": 1, "r1-n1": 1})
    world.agenda.put(Instant(s(102)), Kind.NODE, NodeFails(NodeName(lost)))
    world.start()
    world.until(110)
    assert world.states() == states
    assert world.crowd.gpus_held == 0


def test_a_view_after_the_first_holds_only_what_has_changed() -> None:
    world = AWorld(100, 200)
    world.start("job-1")
    first = world.cluster.observe()
    assert first.is_complete
    assert not world.cluster.has_news
    world.start("job-2")
    assert world.cluster.has_news
    second = world.cluster.observe(first.sequence)
    assert {report.attempt for report in second.workers} == {a_key("job-2")}
    assert second.nodes is first.nodes
    assert world.cluster.observe(second.sequence).workers == ()
    assert len(world.cluster.observe(first.sequence).workers) == 4


@pytest.mark.parametrize("again", ["prepare", "release", "stop", "forget"])
def test_asking_twice_is_as_asking_once(again: str) -> None:
    world = AWorld(100)
    world.start()
    world.until(10)
    match again:
        case "prepare" | "release":
            world.start()
            world.until(100)
            assert world.account().kept == s(100)
        case _:
            world.stop()
            world.stop()
            world.cluster.forget(a_key())
            world.cluster.forget(a_key())
            world.stop()
            assert world.cluster.observe().workers == ()
            assert world.account().held == s(10)


def test_full_speed_is_no_exposed_communication() -> None:
    assert (FULL_SPEED.progress, FULL_SPEED.exposed) == (1, 0)
