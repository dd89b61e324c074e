"""Every reason has a sentence with its numbers and a way out."""

from typing import get_args

import pytest

from scheduler.domain.explain import (
    Verdict,
    clock_time,
    explain,
    explain_outcome,
    explain_placement,
    explain_refused_move,
    explain_stop,
    short_duration,
    verdict,
    ways_out,
)
from scheduler.domain.ids import LevelName, NodeName, PoolName, Rank, RoleName
from scheduler.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, seconds
from scheduler.domain.job import Outcome, StopCause, WorkerEnd
from scheduler.domain.placement import (
    BackingOff,
    BehindHead,
    Blocked,
    ClusterUnreachable,
    HeldForLargeGang,
    LevelMissing,
    NeverFits,
    PoolMissing,
    PromisedGpus,
    StoreOutdated,
    TooFewGpus,
    WaitingForCloserTier,
)
from scheduler.domain.timers import TimerReason
from scheduler.domain.topology import CLUSTER_LEVEL
from tests.builders import a_cluster, a_job, a_placement, at

RACK = LevelName("rack")

EXAMPLES: list[tuple[Blocked, str]] = [
    (
        TooFewGpus(
            level=RACK,
            workers_wanted=4,
            workers_fit_max=3,
            workers_fit_by_level={LevelName("node"): 1, RACK: 3},
            nodes=6,
            nodes_by_reason={"Fits": 2, "TooFewGpus": 3, "Cordoned": 1},
        ),
        "waiting for GPUs: room for 3 of 4 workers within one rack (1 within one node); "
        "of 6 nodes: 3 with too few free GPUs, 2 with room for a worker, 1 cordoned",
    ),
    (
        TooFewGpus(
            level=RACK,
            role=RoleName("ps"),
            workers_wanted=3,
            workers_fit_max=2,
            nodes=2,
            nodes_by_reason={"Fits": 1, "TooLittleCpu": 1},
        ),
        "waiting for GPUs: room for 2 of 3 workers of role ps within one rack; "
        "of 2 nodes: 1 with room for a worker, 1 with too few free CPUs",
    ),
    (
        NeverFits(
            level=RACK,
            workers_wanted=9,
            workers_fit_max=4,
            nodes=4,
            nodes_by_reason={"Fits": 4},
        ),
        "can never start: one rack, were it empty, would not hold 9 workers; "
        "of 4 nodes: 4 with room for a worker",
    ),
    (
        NeverFits(level=CLUSTER_LEVEL, workers_wanted=1, workers_fit_max=0, nodes=1),
        "can never start: the whole cluster, were it empty, would not hold 1 worker; "
        "of 1 node: none looked at",
    ),
    (
        BackingOff(until=at(90), restarts=2),
        "waiting until 1970-01-01 00:01:30 UTC after 2 restarts, so that a failing job does "
        "not spin",
    ),
    (
        BackingOff(until=at(90), restarts=1, said="the cluster refused a worker"),
        "waiting until 1970-01-01 00:01:30 UTC after 1 restart, so that a failing job does "
        "not spin; last time: the cluster refused a worker",
    ),
    (
        BehindHead(jobs_ahead=1),
        "behind 1 job of its queue, the first of which waits for GPUs; the queue's policy "
        "starts nothing past it",
    ),
    (
        WaitingForCloserTier(
            level=RACK,
            until=at(3600),
            timer=Duration(12 * MINUTE),
            timer_samples=87,
            offered_level=LevelName("cluster"),
            gpus_free_at_offer=32,
            domains_at_offer=3,
            step_slowdown=2.31,
        ),
        "waiting for one rack until 1970-01-01 01:00:00 UTC (timer 12 min, from 87 past waits); "
        "32 GPUs are free now across 3 racks, where a step would take 2.3x as long",
    ),
    (
        WaitingForCloserTier(
            level=RACK,
            until=None,
            timer=None,
            timer_samples=0,
            offered_level=LevelName("cluster"),
            gpus_free_at_offer=32,
            domains_at_offer=3,
            step_slowdown=2.31,
        ),
        "waiting for one rack, however long (its timer is infinite); "
        "32 GPUs are free now across 3 racks, where a step would take 2.3x as long",
    ),
    (
        WaitingForCloserTier(
            level=RACK,
            until=at(3600),
            timer=Duration(6 * HOUR),
            timer_samples=0,
            timer_reason=TimerReason.SHARING,
            offered_level=LevelName("cluster"),
            gpus_free_at_offer=32,
            domains_at_offer=3,
            step_slowdown=2.31,
            gangs_beside=2,
        ),
        "waiting for one rack until 1970-01-01 01:00:00 UTC (timer 6 h, what it and those on its "
        "links would lose by each other); 32 GPUs are free now across 3 racks, where a step would "
        "take 2.3x as long beside 2 gangs on its links",
    ),
    *(
        (
            WaitingForCloserTier(
                level=RACK,
                until=at(3600),
                timer=Duration(12 * MINUTE),
                timer_samples=0,
                timer_reason=reason,
                offered_level=LevelName("cluster"),
                gpus_free_at_offer=32,
                domains_at_offer=3,
                step_slowdown=2.31,
            ),
            f"waiting for one rack until 1970-01-01 01:00:00 UTC (timer 12 min, {said}); "
            "32 GPUs are free now across 3 racks, where a step would take 2.3x as long",
        )
        for reason, said in [
            (TimerReason.WORTH, "the value of waiting"),
            (TimerReason.FIXED, "fixed by the policy's knobs"),
            (TimerReason.MOVING, "what it costs to start wide and move later"),
            (TimerReason.LIMIT, "the longest wait there is"),
        ]
    ),
    (
        HeldForLargeGang(level=RACK, domain="r7", holder="llama"),
        "rack r7 would fit and is kept free for llama, a large gang that has waited long",
    ),
    (
        PromisedGpus(level=RACK, nodes=2, gpus=16),
        "16 GPUs on 2 nodes of one rack are promised to it: it starts when the gangs stopped "
        "for it leave",
    ),
    (PoolMissing(pool=PoolName("h100")), "no node belongs to pool h100"),
    (
        LevelMissing(level=LevelName("spine"), levels=(LevelName("node"), LevelName("cluster"))),
        "this cluster has no level spine; its levels are node, cluster",
    ),
    (
        ClusterUnreachable(since=at(1)),
        "the cluster has not answered since 1970-01-01 00:00:01 UTC; what runs goes on, "
        "nothing starts until it answers",
    ),
    (
        StoreOutdated(since=at(1), gangs=2),
        "safe mode since 1970-01-01 00:00:01 UTC: 2 gangs on the cluster are not known here, so "
        "the database is older than the cluster (restored from a backup?); what runs goes on, "
        "nothing is started or stopped",
    ),
]


