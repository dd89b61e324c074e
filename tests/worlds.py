"""A whole small world on memory adapters: store, cluster, clock and loop, moved by the test."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from scheduler.adapters.memory.clock import ManualClock
from scheduler.adapters.memory.cluster import GangScript, MemoryCluster, runs_until_stopped
from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.adapters.memory.workers import WorkerScript
from scheduler.control.loop import ControlLoop
from scheduler.control.outside import Outside
from scheduler.domain.ids import JobId, Rank
from scheduler.domain.instants import Duration, Instant, after, elapsed, in_seconds, seconds
from scheduler.domain.job import Attempt, Job, JobPhase, StopCause
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.lease import LeaseTimes
from scheduler.domain.snapshot import Measurements
from scheduler.engine.ladders import Ladders, StepTimesMaker
from scheduler.ports.cluster import GangOrder
from scheduler.ports.job_store import EventQuery, JobStore
from scheduler.ports.leadership import Leadership
from scheduler.ports.leasing import LeaseLeadership, LeaseStore
from scheduler.ports.unit import InsertJob, SaveJob, SaveKnobs, Unit
from tests.builders import APicture, a_cluster

BEGIN = Instant(1_000_000_000)
"""When every world begins."""

Fact = tuple[str, Mapping[str, str | int | float | bool | None]]


@dataclass
class ListSink:
    """Keeps what is emitted."""

    facts: list[Fact] = field(default_factory=list)

    def emit(self, name: str, facts: Mapping[str, str | int | float | bool | None]) -> None:
        """Keep it."""
        self.facts.append((name, facts))

    def named(self, name: str) -> list[Mapping[str, str | int | float | bool | None]]:
        """Everything emitted under that name."""
        return [facts for found, facts in self.facts if found == name]


class Script:
    """What workers do: by attempt (the last one goes for all later ones), some ranks otherwise."""

    def __init__(
        self, *by_attempt: WorkerScript, ranks: Mapping[int, WorkerScript] | None = None
    ) -> None:
        self._by_attempt = by_attempt or (WorkerScript(),)
        self._ranks = ranks or {}

    def __call__(self, order: GangOrder, rank: Rank) -> WorkerScript:
        """The script of one worker."""
        number = min(order.attempt.number, len(self._by_attempt) - 1)
        return self._ranks.get(rank, self._by_attempt[number])


def runs(duration_s: float, *, exit_code: int = 0, message: str = "") -> WorkerScript:
    """A worker that ends by itself after so long."""
    return WorkerScript(run_for=seconds(duration_s), exit_code=exit_code, message=message)


class WorldStore(JobStore, LeaseStore, Protocol):
    """What a world needs of its store."""


class World:
    """One store, one cluster, one loop (and another one after `restart`)."""

    def __init__(
        self,
        cluster: APicture | str = "r1: 8 8",
        *,
        script: GangScript = runs_until_stopped,
        knobs: PolicyKnobs | None = None,
        poll: Duration | None = None,
        store: WorldStore | None = None,
        step_times: StepTimesMaker = Ladders,
        measured: Measurements | None = None,
    ) -> None:
        self._step_times = step_times
        self._measured = measured
        pictured = a_cluster(cluster) if isinstance(cluster, str) else cluster
        self.clock = ManualClock(BEGIN)
        self.store: WorldStore = store or MemoryStore()
        self.cluster = MemoryCluster(
            self.clock, pictured.nodes, levels=pictured.levels, script=script
        )
        self.sink = ListSink()
        self._loops = 0
        self._former: list[ControlLoop] = []
        self.loop: ControlLoop
        self._poll = poll
        strict = PolicyKnobs(policy="fifo")
        self.store.write(Unit(changes=(SaveKnobs(knobs=knobs or strict),)))
        self.restart()

    def restart(self) -> None:
        """The server dies and another one comes up, on the same store and cluster."""
        self._loops += 1
        self.leadership = self.new_leadership(f"server-{self._loops}")
        if self._loops > 1:
            self._former.append(self.loop)
            self.store.leave_lease(self.store.lease().epoch)
        outside = Outside(
            store=self.store,
            cluster=self.cluster,
            leadership=self.leadership,
            clock=self.clock,
            sink=self.sink,
            step_times=self._step_times,
            measured=self._measured,
        )
        self.loop = (
            ControlLoop(outside) if self._poll is None else ControlLoop(outside, poll=self._poll)
        )

    def new_leadership(self, holder: str) -> Leadership:
        """How a server of this world competes for the lead."""
        return LeaseLeadership(
            self.store,
            holder=holder,
            times=LeaseTimes(),
            monotonic=lambda: in_seconds(elapsed(BEGIN, self.clock.now())),
        )

    def tick(self) -> Instant:
        """One tick, with everything checked that must hold after each."""
        wake_at = self.loop.tick()
        self.check()
        return wake_at

    def tick_a_former_one(self, rng: random.Random) -> bool:
        """A loop that another one has followed ticks once more; whether there is one."""
        if not self._former:
            return False
        rng.choice(self._former).tick()
        return True

    def ticks(self, count: int = 8) -> None:
        """A few ticks at one instant."""
        for _ in range(count):
            self.tick()

    def run(self, duration: Duration) -> None:
        """Let time pass, ticking whenever the loop asks for it or the cluster changes."""
        end = after(self.clock.now(), duration)
        while True:
            wake_at = self.tick()
            change_at = self.cluster.next_change()
            if change_at is not None:
                wake_at = min(wake_at, change_at)
            if wake_at > end:
                break
            self.clock.advance_to(max(wake_at, self.clock.now()))
        self.clock.advance_to(end)
        self.tick()

    def run_until(self, is_reached: Callable[[], bool], *, within: Duration) -> None:
        """Let time pass until something is so."""
        end = after(self.clock.now(), within)
        while not is_reached():
            wake_at = self.tick()
            change_at = self.cluster.next_change()
            if change_at is not None:
                wake_at = min(wake_at, change_at)
            assert wake_at <= end, f"not reached: {[job.phase for job in self.jobs()]}"
            self.clock.advance_to(max(wake_at, self.clock.now()))

    def age_s(self) -> float:
        """Seconds since this world began."""
        return in_seconds(elapsed(BEGIN, self.clock.now()))

    def submit(self, *jobs: Job) -> None:
        """Jobs arrive now."""
        now = self.clock.now()
        for job in jobs:
            arrived = replace(job, submitted_at=now, phase_since=now)
            self.store.write(Unit(changes=(InsertJob(job=arrived, source="{}"),)))

    def cancel(self, name: str, *, at_once: bool = False) -> None:
        """What the API writes when a user cancels a job that holds something."""
        job = self.job(name)
        asked = replace(job, stop_requested=StopCause.CANCEL, stop_now=at_once)
        self.store.write(Unit(changes=(SaveJob(job=asked, expected_revision=job.revision),)))

    def job(self, name: str) -> Job:
        """A job as stored."""
        return self.store.job_by_id(JobId(f"id-{name}"))

    def jobs(self) -> tuple[Job, ...]:
        """Every job as stored."""
        return self.store.live().jobs

    def attempts(self, name: str) -> tuple[Attempt, ...]:
        """The attempts of a job as stored."""
        return self.store.attempts(JobId(f"id-{name}"))

    def phase(self, name: str) -> JobPhase:
        """Where a job is."""
        return self.job(name).phase

    def reasons(self, name: str) -> list[str]:
        """The reasons of a job's events, oldest first."""
        events = self.store.events(EventQuery(job_id=JobId(f"id-{name}")))
        return [event.reason for event in events]

    def named_events(self, reason: str) -> list[str]:
        """Messages of all events with that reason, oldest first."""
        events = self.store.events(EventQuery())
        return [event.message for event in events if event.reason == reason]

    def check(self) -> None:
        """What holds after every tick."""
        self.cluster.check()
        state = self.store.live()
        live = {job.id for job in state.jobs} | set(state.stuck)
        for held in self.store.reservations():
            assert held.attempt.job_id in live, f"{held} leaked"
