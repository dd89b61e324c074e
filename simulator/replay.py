"""replay(): runs a scenario through the service's own ControlLoop, and says what became of it.

    agenda ──▶ what is due now ──▶ cluster, store ──▶ loop.tick() until nothing more happens now
      ▲                                                    │
      └───────────── ends, start-ups, failures ◀───────────┘

At one instant everything that ends is seen first, then what arrives, then the loop decides.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from scheduler.adapters.memory.clock import ManualClock
from scheduler.control.commands import Requester, new_job, submit
from scheduler.control.loop import ControlLoop
from scheduler.control.outside import Outside
from scheduler.domain.copying import maker_of
from scheduler.domain.event import Event
from scheduler.domain.ids import JobId, JobName
from scheduler.domain.instants import DAY, Duration, Instant, after
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import Placement
from scheduler.domain.queue import DEFAULT_PROJECT, Project, Queue
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.domain.topology import Level, Node
from scheduler.domain.waits import JobEnd
from scheduler.engine.ladders import NoDistance, StepTimesMaker
from scheduler.ports.cluster import GangOrder
from scheduler.ports.unit import (
    Change,
    InsertJob,
    RecordEnd,
    RecordWaits,
    Reserve,
    SaveAttempt,
    SaveKnobs,
    SaveProject,
    SaveQueue,
    Unit,
)
from simulator.agenda import Agenda, Kind
from simulator.cluster import SimulatedCluster
from simulator.crowd import Crowd
from simulator.errors import StuckError
from simulator.faults import NO_FAULTS, Failures, FaultOptions, WithSlowNodes, slow_nodes
from simulator.gang import SimulatedGang
from simulator.happenings import Arrives, Happening, NodeFails, NodeReturns
from simulator.outcome import JobOutcome, RunOutcome
from simulator.sole_leader import SoleLeader
from simulator.speeds import FullSpeed, Speeds
from simulator.store import SimulatedStore
from simulator.world import NO_COSTS, Costs, SimulatedJob

POLL = Duration(10_000 * DAY)
"""The loop is called when something happens, never just because time has passed."""

TICKS_MAX = 10_000
"""More ticks at one instant than any world needs; a bound, so that a bug can not spin."""

SIMULATOR = "simulator"
NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that a run depends on."""

    jobs: tuple[SimulatedJob, ...]
    """By arrival."""
    levels: tuple[Level, ...]
    nodes: tuple[Node, ...]
    knobs: PolicyKnobs
    """Names the policy."""
    seed: int = 0
    costs: Costs = NO_COSTS
    faults: FaultOptions = NO_FAULTS
    tells_lengths: bool = False
    """Whether the policy is told how long jobs run; else its view has no durations at all."""
    speeds: Callable[[], Speeds] = FullSpeed
    """Makes the network of this run."""
    step_times: StepTimesMaker = NoDistance
    """What the policy believes that distance costs."""
    past: tuple[JobEnd, ...] = ()
    """Jobs that have ended before: what the cluster knows of lengths when the first one comes."""
    begins_with: Snapshot | None = None
    """Jobs of this snapshot are there from the start, running or waiting; `jobs` names each of
    them, with the work it has left."""


EventLog = Callable[[Event], None]


def replay(scenario: Scenario, *, log: EventLog | None = None) -> RunOutcome:
    """Run all jobs to their end; each event of the store is told to `log` as it happens.

    Raises StuckError if jobs are left that nothing will start any more.
    """
    run = _Run(scenario, log)
    run.to_the_end()
    return run.outcome()


def run_on(scenario: Scenario, *, until: JobId | None = None) -> Mapping[JobId, "RanOn"]:
    """Run a snapshot's jobs on to their end, as far as they get there; or to the end of one."""
    run = _Run(scenario, None)
    with suppress(StuckError):
        run.to_the_end(until)
    return run.ran_on()


@dataclass(frozen=True, slots=True)
class RanOn:
    """What becomes of one job."""

    first_start: Instant | None
    """When it next gets GPUs; the beginning, if it holds some then."""
    end: Instant | None
    first_placement: Placement | None = None
    """Where it gets them."""


@dataclass(slots=True)
class _SilentSink:
    """Nobody watches operators' facts here: events, accounts and steps say it all."""

    def emit(self, name: str, facts: Mapping[str, str | int | float | bool | None]) -> None:
        """Ignore it."""


