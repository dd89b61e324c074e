"""Ranks of gangs kept from one decision to the next equal those asked anew, at every instant."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from scheduler.domain.history import NOTHING_PAST, PastJobs
from scheduler.domain.ids import JobId
from scheduler.domain.instants import HOUR, SECOND, Duration, Instant, after, seconds
from scheduler.domain.job import CheckpointRequest, JobPhase, StopCause
from scheduler.domain.knobs import JobOrder, PolicyKnobs
from scheduler.domain.patience import Evictions, HeldDomain, WaitEpisode
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.domain.topology import NODE_LEVEL
from scheduler.domain.waits import JobEnd
from scheduler.engine.ranking import Ranking
from scheduler.policies.interface import Ranks
from scheduler.policies.registry import POLICIES, policy_named
from tests.builders import a_cluster, a_job, a_running_gang, a_snapshot, at
from tests.proof import times

SEEDS = times(ci=12, proof=400)
STEPS = 60
PICTURE = a_cluster("r1: 8 8\nr2: 8 8")
NODES = [node.name for node in PICTURE.nodes]
BEGIN = at(20_000)

RANKED = [
    name
    for name in sorted(POLICIES)
    if policy_named(name)(a_snapshot(knobs=PolicyKnobs(order_stops=True))).ranks is not None
]


class DrawnWorld:
    """Gangs that come, change and go, under knobs that change now and then."""

    def __init__(self, policy: str, seed: int) -> None:
        self.rng = Random(f"{policy}-{seed}")
        self.policy = policy
        self.made = 0
        self.now = BEGIN
        self.knobs = self._knobs()
        self.past = NOTHING_PAST
        self.gangs = [self._gang() for _ in range(6)]

    def snapshot(self) -> Snapshot:
        """As it is now; one job waits."""
        waiting = a_job("waits", gpus=4, submitted_at=at(1_000))
        seen = a_snapshot(PICTURE, pending=[waiting], now=self.now, knobs=self.knobs)
        return replace(seen, holding=tuple(self.gangs), past_jobs=self.past)

    def ranks(self) -> Ranks:
        """What the policy says of it."""
        ranks = policy_named(self.policy)(self.snapshot()).ranks
        assert ranks is not None
        return ranks

    def goes_on(self) -> None:
        """Something happens, or nothing; and time passes."""
        rng = self.rng
        match rng.randrange(12):
            case 0:
                self.gangs.append(self._gang())
            case 1 if self.gangs:
                self.gangs.pop(rng.randrange(len(self.gangs)))
            case 2 | 3 if self.gangs:
                number = rng.randrange(len(self.gangs))
                self.gangs[number] = self._changed(self.gangs[number])
            case 4:
                self.knobs = self._knobs()
            case 5:
                self.past = self._more_past()
            case _:
                pass
        self.now = rng.choice([*self._instants(), self.now])

    def _instants(self) -> Iterator[Instant]:
        """When something may change, just before and just after it; and others."""
        ranks, rng = self.ranks(), self.rng
        for gang in self.gangs:
            for at_most in (ranks.holds_until(gang), ranks.changes_at(gang)):
                if at_most is not None and at_most <= after(self.now, Duration(24 * HOUR)):
                    yield after(max(at_most, self.now), Duration(rng.choice([-1, 0, 1])))
        for span_s in (0.000_001, 1, 60, 301, 5_000):
            yield after(self.now, seconds(span_s))
        if rng.random() < 0.1:
            yield after(self.now, seconds(-90))

    def _knobs(self) -> PolicyKnobs:
        rng = self.rng
        return PolicyKnobs(
            policy=self.policy,
            order=rng.choice([JobOrder.GITTINS, JobOrder.GITTINS, JobOrder.LAS, JobOrder.N4]),
            order_stops=True,
            ends_min=rng.choice([3, 50]),
            lost_share_max=rng.choice([0.0, 0.01, 0.1, 0.5, 0.97, 9.0]),
            evictions_per_hour=rng.choice([0, 1, 3]),
            quantum_restarts=rng.choice([0.0, 10.0]),
            quantum_checkpoints=rng.choice([0.0, 2.0]),
            restart_cost=seconds(rng.choice([0, 7, 60])),
            promote_after=rng.choice([0.0, 0.5, 8.0]),
            time_slice=seconds(rng.choice([10, 60])),
            lease=seconds(rng.choice([0, 100, 1_200])),
            protected_share=rng.choice([0.0, 0.5]),
        )

    def _gang(self) -> RunningGang:
        rng = self.rng
        self.made += 1
        since = after(self.now, seconds(-rng.choice([0, 1, 100, 900.5, 5_000])))
        job = a_job(
            f"j{self.made}",
            gpus=rng.choice([0, 1, 3, 8]),
            priority=rng.choice([0, 0, 10]),
            submitted_at=after(since, seconds(-rng.choice([0, 10, 4_000, 9_000]))),
            is_preemptible=rng.random() < 0.3,
            checkpoint=CheckpointRequest(
                every=rng.choice([None, seconds(100), seconds(0.37), Duration(0)]),
                restart_cost=rng.choice([None, seconds(1), seconds(30)]),
                warning=seconds(rng.choice([0, 0, 10])),
                is_declared=rng.random() < 0.7,
            ),
        )
        job = replace(
            job,
            ran_for=seconds(rng.choice([0, 0, 50, 3_000.123_457])),
            waiting=rng.choice([None, WaitEpisode(began_at=since, held=a_held(job.submitted_at))]),
            evictions=Evictions(
                recent=tuple(after(since, seconds(-100 * n)) for n in range(rng.randrange(4)))[
                    ::-1
                ],
                lost=seconds(rng.choice([0, 0, 5, 60.000_001, 500])),
            ),
            start_number=self.made,
        )
        gang = a_running_gang(PICTURE, job, {rng.choice(NODES): 1}, since=since)
        return self._starting(gang) if rng.random() < 0.2 else gang

    def _starting(self, gang: RunningGang) -> RunningGang:
        """Not all of its workers run; or by a clock that goes ahead, they run from soon on."""
        since = self.rng.choice([None, after(self.now, seconds(3))])
        phase = JobPhase.STARTING if since is None else JobPhase.RUNNING
        return replace(
            gang,
            job=replace(gang.job, phase=phase),
            attempt=replace(gang.attempt, running_since=since),
        )

    def _changed(self, gang: RunningGang) -> RunningGang:
        rng, job = self.rng, gang.job
        match rng.randrange(4):
            case 0 if gang.attempt.running_since is None:
                attempt = replace(gang.attempt, running_since=self.now)
                return replace(gang, job=replace(job, phase=JobPhase.RUNNING), attempt=attempt)
            case 1:
                return replace(gang, job=replace(job, stop_requested=StopCause.PREEMPT))
            case 2:
                return replace(gang, job=replace(job, priority=10 - job.priority))
            case _:
                return replace(gang, reservations=gang.reservations[1:])

    def _more_past(self) -> PastJobs:
        ends = [
            JobEnd(
                job_id=JobId(f"past-{number}"),
                queue=self.snapshot().pending[0].spec.queue,
                gpus=self.rng.choice([1, 8]),
                ran_for=Duration(self.rng.randrange(1, 5_000) * SECOND),
                is_complete=True,
                at=self.now,
            )
            for number in range(self.rng.choice([4, 60]))
        ]
        return PastJobs(version=self.past.version + 1, ends=tuple(ends))


def a_held(since: Instant) -> HeldDomain:
    return HeldDomain(level=NODE_LEVEL, path=("r1", "r1-n0"), since=since)


def seen(ranking: Ranking) -> tuple[list[tuple[object, ...]], Instant | None]:
    """All that a decision may come to know of a ranking."""
    stoppable: list[tuple[object, ...]] = [
        (each.gang, each.rank, each.gpus, each.tells_length)
        for each in ranking.stoppable_behind(())
    ]
    return stoppable, ranking.next_change_at()


@pytest.mark.proof
@pytest.mark.parametrize("policy", RANKED)
def test_a_ranking_that_is_kept_equals_one_made_anew(policy: str) -> None:
    for seed in range(SEEDS):
        world, kept = DrawnWorld(policy, seed), Ranking()
        for step in range(STEPS):
            snapshot, ranks, anew = world.snapshot(), world.ranks(), Ranking()
            kept.renew(snapshot, ranks)
            anew.renew(snapshot, ranks)
            assert seen(kept) == seen(anew), f"reproduce with seed={seed}, step {step}"
            world.goes_on()


def test_gangs_that_are_gone_are_forgotten_although_nobody_waits() -> None:
    world, kept = DrawnWorld("las", 1), Ranking()
    kept.renew(world.snapshot(), world.ranks())
    staying = world.gangs[:2]
    kept.keep(staying)
    assert [each.gang for each in kept.stoppable_behind(())] == sorted(
        staying, key=world.ranks().rank
    )
