"""One decision: who starts, who waits and why."""

import random
from dataclasses import replace

import pytest

from scheduler.domain.ids import NodeName, QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.domain.knobs import Algorithm, PolicyKnobs
from scheduler.domain.placement import BackingOff, BehindHead, Blocked, NeverFits, TooFewGpus
from scheduler.domain.plan import Plan
from scheduler.domain.queue import Queue
from scheduler.domain.snapshot import Snapshot
from scheduler.engine.cycle import decide, decide_by_knobs, decide_on, has_nobody_to_move
from scheduler.engine.invariants import check_plan
from scheduler.engine.standing import Standing
from scheduler.policies.fifo import Fifo
from scheduler.policies.interface import Offer
from scheduler.policies.registry import POLICIES, policy_named
from tests.builders import a_cluster, a_job, a_queue, a_running_gang, a_snapshot, at
from tests.pads import spots

BACKFILL = PolicyKnobs(policy="fifo-backfill")


def planned(snapshot: Snapshot) -> Plan:
    """The checked decision on a snapshot by the policy its knobs name."""
    plan = decide(snapshot, policy_named(snapshot.knobs.policy))
    check_plan(snapshot, plan)
    return plan


def started(plan: Plan) -> list[str]:
    return [start.job_id.removeprefix("id-") for start in plan.start]


@pytest.mark.parametrize(
    ("jobs", "names"),
    [
        pytest.param(
            [a_job("b", submitted_at=at(2)), a_job("a", submitted_at=at(1))], ["a"], id="earlier"
        ),
        pytest.param(
            [a_job("a", submitted_at=at(1)), a_job("b", submitted_at=at(2), priority=5)],
            ["b"],
            id="higher priority",
        ),
        pytest.param([a_job("b"), a_job("a")], ["a"], id="a tie goes to the smaller id"),
    ],
)
def test_the_first_in_order_gets_the_gpus(jobs: list[Job], names: list[str]) -> None:
    assert started(planned(a_snapshot("r1: 8", pending=jobs))) == names


def test_strict_fifo_starts_nothing_past_a_job_that_waits_for_gpus() -> None:
    jobs = [a_job("a"), a_job("b", workers=2), a_job("c"), a_job("d", priority=-1)]
    plan = planned(a_snapshot("r1: 8 8", pending=jobs))
    assert started(plan) == ["a"]
    assert isinstance(plan.blocked[jobs[1].id], TooFewGpus)
    assert plan.blocked[jobs[2].id] == BehindHead(jobs_ahead=1)
    assert plan.blocked[jobs[3].id] == BehindHead(jobs_ahead=2)


def test_backfill_passes_a_job_that_waits_for_gpus() -> None:
    jobs = [a_job("a"), a_job("b", workers=2), a_job("c")]
    plan = planned(a_snapshot("r1: 8 8", pending=jobs, knobs=BACKFILL))
    assert started(plan) == ["a", "c"]


def test_a_strict_queue_holds_up_itself_alone() -> None:
    queues = [Queue(name=QueueName("x")), Queue(name=QueueName("y"))]
    jobs = [a_job("a", queue="x", workers=3), a_job("b", queue="x"), a_job("c", queue="y")]
    held = [(a_job("r"), {"r1-n0": 1})]
    plan = planned(a_snapshot("r1: 8 8 8", pending=jobs, queues=queues, running=held))
    assert started(plan) == ["c"]


def test_a_queue_may_have_its_own_policy() -> None:
    queues = [a_queue("x", policy="fifo-backfill")]
    jobs = [a_job("a", queue="x", workers=2), a_job("b", queue="x")]
    snapshot = a_snapshot("r1: 8", pending=jobs, queues=queues)
    assert started(planned(snapshot)) == ["b"]


def test_a_job_that_never_fits_does_not_hold_up_a_strict_queue() -> None:
    jobs = [a_job("a", workers=9), a_job("b")]
    plan = planned(a_snapshot("r1: 8 8", pending=jobs))
    assert isinstance(plan.blocked[jobs[0].id], NeverFits)
    assert started(plan) == ["b"]