@pytest.mark.parametrize(
    ("reason", "sentence"), EXAMPLES, ids=[type(reason).__name__ for reason, _ in EXAMPLES]
)
def test_each_reason_has_a_sentence_with_its_numbers(reason: Blocked, sentence: str) -> None:
    assert explain(reason) == sentence


@pytest.mark.parametrize(
    ("reasons", "ways"),
    [
        pytest.param({"TooFewGpus": 2}, ["wait: it starts when running jobs end"], id="all full"),
        pytest.param(
            {"Cordoned": 2},
            ["an admin opens 2 nodes again", "wait until nodes take workers again"],
            id="all closed: no running job is in the way",
        ),
        pytest.param(
            {"LeftAlone": 1, "TooFewGpus": 1},
            ["an admin opens 1 node again", "wait: it starts when running jobs end"],
            id="some closed",
        ),
        pytest.param({"NotReady": 2}, ["wait until nodes take workers again"], id="all down"),
    ],
)
def test_the_way_out_of_too_few_gpus_is_that_of_its_nodes(
    reasons: dict[str, int], ways: list[str]
) -> None:
    blocked = TooFewGpus(
        level=RACK, workers_wanted=2, workers_fit_max=0, nodes=2, nodes_by_reason=reasons
    )
    assert [way[: len(start)] for way, start in zip(ways_out(blocked), ways, strict=True)] == ways


