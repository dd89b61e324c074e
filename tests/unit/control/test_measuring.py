"""What step reports come to: steps counted once, losses measured, gangs stopped for them live."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.control.learning import take_in
from scheduler.control.measuring import measured
from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.ids import GpuModel, LevelName, QueueName, Rank
from scheduler.domain.instants import HOUR, MINUTE, SECOND, Duration, seconds
from scheduler.domain.job import CheckpointRequest, FailurePolicy, Job, JobPhase
from scheduler.domain.knobs import NetworkMoves, PolicyKnobs
from scheduler.domain.progress import Progress
from scheduler.domain.queue import Queue
from scheduler.domain.snapshot import Measured
from scheduler.domain.step_times import LearnedStepTimes, LearnedTier, StepReport, counted
from scheduler.domain.topology import CLUSTER_LEVEL, NODE_LEVEL, Uplink, topology_tree
from scheduler.engine.distance import Distances
from scheduler.engine.ladders import Ladders
from scheduler.ports.cluster import GangOrder
from scheduler.ports.job_store import EventQuery
from scheduler.ports.unit import SaveQueue, Unit
from tests.builders import LEVEL_NAMES, a_cluster, a_job
from tests.simulation.sensitive_world import COMPUTES, TALKS, narrow_fabric
from tests.step_times import SaidStepTimes
from tests.worlds import World

RACK = LevelName(LEVEL_NAMES[0])
ANY = GpuModel("")
PICTURE = a_cluster("r1: 8 8\nr2: 8 8")
TREE = topology_tree(PICTURE.levels, PICTURE.nodes)

SAVES = CheckpointRequest(
    path="/ckpt", every=Duration(10 * MINUTE), restart_cost=Duration(30 * SECOND), is_declared=True
)


def a_tier(level: str, steps: float = 0, step_s: float = 0.0) -> LearnedTier:
    """So many steps of so many seconds at a level."""
    return LearnedTier(
        level=LevelName(level), predicted_s=1.0, ratio=1.0, steps=steps, run_s=steps * step_s
    )


def reported(*reports: tuple[int, int, float], begins_anew: bool = False) -> tuple[float, float]:
    """Steps and run time after reports of (attempt, step, seconds), all from one rack."""
    times = LearnedStepTimes(tiers=(a_tier(RACK),))
    for attempt, step, step_s in reports:
        report = StepReport(attempt=attempt, step=step, step_s=step_s, begins_anew=begins_anew)
        times = counted(times, RACK, ANY, report)
    (tier,) = times.tiers
    return tier.steps, tier.run_s


@pytest.mark.parametrize(
    ("reports", "steps", "run_s"),
    [
        pytest.param([(0, 10, 2.0)], 1, 2.0, id="what came before the first report is unknown"),
        pytest.param([(0, 10, 2.0), (0, 30, 1.0)], 21, 22.0, id="each stands for the steps since"),
        pytest.param([(0, 10, 2.0), (0, 10, 9.0)], 1, 2.0, id="the same step twice counts once"),
        pytest.param([(0, 10, 2.0), (0, 4, 2.0), (0, 6, 2.0)], 3, 6.0, id="a step counter reset"),
        pytest.param(
            [(0, 1, 1.0), (0, 100, 1.0), (1, 51, 1.0)], 51, 51.0, id="resumed halfway: half is lost"
        ),
        pytest.param([(0, 1, 1.0), (0, 100, 1.0), (1, 1, 1.0)], 1, 1.0, id="begun again: all lost"),
        pytest.param([(0, 1, 1.0), (0, 100, 1.0), (1, 101, 1.0)], 101, 101.0, id="nothing is lost"),
        pytest.param([(0, 0, 1.0)], 0, 0.0, id="no step is done yet"),
    ],
)
def test_reported_steps_are_counted_once(
    reports: Sequence[tuple[int, int, float]], steps: float, run_s: float
) -> None:
    assert reported(*reports) == pytest.approx((steps, run_s))


def test_lines_of_a_log_are_counted_from_the_beginning_of_each_attempt() -> None:
    assert reported((0, 10, 2.0), (1, 5, 1.0), begins_anew=True) == (15, 25.0)


SLOW = (1.0, 1.0, 3.0)
"""By the job's own profile, or by gangs of its size."""