def test_a_job_in_backoff_waits_without_holding_up_others_and_sets_the_wakeup() -> None:
    jobs = [a_job("a", not_before=at(60)), a_job("b", workers=2)]
    plan = planned(a_snapshot("r1: 8 8", pending=jobs, now=at(10)))
    assert plan.blocked[jobs[0].id] == BackingOff(until=at(60), restarts=0)
    assert started(plan) == ["b"]
    assert plan.next_wakeup == at(60)
    later = planned(a_snapshot("r1: 8 8", pending=jobs[:1], now=at(60)))
    assert started(later) == ["a"]


def test_what_running_gangs_hold_is_not_given_away() -> None:
    snapshot = a_snapshot(
        "r1: 8 8", pending=[a_job("a", workers=2)], running=[(a_job("r", gpus=1), {"r1-n0": 1})]
    )
    assert started(planned(snapshot)) == []


def test_a_rank_that_has_ended_holds_nothing_any_more() -> None:
    snapshot = a_snapshot(
        "r1: 8 8",
        pending=[a_job("a")],
        running=[(a_job("r", workers=2), {"r1-n0": 1, "r1-n1": 1})],
    )
    gang = snapshot.holding[0]
    half = replace(gang, reservations=gang.reservations[1:])
    plan = planned(replace(snapshot, holding=(half,)))
    assert plan.start[0].placement.assignments[0].node == NodeName("r1-n0")


@pytest.mark.parametrize("policy", sorted(POLICIES))
@pytest.mark.parametrize("seed", range(10))
def test_the_order_of_the_snapshot_carries_no_meaning(policy: str, seed: int) -> None:
    rng = random.Random(seed)
    jobs = [
        a_job(
            f"job-{n}",
            workers=rng.choice([1, 1, 2, 4]),
            gpus=rng.choice([1, 2, 8]),
            submitted_at=Instant(rng.randrange(3)),
            priority=rng.randrange(2),
        )
        for n in range(12)
    ]
    snapshot = a_snapshot("r1: 8 8\nr2: 8 4", pending=jobs, knobs=PolicyKnobs(policy=policy))
    shuffled = replace(
        snapshot,
        pending=tuple(rng.sample(snapshot.pending, len(jobs))),
        nodes=tuple(rng.sample(snapshot.nodes, len(snapshot.nodes))),
    )
    assert planned(snapshot) == planned(shuffled)


def test_equal_requests_get_one_answer() -> None:
    jobs = [a_job(f"job-{n}", workers=2) for n in range(5)]
    snapshot = a_snapshot("r1: 8", pending=[*jobs, a_job("z", workers=3, gpus=4)], knobs=BACKFILL)
    plan = planned(snapshot)
    assert len({id(plan.blocked[job.id]) for job in jobs}) == 1


def test_answers_hold_until_something_is_taken_or_freed() -> None:
    snapshot = a_snapshot("r1: 8", pending=[a_job("a", workers=2)], knobs=BACKFILL)
    standing = Standing.of(snapshot)
    fifo = policy_named("fifo-backfill")
    before = decide_on(standing, snapshot, fifo)
    again = decide_on(standing, snapshot, fifo)
    assert next(iter(before.alike.values())) is next(iter(again.alike.values()))
    standing.renew(standing.free.tree, snapshot.nodes, ())
    renewed = decide_on(standing, snapshot, fifo)
    assert next(iter(before.alike.values())) is not next(iter(renewed.alike.values()))
    assert before == renewed


def test_a_decision_leaves_what_it_stands_on_as_it_was() -> None:
    snapshot = a_snapshot("r1: 8 8", pending=[a_job("a", workers=2)])
    standing = Standing.of(snapshot)
    first = decide_on(standing, snapshot, policy_named("fifo"))
    assert started(first.plan) == ["a"]
    assert decide_on(standing, snapshot, policy_named("fifo")) == first