@pytest.mark.parametrize("reason", [reason for reason, _ in EXAMPLES])
def test_each_reason_has_a_way_out_and_a_verdict(reason: Blocked) -> None:
    assert all(ways_out(reason))
    assert ways_out(reason)
    assert verdict(reason) in Verdict


def test_no_reason_lacks_an_example() -> None:
    assert {type(reason) for reason, _ in EXAMPLES} == set(get_args(Blocked))


@pytest.mark.parametrize("outcome", list(Outcome))
def test_each_outcome_has_a_sentence(outcome: Outcome) -> None:
    assert explain_outcome(outcome)


@pytest.mark.parametrize("cause", list(StopCause))
def test_each_stop_cause_has_a_sentence(cause: StopCause) -> None:
    assert explain_stop(cause)


def test_an_outcome_names_the_worker_its_node_its_exit_code_and_its_error() -> None:
    end = WorkerEnd(
        rank=Rank(3),
        exit_code=139,
        outcome=Outcome.KILLED,
        message="core dumped",
        ended_at=at(5),
    )
    assert explain_outcome(Outcome.KILLED, end=end, node=NodeName("r1-n0")) == (
        "a worker was killed by a signal that the scheduler did not send "
        "(rank 3 on r1-n0, killed by signal 11): core dumped"
    )


def test_a_placement_names_its_nodes_and_its_level() -> None:
    cluster = a_cluster("r1: 8 8\nr2: 8")
    placement = a_placement(cluster, a_job(workers=3, gpus=4), {"r1-n0": 2, "r1-n1": 1})
    assert explain_placement(placement) == "3 workers on r1-n0 (2), r1-n1 (1), within one rack"


def test_a_wide_placement_does_not_fill_the_screen() -> None:
    cluster = a_cluster("r1: " + "8 " * 20)
    spots = {f"r1-n{number}": 1 for number in range(20)}
    sentence = explain_placement(a_placement(cluster, a_job(workers=20), spots))
    assert "12 nodes more" in sentence
    assert len(sentence) < 160


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        pytest.param(seconds(1.5), "1.5 s", id="below a minute"),
        pytest.param(Duration(12 * MINUTE), "12 min", id="whole minutes"),
        pytest.param(Duration(2 * MINUTE + 5 * SECOND), "2 min 5 s", id="minutes"),
        pytest.param(Duration(2 * HOUR + 5 * MINUTE), "2 h 5 min", id="hours"),
        pytest.param(Duration(3 * DAY + HOUR), "3 d 1 h", id="days"),
    ],
)
def test_a_duration_is_said_in_its_two_largest_units(duration: Duration, words: str) -> None:
    assert short_duration(duration) == words


def test_an_instant_is_said_in_utc() -> None:
    assert clock_time(at(0.9)) == "1970-01-01 00:00:00 UTC"


@pytest.mark.parametrize(
    ("origin", "target", "said"),
    [
        pytest.param("Starting", "Held", "job a is Starting: only a Pending job can", id="hold"),
        pytest.param("Failed", "Pending", "job a is Failed: only a Held job can", id="release"),
        pytest.param("Running", "Deleted", "job a is Running: only a job that has", id="delete"),
        pytest.param("Failed", "Running", "it can not become Running from there", id="another"),
    ],
)
def test_a_refused_order_names_the_job_and_the_phase_it_is_in(
    origin: str, target: str, said: str
) -> None:
    assert said in explain_refused_move("a", origin, target)
