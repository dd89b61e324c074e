"""Every plan keeps its promises, whatever the cluster and the jobs."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.snapshot import Snapshot
from scheduler.engine.cycle import decide, decide_on
from scheduler.engine.decision import answers_of
from scheduler.engine.invariants import check_plan, check_starts
from scheduler.engine.standing import Standing
from scheduler.policies.registry import POLICIES, policy_named
from tests.builders import a_cluster, a_job, a_running_gang, a_snapshot, at
from tests.proof import times

EXAMPLES = times(ci=150, proof=5_000)
pytestmark = pytest.mark.proof(examples=EXAMPLES)

RACKS = st.lists(
    st.lists(st.sampled_from([0, 2, 4, 8]), min_size=1, max_size=4), min_size=1, max_size=3
)


@st.composite
def jobs(draw: st.DrawFn, *, prefix: str = "job", max_size: int = 12) -> list[Job]:
    shapes = st.tuples(st.integers(1, 4), st.sampled_from([0, 1, 2, 4, 8]))
    drawn = draw(st.lists(shapes, max_size=max_size))
    return [
        a_job(
            f"{prefix}-{number:02}",
            workers=workers,
            gpus=gpus,
            priority=draw(st.integers(0, 1)),
            submitted_at=Instant(draw(st.integers(0, 3))),
            not_before=draw(st.sampled_from([None, None, None, at(5), at(20)])),
        )
        for number, (workers, gpus) in enumerate(drawn)
    ]


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """A cluster on which earlier decisions already run, and jobs that wait."""
    racks = draw(RACKS)
    picture = "\n".join(
        f"r{number}: {' '.join(map(str, nodes))}" for number, nodes in enumerate(racks)
    )
    cluster = a_cluster(picture)
    for node in cluster.nodes:
        if draw(st.booleans()) and draw(st.booleans()):
            cluster = cluster.with_node(node.name, is_ready=draw(st.booleans()), is_cordoned=True)
    knobs = PolicyKnobs(policy=draw(st.sampled_from(sorted(POLICIES))))
    before = a_snapshot(cluster, pending=draw(jobs(prefix="old")), knobs=knobs, now=at(10))
    plan = decide(before, policy_named(knobs.policy))
    by_id = {job.id: job for job in before.pending}
    holding = []
    for start in plan.start:
        spots: dict[str, int] = {}
        for assignment in start.placement.assignments:
            spots[assignment.node] = spots.get(assignment.node, 0) + assignment.workers
        gang = a_running_gang(cluster, by_id[start.job_id], spots)
        ended = draw(st.integers(0, len(gang.reservations)))
        holding.append(replace(gang, reservations=gang.reservations[ended:]))
    waiting = draw(jobs())
    return replace(
        a_snapshot(cluster, pending=waiting, knobs=knobs, now=at(10)), holding=tuple(holding)
    )


@given(snapshot=snapshots())
@settings(max_examples=EXAMPLES, deadline=None)
def test_every_plan_keeps_its_promises(snapshot: Snapshot) -> None:
    check_plan(snapshot, decide(snapshot, policy_named(snapshot.knobs.policy)))


@given(snapshot=snapshots())
@settings(max_examples=EXAMPLES, deadline=None)
def test_nothing_that_fits_is_left_waiting_by_a_backfilling_policy(snapshot: Snapshot) -> None:
    snapshot = replace(snapshot, knobs=PolicyKnobs(policy="fifo-backfill"))
    plan = decide(snapshot, policy_named("fifo-backfill"))
    started = {start.job_id for start in plan.start}
    pending = {job.id: job for job in snapshot.pending}
    holding = list(snapshot.holding)
    for start in plan.start:
        spots: dict[str, int] = {}
        for assignment in start.placement.assignments:
            spots[assignment.node] = spots.get(assignment.node, 0) + assignment.workers
        cluster_like = a_cluster("r0: 0")
        cluster_like = replace(cluster_like, levels=snapshot.levels, nodes=snapshot.nodes)
        holding.append(a_running_gang(cluster_like, pending[start.job_id], spots))
    rest = tuple(job for job in snapshot.pending if job.id not in started)
    again = decide(
        replace(snapshot, pending=rest, holding=tuple(holding)), policy_named("fifo-backfill")
    )
    assert again.start == ()


@given(snapshot=snapshots(), arrivals=jobs(prefix="new"), rng=st.randoms(use_true_random=False))
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_decision_on_a_standing_that_has_followed_equals_one_made_anew(
    snapshot: Snapshot, arrivals: list[Job], rng: random.Random
) -> None:
    policy = policy_named(snapshot.knobs.policy)
    standing = Standing.of(snapshot)
    decide_on(standing, snapshot, policy)
    # Some gangs lose some of their ranks or all, some jobs leave, some come; time passes.
    holding = []
    for gang in snapshot.holding:
        kept = gang.reservations[rng.randint(0, len(gang.reservations)) :]
        standing.holds(gang.reservations, kept)
        holding.append(replace(gang, reservations=kept))
    stay = [job for job in snapshot.pending if rng.random() < 0.7]
    for job in snapshot.pending:
        if job not in stay:
            standing.waits_no_more(job.id)
    for job in arrivals:
        standing.waits(job)
    after = replace(
        snapshot,
        pending=(*stay, *arrivals),
        holding=tuple(holding),
        now=at(10 + rng.randint(0, 15)),
    )
    decision = decide_on(standing, after, policy)
    check_starts(standing, after, decision.plan)
    plan = replace(decision.plan, blocked=answers_of(decision, standing, after.now))
    assert plan == decide(after, policy)
    assert list(plan.blocked) == list(decide(after, policy).blocked)