@pytest.mark.parametrize(
    ("placing", "expected"),
    [
        pytest.param(Algorithm.BEST_FIT, {"r1-n0": 1, "r1-n1": 5}, id="fullest, last one tight"),
        pytest.param(Algorithm.LEAST_FREE, {"r1-n0": 2, "r1-n2": 4}, id="smallest holes"),
        pytest.param(Algorithm.BALANCED, {"r1-n1": 3, "r1-n2": 3}, id="evenly"),
        pytest.param(Algorithm.FIRST_FIT, {"r1-n0": 2, "r1-n1": 4}, id="in topology order"),
    ],
)
def test_a_knob_chooses_how_nodes_are_chosen(placing: Algorithm, expected: dict[str, int]) -> None:
    knobs = PolicyKnobs(policy="fifo", placing=placing)
    plan = planned(a_snapshot("r1: 2 5 4", pending=[a_job("a", workers=6, gpus=1)], knobs=knobs))

    assert spots(plan.start[0].placement) == expected


def test_what_was_found_by_one_rule_of_placing_is_not_answered_under_another() -> None:
    """The job declines both times, so that nothing is taken in between."""
    job = a_job("a", gpus=1)
    running = [(a_job("r", gpus=4), {"r1-n1": 1})]
    found: list[str] = []

    def seen(placing: Algorithm) -> Snapshot:
        knobs = PolicyKnobs(policy="nowait", placing=placing)
        return a_snapshot("r1: 8 8", pending=[job], running=running, knobs=knobs)

    class Declines(Fifo):
        """Notes each offer."""

        def accept(self, job: Job, offer: Offer) -> Blocked | None:
            found.append(offer.placement.assignments[0].node)
            return BehindHead(jobs_ahead=1)

    standing = Standing.of(seen(Algorithm.BEST_FIT))
    for placing in (Algorithm.BEST_FIT, Algorithm.FIRST_FIT, Algorithm.BEST_FIT):
        decide_on(standing, seen(placing), Declines)
    assert found == ["r1-n1", "r1-n0", "r1-n1"]


def test_dally_has_nobody_to_move_until_a_gang_comes_to_lie_on_several_nodes() -> None:
    cluster = a_cluster("r1: 8 8")
    knobs = PolicyKnobs(policy="dally")
    near, wide = a_job("near", workers=2), a_job("wide", workers=4)
    snapshot = a_snapshot(cluster, running=[(near, {"r1-n0": 2})], knobs=knobs)
    standing = Standing.of(snapshot)
    assert not has_nobody_to_move(standing, knobs), "nobody has looked yet"
    decide_by_knobs(standing, snapshot)
    assert has_nobody_to_move(standing, knobs)
    assert not has_nobody_to_move(standing, PolicyKnobs(policy="las"))

    other = a_running_gang(cluster, a_job("other", workers=2), {"r1-n1": 2})
    standing.holds((), other.reservations)
    assert has_nobody_to_move(standing, knobs), "it lies on one node"
    standing.waits(a_job("waits"))
    assert not has_nobody_to_move(standing, knobs)
    standing.waits_no_more(a_job("waits").id)
    assert has_nobody_to_move(standing, knobs)
    standing.holds((), a_running_gang(cluster, wide, {"r1-n0": 2, "r1-n1": 2}).reservations)
    assert not has_nobody_to_move(standing, knobs)


def test_dally_looks_for_moves_anew_when_nodes_have_changed() -> None:
    snapshot = a_snapshot("r1: 8 8", knobs=PolicyKnobs(policy="dally"))
    standing = Standing.of(snapshot)
    decide_by_knobs(standing, snapshot)
    assert has_nobody_to_move(standing, snapshot.knobs)
    standing.renew(standing.free.tree, snapshot.nodes, ())
    assert not has_nobody_to_move(standing, snapshot.knobs)