@dataclass(frozen=True, slots=True)
class _SpeedTeller:
    """Tells how fast gangs go when they begin to run."""

    log: EventLog
    clock: ManualClock

    def tell(self, gang: SimulatedGang) -> None:
        """Of one gang; nothing where steps are not modelled."""
        speed = gang.speed
        if not speed.step_s:
            return
        message = (
            f"a step takes {speed.step_s:.4g} s, {1 / speed.progress:.2f} times that at its "
            f"closest tier; {speed.exposed:.0%} of it is exposed communication"
        )
        self.log(
            Event(
                reason="StepTime",
                message=message,
                at=self.clock.now(),
                project=gang.order.project,
                job_id=gang.key.job_id,
                job_name=gang.order.name,
                attempt=gang.key.number,
            )
        )


_job_outcome = maker_of(JobOutcome)


class _Run:
    """One run; used once."""

    def __init__(self, scenario: Scenario, log: EventLog | None) -> None:
        self._scenario = scenario
        beginning = scenario.begins_with
        self._clock = ManualClock(Instant(0) if beginning is None else beginning.now)
        self._agenda: Agenda[Happening] = Agenda()
        self._crowd = Crowd(gpus_available=sum(node.gpus for node in scenario.nodes))
        self._gpus = {node.name: node.gpus for node in scenario.nodes}
        names = [node.name for node in scenario.nodes]
        slow = slow_nodes(names, scenario.faults, seed=scenario.seed)
        self._cluster = SimulatedCluster(
            scenario.levels,
            scenario.nodes,
            clock=self._clock,
            agenda=self._agenda,
            crowd=self._crowd,
            speeds=WithSlowNodes(scenario.speeds(), slow) if slow else scenario.speeds(),
            costs=scenario.costs,
        )
        self._store = SimulatedStore(log=log)
        known = (RecordEnd(end=end) for end in scenario.past)
        self._store.write(Unit(changes=(SaveKnobs(knobs=scenario.knobs), *known)))
        self._loop = ControlLoop(
            Outside(
                store=self._store,
                cluster=self._cluster,
                leadership=SoleLeader(self._store),
                clock=self._clock,
                sink=_SilentSink(),
                is_listened_to=False,
                lengths=self._cluster if scenario.tells_lengths else None,
                measured=self._cluster,
                step_times=scenario.step_times,
            ),
            poll=POLL,
            tell_every=POLL,
        )
        if log is not None:
            self._cluster.on_start = _SpeedTeller(log, self._clock).tell
        self._failures = Failures(scenario.faults, seed=scenario.seed)
        if beginning is None:
            for job in scenario.jobs:
                self._agenda.put(job.arrival, Kind.ARRIVAL, Arrives(job))
        else:
            self._begin_with(beginning)
        self._failures.begin(names, self._agenda, at=self._clock.now())

    def to_the_end(self, until: JobId | None = None) -> None:
        """Go on until every job has ended, or that one."""
        jobs, ends, agenda = len(self._scenario.jobs), self._store.ends, self._agenda
        now = self._clock.now()
        wake_at: Instant | None = None
        if self._scenario.begins_with is not None:
            wake_at = self._settle(now)
        while len(ends) < jobs and until not in ends:
            at = agenda.next_at()
            if wake_at is not None and (at is None or wake_at < at) and wake_at < after(now, POLL):
                at = wake_at
            if at is None:
                raise StuckError(self._left_over())
            now = at
            self._clock.advance_to(now)
            for happening in agenda.due(now):
                self._happen(happening, now)
            wake_at = self._settle(now)
            self._crowd.step(now)

    def outcome(self) -> RunOutcome:
        """What became of every job."""
        return RunOutcome(
            jobs=tuple(self._outcome_of(job) for job in self._scenario.jobs),
            steps=self._crowd.steps(),
            timers=tuple(self._store.timers),
        )

    def ran_on(self) -> Mapping[JobId, RanOn]:
        """What became of every job, whether it has ended or not."""
        accounts, ends = self._cluster.accounts, self._store.ends
        return {
            job.id: RanOn(
                accounts[job.id].first_start, ends.get(job.id), accounts[job.id].first_placement
            )
            for job in self._scenario.jobs
        }

    def _begin_with(self, snapshot: Snapshot) -> None:
        """Fill store and cluster with what a snapshot says."""
        for job in self._scenario.jobs:
            self._cluster.expect(job)
            self._crowd.arrives(job.gpus)
        jobs = [*snapshot.pending, *(gang.job for gang in snapshot.holding)]
        projects = sorted({job.project for job in jobs})
        queues = {job.spec.queue: Queue(name=job.spec.queue) for job in jobs}
        queues |= snapshot.queues
        changes: list[Change] = [
            SaveProject(project=Project(name=name)) for name in projects if name != DEFAULT_PROJECT
        ]
        changes += [SaveQueue(queue=queues[name]) for name in sorted(queues)]
        changes += [InsertJob(job=job) for job in jobs]
        changes += [SaveAttempt(attempt=gang.attempt) for gang in snapshot.holding]
        changes += [Reserve(reservations=g.reservations) for g in snapshot.holding]
        changes += [RecordWaits(waits=snapshot.past_waits)] if snapshot.past_waits else []
        changes += [RecordEnd(end=end) for end in snapshot.past_jobs.ends]
        self._store.write(Unit(changes=tuple(changes)))
        for gang in snapshot.holding:
            leaves_at = gang.attempt.kill_at if gang.is_stopping else None
            self._cluster.adopt(_order_of(gang), leaves_at=leaves_at)

    def _happen(self, happening: Happening, now: Instant) -> None:
        if isinstance(happening, Arrives):
            self._submit(happening.job, now)
            return
        self._cluster.happen(happening)
        if isinstance(happening, NodeFails | NodeReturns):
            sign = -1 if isinstance(happening, NodeFails) else 1
            self._crowd.gpus_available += sign * self._gpus[happening.node]
            self._failures.follow(happening, self._agenda, at=now)

    def _submit(self, job: SimulatedJob, now: Instant) -> None:
        self._cluster.expect(job)
        by = Requester(actor=SIMULATOR, at=now)
        stored = new_job(job.id, DEFAULT_PROJECT, JobName(job.name), job.spec, priority=0, by=by)
        submit(self._store, stored, source="", by=by)
        self._crowd.arrives(job.gpus)

    def _settle(self, now: Instant) -> Instant:
        """Tick until nothing more happens at this instant; when the loop wants to be called."""
        for _ in range(TICKS_MAX):
            wake_at = self._loop.tick()
            for job_id in self._store.take_ended():
                self._crowd.leaves(self._cluster.accounts[job_id].job.gpus)
            if self._cluster.has_news:
                continue
            # What was asked of this cluster has been done, or stands on the agenda.
            rests_until = self._loop.quiet_until or wake_at
            if rests_until > now:
                return rests_until
        raise AssertionError(f"the loop does not come to rest at {now}")

    def _left_over(self) -> str:
        left = [job.name for job in self._scenario.jobs if job.id not in self._store.ends]
        shown = ", ".join(left[:NAMES_SHOWN]) + (", ..." if len(left) > NAMES_SHOWN else "")
        return f"nothing will happen any more, and {len(left)} jobs have not ended: {shown}"

    def _outcome_of(self, job: SimulatedJob) -> JobOutcome:
        account = self._cluster.accounts[job.id]
        assert account.first_start is not None, job.id
        return _job_outcome(
            id=job.id,
            name=job.name,
            gpus=job.gpus,
            arrival=job.arrival,
            first_start=account.first_start,
            end=self._store.ends[job.id],
            ideal=job.work,
            held=Duration(account.held),
            kept=Duration(account.kept),
            lost=Duration(account.lost),
            exposed=Duration(round(account.exposed)),
            held_by_tier={tier: Duration(held) for tier, held in account.held_by_tier.items()},
            preemptions=self._store.preemptions.get(job.id, 0),
            upgrades=self._store.upgrades.get(job.id, 0),
            failures=account.failures,
            recorded_as=job.recorded_as,
            model=job.model,
        )


def _order_of(gang: RunningGang) -> GangOrder:
    return GangOrder(
        attempt=AttemptKey(gang.job.id, gang.attempt.number),
        epoch=gang.attempt.epoch,
        project=gang.job.project,
        name=gang.job.name,
        spec=gang.job.spec,
        placement=gang.attempt.placement,
        reservations=gang.reservations,
    )
