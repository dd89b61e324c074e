"""A large gang that has waited for a day keeps a topology domain free for itself."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from scheduler.domain.instants import HOUR, SECOND, Duration, Instant
from scheduler.domain.job import Job
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.patience import HeldDomain, WaitEpisode
from scheduler.domain.placement import HeldForLargeGang, TooFewGpus
from scheduler.domain.plan import Plan
from scheduler.domain.snapshot import Snapshot
from scheduler.engine.cycle import decide
from scheduler.engine.invariants import check_plan
from scheduler.policies.registry import policy_named
from tests.builders import a_job, a_snapshot, at
from tests.step_times import SaidStepTimes

DAY_S = 24 * 3600
RACKS = "r1: 8 8\nr2: 8 8\nr3: 8 8\nr4: 8 8\nr5: 8 8"
BUSY: Sequence[tuple[Job, Mapping[str, int]]] = tuple(
    (a_job(f"x{rack}"), {f"r{rack}-n0": 1}) for rack in range(1, 6)
)
"""One node of each rack is taken."""


def a_world(
    *pending: Job,
    now: Instant,
    running: Sequence[tuple[Job, Mapping[str, int]]] = BUSY,
    knobs: PolicyKnobs | None = None,
) -> Snapshot:
    return replace(
        a_snapshot(
            RACKS,
            pending=pending,
            running=running,
            now=now,
            knobs=replace(knobs or PolicyKnobs(), policy="dally"),
        ),
        step_times=SaidStepTimes({"big": (1.0, 1.0, 9.0)}),
    )


def planned(snapshot: Snapshot) -> Plan:
    plan = decide(snapshot, policy_named("dally"))
    check_plan(snapshot, plan)
    return plan


def started(plan: Plan) -> list[str]:
    return [start.job_id.removeprefix("id-") for start in plan.start]


def big(name: str = "big", *, submitted_at: Instant = Instant(0)) -> Job:
    """A gang that one rack holds when it is empty."""
    return a_job(name, workers=4, gpus=4, submitted_at=submitted_at)


def small(name: str) -> Job:
    """A job that has run for longer than those that hold GPUs: it will outlast them."""
    job = a_job(name, gpus=1, submitted_at=at(9))
    return replace(job, ran_for=Duration(30 * HOUR), first_started_at=at(9))


TAKEN = [
    *((a_job(f"x{n}"), {f"r{n}-n0": 1}) for n in range(1, 6)),
    *((a_job(f"y{n}", gpus=7), {f"r{n}-n1": 1}) for n in range(1, 6)),
]
"""One GPU is free in each rack."""


def test_before_its_day_is_over_it_holds_nothing_and_the_wakeup_is_then() -> None:
    small = a_job("small", gpus=1, submitted_at=at(9))
    plan = planned(a_world(big(), small, now=at(DAY_S - 1), running=TAKEN))
    assert started(plan) == ["small"]
    assert plan.next_wakeup == at(DAY_S)


def test_after_a_day_nothing_new_starts_in_the_domain_it_holds() -> None:
    smalls = [small(f"s{n}") for n in range(5)]
    plan = planned(a_world(big(), *smalls, now=at(DAY_S), running=TAKEN))
    nodes = {a.node for start in plan.start for a in start.placement.assignments}
    assert nodes == {"r2-n1", "r3-n1", "r4-n1", "r5-n1"}
    assert [wait.episode.held for wait in plan.waits] == [
        HeldDomain(
            level=SaidStepTimes({}).ladder(big()).best.level,
            path=("r1",),
            since=at(DAY_S),
            free_at=at(2 * DAY_S),
        )
    ]
    assert plan.blocked[smalls[4].id] == HeldForLargeGang(
        level=SaidStepTimes({}).ladder(big()).best.level, domain="r1", holder=big().name
    )


def test_it_holds_the_domain_that_is_free_first() -> None:
    nearly_done = PolicyKnobs(residual_default=Duration(SECOND))
    running = [
        (
            replace(job, ran_for=Duration((0 if spots.keys() & {"r3-n0", "r3-n1"} else 9) * HOUR)),
            spots,
        )
        for job, spots in TAKEN
    ]
    plan = planned(a_world(big(), now=at(DAY_S), running=running, knobs=nearly_done))
    assert [wait.episode.held and wait.episode.held.path for wait in plan.waits] == [("r3",)]


def test_it_keeps_the_domain_it_has_chosen() -> None:
    held = HeldDomain(level=SaidStepTimes({}).ladder(big()).best.level, path=("r4",), since=at(5))
    job = replace(big(), waiting=WaitEpisode(began_at=at(5), held=held))
    smalls = [small(f"s{n}") for n in range(5)]
    plan = planned(a_world(job, *smalls, now=at(DAY_S), running=TAKEN))
    nodes = {a.node for start in plan.start for a in start.placement.assignments}
    assert nodes == {"r1-n1", "r2-n1", "r3-n1", "r5-n1"}
    assert not plan.waits


def test_what_ends_in_time_may_still_start_there() -> None:
    smalls = [replace(small(f"s{n}"), priority=1) for n in range(4)]
    short = a_job("short", gpus=1, submitted_at=at(10), iterations=10)
    plan = planned(a_world(big(), *smalls, short, now=at(DAY_S), running=TAKEN))
    assert started(plan) == ["s0", "s1", "s2", "s3", "short"]


def test_held_domains_have_a_quarter_of_the_gpus_at_most_but_one_job_may_always_hold() -> None:
    bigs = [big(name, submitted_at=at(n)) for n, name in enumerate(["big", "big2", "big3"])]
    plan = planned(a_world(*bigs, now=at(DAY_S + 9), running=TAKEN))
    assert len(plan.waits) == 1
    assert isinstance(plan.blocked[bigs[1].id], TooFewGpus)
    more = PolicyKnobs(hold_share_max=0.4)
    assert len(planned(a_world(*bigs, now=at(DAY_S + 9), running=TAKEN, knobs=more)).waits) == 2


@pytest.mark.parametrize("hold_after", [Duration(0), Duration(48 * HOUR)])
def test_the_bound_is_a_knob(hold_after: Duration) -> None:
    knobs = PolicyKnobs(hold_after=hold_after)
    assert not planned(a_world(big(), now=at(DAY_S), running=TAKEN, knobs=knobs)).waits


def test_when_it_has_room_it_starts_before_all_others() -> None:
    rival = a_job("rival", workers=2, submitted_at=at(9), priority=9)
    plan = planned(a_world(big(), rival, now=at(DAY_S), running=BUSY[1:]))
    assert started(plan)[0] == "big"
