"""Tiresias, Gandiva and Themis: whose turn it is, who may be stopped, and who is consolidated."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.history import PastJobs
from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import HOUR, MINUTE, SECOND, Duration, Instant
from scheduler.domain.job import Job
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import WaitingForCloserTier
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.domain.topology import topology_tree
from scheduler.domain.waits import JobEnd
from scheduler.network.tensor_skew import LARGEST_TENSORS, tensor_skew
from scheduler.policies.gandiva import Gandiva
from scheduler.policies.interface import Offer
from scheduler.policies.registry import POLICIES, STEADY
from scheduler.policies.themis import Themis
from scheduler.policies.tiresias import Tiresias, TiresiasGittins
from tests.builders import a_cluster, a_job, a_placement, a_running_gang, a_snapshot, at
from tests.step_times import SaidStepTimes

PICTURE = a_cluster("r1: 8 8\nr2: 8 8")


def ran(job: Job, seconds: float, **changes: object) -> Job:
    """It has run for so long, and waits again."""
    had = Duration(round(seconds * SECOND))
    return replace(job, ran_for=had, last_placed_at=at(0), **changes)  # type: ignore[arg-type]  # any field


def seen(
    *pending: Job,
    now: float = 0,
    running: Sequence[RunningGang] = (),
    knobs: PolicyKnobs | None = None,
) -> Snapshot:
    """A view of these jobs."""
    snapshot = a_snapshot("r1: 8 8\nr2: 8 8", pending=pending, now=at(now), knobs=knobs)
    return replace(
        snapshot,
        holding=tuple(running),
        step_times=SaidStepTimes({"m": (1.0, 1.0, 3.0)}),
        tree=topology_tree(PICTURE.levels, PICTURE.nodes),
    )


def on(job: Job, node: str, since: float) -> RunningGang:
    """The job runs on a node since then."""
    return a_running_gang(PICTURE, job, {node: 1}, since=at(since))


# Tiresias.


@pytest.mark.parametrize(
    ("had_s", "queue"),
    [
        pytest.param(0, 0, id="a new job"),
        pytest.param(406, 0, id="8 GPUs below 3250 GPU-seconds"),
        pytest.param(407, 1, id="from 3250 on"),
        pytest.param(899, 1, id="below 7200"),
        pytest.param(900, 2, id="from 7200 on"),
        pytest.param(90_000, 2, id="there is no fourth queue"),
    ],
)
def test_tiresias_queues_end_at_the_service_of_its_simulator(had_s: float, queue: int) -> None:
    policy = Tiresias(seen(now=had_s))
    assert policy.key(ran(a_job(gpus=8), had_s))[1] == queue


@pytest.mark.parametrize(
    ("waited_s", "knob", "queue"),
    [
        pytest.param(7_999 - 300, 8.0, 2, id="not yet eight times as long as it ran"),
        pytest.param(8_400, 8.0, 0, id="eight times as long"),
        pytest.param(8_400, 9.0, 2, id="the knob says nine times"),
        pytest.param(10**7, 0.0, 2, id="never"),
    ],
)
def test_a_job_that_waited_long_comes_back_into_the_first_queue(
    waited_s: float, knob: float, queue: int
) -> None:
    policy = Tiresias(seen(now=1_000 + waited_s, knobs=PolicyKnobs(promote_after=knob)))
    assert policy.key(ran(a_job(gpus=8, submitted_at=at(0)), 1_000))[1] == queue


def test_a_promoted_gang_stays_in_the_first_queue_for_that_queues_service() -> None:
    gang = on(ran(a_job(gpus=8, submitted_at=at(0)), 1_000), "r1-n0", since=12_000)
    new = a_job("new", submitted_at=at(12_100))
    early = Tiresias(seen(new, now=12_400, running=[gang]))
    assert early.rank(gang) < early.key(new)
    assert early.changes_at(gang) == at(12_407 - 0.75)
    late = Tiresias(seen(new, now=12_407, running=[gang]))
    assert late.rank(gang) > late.key(new)


def test_waiting_jobs_are_looked_at_for_promotion_though_nothing_happens() -> None:
    policy = Tiresias(seen(ran(a_job(), 1_000), now=1_001))
    assert policy.next_decision_at() == at(1_200)


@pytest.mark.parametrize(
    ("model", "holds_out"),
    [
        pytest.param("vgg16", True, id="most of it is one layer"),
        pytest.param("AlexNet", True, id="the same, by another spelling"),
        pytest.param("resnet50", False, id="evenly spread"),
        pytest.param("", False, id="no model is named"),
        pytest.param("deepspeech2", False, id="of which nothing is known"),
    ],
)
@pytest.mark.parametrize("policy", [Tiresias, TiresiasGittins])
def test_tiresias_consolidates_models_with_a_skew_alone(
    policy: type[Tiresias | TiresiasGittins], model: str, *, holds_out: bool
) -> None:
    profile = CommunicationProfile(model=model) if model else None
    job = a_job("m", workers=2, communication=profile)
    offer = Offer(placement=a_placement(PICTURE, job, {"r1-n0": 1, "r2-n0": 1}))
    answer = policy(seen(job)).accept(job, offer)
    assert isinstance(answer, WaitingForCloserTier) is holds_out


def test_the_skew_of_known_models_lies_where_the_paper_has_it() -> None:
    skews = {name: tensor_skew(CommunicationProfile(model=name)) or 0.0 for name in LARGEST_TENSORS}
    assert all(0 < skew < 1 for skew in skews.values())
    # Its models that gain by consolidation lie above 0.61, those that do not below 0.14.
    assert min(skews["vgg16"], skews["alexnet"]) > 0.61
    assert max(skews[name] for name in ("resnet50", "resnet152", "inception-v3")) < 0.14


def test_tiresias_gittins_goes_by_the_index_learned_from_ended_jobs() -> None:
    # All ended within 60 GPU-seconds, or after a million: one beyond the first bound is long.
    ends = tuple(
        JobEnd(
            job_id=JobId(f"e{n}"),
            queue=QueueName("default"),
            gpus=1,
            ran_for=Duration((40 if n % 2 else 10**6) * SECOND),
            is_complete=True,
            at=at(n),
        )
        for n in range(60)
    )
    young, old = a_job("z", gpus=1, submitted_at=at(9)), ran(a_job("a", gpus=1), 1_000)
    snapshot = replace(seen(young, old, now=1_010), past_jobs=PastJobs(version=1, ends=ends))
    policy = TiresiasGittins(snapshot)
    assert policy.key(young) < policy.key(old)
    assert policy.order_version != TiresiasGittins(seen(young, old, now=1_010)).order_version


# Gandiva.


def test_gandiva_gives_a_gang_its_slice_and_then_whoever_came_before_its_end() -> None:
    # Slices end at 120, 180, 240: at 180 it has had one in whole.
    gang = on(a_job("r"), "r1-n0", since=100)
    before, after_it = a_job("b", submitted_at=at(159)), a_job("a", submitted_at=at(181))
    in_slice = Gandiva(seen(before, now=179, running=[gang]))
    assert not in_slice.may_stop(gang)
    assert in_slice.next_decision_at() == at(180)
    over = Gandiva(seen(before, after_it, now=185, running=[gang]))
    assert over.may_stop(gang)
    assert over.key(before) < over.rank(gang) < over.key(after_it)
    assert over.next_decision_at() == at(240)


def test_gandiva_lets_the_job_go_first_that_was_stopped_first() -> None:
    policy = Gandiva(seen(now=500))
    jobs = [
        ran(a_job("z", submitted_at=at(0)), 60, phase_since=at(200)),
        a_job("y", submitted_at=at(250)),
        ran(a_job("a", submitted_at=at(0)), 60, phase_since=at(300)),
    ]
    assert sorted(jobs, key=policy.key) == jobs


def test_a_gang_that_has_not_begun_is_not_stopped_by_gandiva() -> None:
    gang = on(a_job("r"), "r1-n0", since=0)
    starting = replace(gang, attempt=replace(gang.attempt, running_since=None))
    assert not Gandiva(seen(a_job(), now=900, running=[starting])).may_stop(starting)


def test_the_slice_is_a_knob() -> None:
    gang = on(a_job("r"), "r1-n0", since=0)
    knobs = PolicyKnobs(time_slice=Duration(10 * MINUTE))
    assert not Gandiva(seen(a_job(), now=599, running=[gang], knobs=knobs)).may_stop(gang)
    assert Gandiva(seen(a_job(), now=600, running=[gang], knobs=knobs)).may_stop(gang)


# Themis.

HOURS = 3_600


def test_themis_offers_to_the_worst_off_first() -> None:
    # Remaining time of all is 6 h: rho of a job that waited 6 h is 2, of a new one 1.
    jobs = [a_job(f"j{n}", submitted_at=at(n * HOURS)) for n in range(10)]
    policy = Themis(seen(*jobs, now=10 * HOURS))
    assert sorted(jobs, key=policy.key) == jobs
    # f = 0.8 of ten jobs: two are the worst-off; the others go by submission.
    assert [policy.key(job)[1] for job in jobs] == [0, 0] + 8 * [1]


def test_a_job_that_has_run_most_of_its_time_is_less_badly_off() -> None:
    waited = a_job("w", submitted_at=at(0))
    served = ran(a_job("a", submitted_at=at(0)), 9 * HOURS)
    policy = Themis(seen(waited, served, now=10 * HOURS))
    assert policy.key(waited) < policy.key(served)


def test_themis_keeps_a_gang_for_its_lease() -> None:
    gang = on(a_job("r", submitted_at=at(0)), "r1-n0", since=0)
    job = a_job("w", submitted_at=at(0))
    early = Themis(seen(job, now=1_199, running=[gang]))
    assert not early.may_stop(gang)
    assert early.changes_at(gang) == at(1_200)
    assert Themis(seen(job, now=1_200, running=[gang])).may_stop(gang)


def test_the_filter_of_themis_is_a_knob() -> None:
    jobs = [a_job(f"j{n}", submitted_at=at(n * HOURS)) for n in range(10)]
    policy = Themis(seen(*jobs, now=10 * HOURS, knobs=PolicyKnobs(fairness_filter=0.5)))
    assert [policy.key(job)[1] for job in jobs] == 5 * [0] + 5 * [1]


@pytest.mark.parametrize("policy", [Tiresias, TiresiasGittins, Gandiva, Themis])
def test_priority_goes_before_all_else(
    policy: type[Tiresias | TiresiasGittins | Gandiva | Themis],
) -> None:
    urgent = ran(a_job("z", priority=5, submitted_at=at(900)), 10**5)
    usual = a_job("a", submitted_at=Instant(0))
    found = policy(seen(urgent, usual, now=HOUR / SECOND))
    assert found.key(urgent) < found.key(usual)


@pytest.mark.parametrize("policy", [Tiresias, TiresiasGittins, Gandiva, Themis])
def test_nothing_is_to_be_decided_while_nobody_waits(
    policy: type[Tiresias | TiresiasGittins | Gandiva | Themis],
) -> None:
    gang = on(a_job("r"), "r1-n0", since=0)
    assert policy(seen(now=100, running=[gang])).next_decision_at() is None


@pytest.mark.parametrize("name", sorted(POLICIES))
def test_a_policy_is_steady_if_it_decides_of_nobody_but_those_who_wait(name: str) -> None:
    snapshot = seen(knobs=PolicyKnobs(policy=name))
    policy = POLICIES[name](snapshot)
    rests = policy.ranks is None and policy.moves is None and policy.next_decision_at() is None
    assert rests == (name in STEADY)