def losses(
    *tiers: LearnedTier, own: Sequence[float] = SLOW, usual: Sequence[float] = SLOW
) -> float | None:
    """By how much the job was measured to be slower than at its best tier."""
    said = SaidStepTimes({"m": own}, usual=usual)
    times = LearnedStepTimes(tiers=tiers, reports_itself=True, attempt=0, step=7)
    found = measured(a_job("m", workers=2), times, said, TREE)
    return None if found is None else found.run_s / found.best_s


@pytest.mark.parametrize(
    ("tiers", "own", "usual", "slowdown"),
    [
        pytest.param([a_tier(RACK, 10, 1.0)], SLOW, SLOW, 1.0, id="at its best tier"),
        pytest.param([a_tier(NODE_LEVEL, 10, 1.0)], SLOW, SLOW, 1.0, id="closer than it asks for"),
        pytest.param(
            [a_tier(RACK, 10, 1.0), a_tier(CLUSTER_LEVEL, 10, 2.0)],
            *((9.0, 9.0, 9.0), (1.0, 1.0, 1.0)),
            1.5,
            id="at both: what was measured, whatever is predicted",
        ),
        pytest.param(
            [a_tier(RACK, 10, 2.0), a_tier(CLUSTER_LEVEL, 10, 2.0)], SLOW, SLOW, 1.0, id="no loss"
        ),
        pytest.param(
            [a_tier(CLUSTER_LEVEL, 10, 2.0)], (1, 1, 9.0), SLOW, 3.0, id="no more than is usual"
        ),
        pytest.param(
            [a_tier(CLUSTER_LEVEL, 10, 2.0)], (1, 1, 1.2), SLOW, 1.2, id="no more than it says"
        ),
        pytest.param([a_tier("gone", 10, 2.0)], SLOW, SLOW, None, id="at a level there was"),
        pytest.param([a_tier(CLUSTER_LEVEL)], SLOW, SLOW, None, id="no step was counted"),
    ],
)
def test_what_a_job_is_measured_to_lose(
    tiers: Sequence[LearnedTier],
    own: Sequence[float],
    usual: Sequence[float],
    slowdown: float | None,
) -> None:
    assert losses(*tiers, own=own, usual=usual) == (slowdown and pytest.approx(slowdown))


def test_what_a_job_declares_changes_nothing_in_how_much_it_counts_as_computing() -> None:
    def found(own: Sequence[float]) -> Measured | None:
        times = LearnedStepTimes(tiers=(a_tier(CLUSTER_LEVEL, 10, 3.0),), attempt=0, step=7)
        said = SaidStepTimes({"m": own}, usual=SLOW)
        return measured(a_job("m", workers=2), times, said, TREE)

    one, other = found((1.0, 1.0, 50.0)), found((1.0, 1.0, 1.0))
    assert one is not None
    assert other is not None
    # A third of the time at the best tier, half of which is computation by the prior.
    assert one.compute_s == other.compute_s == pytest.approx(10 * 3.0 / 3 / 2)


# Live: a gang that runs across racks reports, has to start again, and others make way for it.

V_AGE = Duration(100 * HOUR)


class FailsOnce:
    """Everybody runs until stopped, but the first attempt of `s` fails after 26 hours."""

    def __call__(self, order: GangOrder, rank: Rank) -> WorkerScript:
        """See GangScript."""
        if order.attempt.job_id == "id-s" and order.attempt.number == 0:
            return WorkerScript(run_for=Duration(26 * HOUR), exit_code=1)
        return WorkerScript()


def victim(**changes: object) -> Job:
    """It has had far more GPU time than the gang that is to run closer together."""
    return a_job("v", **({"checkpoint": SAVES} | changes))  # type: ignore[arg-type]  # any field


def sensitive(profile: CommunicationProfile = TALKS) -> Job:
    """A gang of two nodes that starts again once."""
    return a_job(
        "s",
        workers=2,
        communication=profile,
        failure_policy=FailurePolicy(restarts_max=1),
    )


def a_world(of: Job, knobs: PolicyKnobs | None = None) -> World:
    """Of each rack one node is taken: by `of`, and by a job that stands no stop."""
    world = World(
        PICTURE,
        knobs=replace(knobs or PolicyKnobs(), policy="dally"),
        step_times=partial(Ladders, fabric_maker=narrow_fabric),
        script=FailsOnce(),
        poll=Duration(HOUR),
    )
    world.store.write(Unit(changes=(SaveQueue(queue=Queue(name=QueueName("another"))),)))
    for job in (of, a_job("filler"), a_job("other")):
        world.submit(job)
        world.ticks()
    world.cancel("filler", at_once=True)
    world.ticks()
    world.run(V_AGE)
    return world


def runs_apart(world: World, job: Job, *, until: Duration = Duration(24 * HOUR)) -> None:
    """The gang holds out in vain and then starts across the racks."""
    world.submit(job)
    world.run(until)
    assert world.attempts("s")[-1].placement.tier_name == CLUSTER_LEVEL


def reports(world: World, *, step_s: float = 3.0) -> None:
    """Rank 0 of `s` tells of a hundred steps."""
    narrow = [replace(level, uplink=Uplink(oversubscription=16.0)) for level in PICTURE.levels]
    distances = Distances(narrow, PICTURE.nodes)
    for step in (1, 101):
        report = Progress(step=step, step_seconds=step_s, reported_at=world.clock.now())
        take_in(world.store, world.job("s"), world.attempts("s")[-1], report, distances)


def stops(world: World) -> list[str]:
    """What events say of gangs that are stopped for the sake of others."""
    events = world.store.events(EventQuery(limit=5_000))
    return [event.message for event in events if event.reason == "GangPreempted"]


@pytest.mark.parametrize("restarts", [False, True], ids=["", "by a server that has just started"])
def test_a_gang_that_reported_to_lose_by_distance_gets_the_gpus_of_another(
    *, restarts: bool
) -> None:
    world = a_world(victim())
    runs_apart(world, sensitive())
    reports(world)
    world.run(Duration(25 * HOUR))
    if restarts:
        world.restart()
    world.run(Duration(2 * HOUR))
    assert [attempt.placement.tier_name for attempt in world.attempts("s")] == ["cluster", "rack"]
    assert world.phase("s") is JobPhase.RUNNING
    assert stops(world) == ["it makes way for s; that costs it about 40 s of run time"]
    # The other one starts again on what is left.
    assert [attempt.number for attempt in world.attempts("v")] == [0, 1]


@pytest.mark.parametrize(
    ("changes", "knobs"),
    [
        pytest.param(
            {"checkpoint": CheckpointRequest()},
            {"benefit_min": 0.0, "lost_share_max": 2.0},
            id="that declares no checkpoint, were it worth anything",
        ),
        pytest.param({"queue": "another"}, {}, id="of another queue"),
        pytest.param({}, {"preemption": NetworkMoves.OFF}, id="where nobody is stopped"),
    ],
)
def test_by_default_no_gang_is_stopped_for_the_proximity_of_others(
    changes: Mapping[str, object], knobs: Mapping[str, object]
) -> None:
    world = a_world(victim(**changes), replace(PolicyKnobs(), **knobs))  # type: ignore[arg-type]  # any knob
    runs_apart(world, sensitive())
    reports(world)
    world.run(Duration(40 * HOUR))
    assert len(world.attempts("v")) == 1
    assert len(world.attempts("other")) == 1
    assert not stops(world)


def test_a_preemptible_gang_that_would_lose_all_it_has_done_is_not_stopped() -> None:
    world = a_world(victim(checkpoint=CheckpointRequest(), is_preemptible=True))
    runs_apart(world, sensitive())
    reports(world)
    world.run(Duration(40 * HOUR))
    assert not stops(world)


def test_nobody_is_stopped_for_a_gang_that_reported_nothing() -> None:
    world = a_world(victim())
    runs_apart(world, sensitive())
    world.run(Duration(27 * HOUR))
    assert len(world.attempts("s")) == 1
    assert not stops(world)


def test_nobody_is_stopped_for_a_gang_whose_profile_says_that_it_loses_nothing() -> None:
    world = a_world(victim())
    runs_apart(world, sensitive(COMPUTES), until=seconds(60))
    reports(world)
    world.run(Duration(50 * HOUR))
    assert not stops(world)
