"""Whole runs of the loop drawn from a seed: a cluster, jobs, users, and everything that goes wrong.

Safety: while faults are on, after every tick, the promises hold. Liveness: once everything is
healed, every job ends within a bound. The digest of a run says whether two were the same.
"""

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from scheduler.adapters.memory.cluster import no_lag
from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.adapters.memory.workers import WorkerScript
from scheduler.control import commands
from scheduler.domain.errors import (
    ConflictError,
    InvalidTransitionError,
    StoreUnavailableError,
)
from scheduler.domain.ids import Epoch, JobId, Rank, Sequence
from scheduler.domain.instants import Instant, after, seconds
from scheduler.domain.job import (
    CheckpointRequest,
    FailurePolicy,
    Job,
    JobPhase,
    JobSpec,
    Outcome,
)
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import NeverFits
from scheduler.domain.snapshot import Measurements
from scheduler.domain.topology import Node
from scheduler.engine.ladders import Ladders, StepTimesMaker
from scheduler.ports.cluster import GangOrder, WorkerState
from scheduler.ports.job_store import EventQuery
from scheduler.ports.leadership import Leadership
from scheduler.ports.unit import Unit
from tests.builders import a_cluster, a_job, a_role
from tests.worlds import World

TROUBLED_S = 1_800
HEALED_S = 7_200
POLICIES = ("fifo", "fifo-backfill", "sjf", "las")

KNOBS = PolicyKnobs(
    start_timeout=seconds(60),
    restart_backoff=seconds(5),
    restart_backoff_max=seconds(40),
    healthy_after=seconds(120),
    restarts_infra_max=1_000,
    node_lost_after=seconds(90),
)
"""Infrastructure failures without end: how many there are is the seed's business, not the job's."""


class FlakyStore(MemoryStore):
    """Fails now and then: before a write, or after it, so that its outcome is not known."""

    def __init__(self) -> None:
        super().__init__()
        self.rng: random.Random | None = None
        """None: it does not fail."""
        self.deposes = 0
        self.failures = 0

    def write(self, unit: Unit) -> Sequence:
        """Write, fail, or both; or have another server take the leadership in between."""
        chance = self.rng.random() if self.rng is not None and unit.epoch is not None else 1.0
        if chance < 0.004:
            self.failures += 1
            raise StoreUnavailableError("down before the write")
        if chance < 0.006:
            self.deposes += 1
            self.take_lease(seen=self.lease(), holder="a ghost")
        sequence = super().write(unit)
        if chance > 0.996 and self.rng is not None and unit.epoch is not None:
            self.failures += 1
            raise StoreUnavailableError("down after the write")
        return sequence


class FlickeringLeadership:
    """Leads as another one does, but now and then its lease seems to run out inside a tick."""

    def __init__(self, inner: Leadership, store: FlakyStore) -> None:
        self._inner = inner
        self._store = store

    def lead(self) -> Epoch | None:
        """Take or renew."""
        return self._inner.lead()

    def is_leader(self) -> bool:
        """Whether it may act; seldom it may not, though it leads."""
        rng = self._store.rng
        return (rng is None or rng.random() > 0.03) and self._inner.is_leader()

    def resign(self) -> None:
        """Give the lease back."""
        self._inner.resign()


class FlickeringWorld(World):
    """A world whose servers are never sure of their lease."""

    def new_leadership(self, holder: str) -> Leadership:
        """A leadership that flickers while the store does."""
        assert isinstance(self.store, FlakyStore)
        return FlickeringLeadership(super().new_leadership(holder), self.store)


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What the seed says the workers of one job do, by attempt."""

    scripts: tuple[WorkerScript, ...]
    odd_rank: int
    odd_script: WorkerScript


class TroubledWorld:
    """One run."""

    step_times: StepTimesMaker = Ladders
    measured: Measurements | None = None

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lives: dict[JobId, Life] = {}
        self.store = FlakyStore()
        picture = "\n".join(
            f"r{rack}: {' '.join(['8'] * self.rng.randint(2, 4))}"
            for rack in range(self.rng.randint(1, 3))
        )
        self.world = FlickeringWorld(
            a_cluster(picture),
            store=self.store,
            script=self._script,
            knobs=self.knobs(),
            step_times=self.step_times,
            measured=self.measured,
        )
        self.store.rng = random.Random(self.rng.random())
        self.ended: dict[JobId, Job] = {}
        """Terminal jobs as they were when they were first seen so."""
        self.faults = dict.fromkeys(FAULTS, 0)
        self._made = 0
        self._healthy: dict[str, Node] = {
            node.name: node for node in self.world.cluster.observe().nodes
        }

    def knobs(self) -> PolicyKnobs:
        """The policy of this run and its numbers."""
        return replace(KNOBS, policy=self.rng.choice(POLICIES))

    def declared(self, spec: JobSpec) -> JobSpec:
        """What a job's user says besides."""
        return spec

    def run(self) -> None:
        """The troubled half, then the healed one."""
        self._live_through(TROUBLED_S, self._trouble)
        self._heal()
        self._live_through(HEALED_S, lambda: None, is_over=lambda: not self.open_jobs())

    def digest(self) -> str:
        """A number for all that happened."""
        told = [
            (event.sequence, event.reason, event.message, event.at, event.count, event.job_id)
            for event in self.store.events(EventQuery(limit=10**9))
        ]
        jobs = [self.store.job_by_id(job_id) for job_id in sorted(self.lives)]
        return hashlib.sha256(repr((told, jobs, self.world.sink.facts)).encode()).hexdigest()

    # Time

    def _live_through(
        self,
        span_s: int,
        each: Callable[[], None],
        *,
        is_over: Callable[[], bool] = lambda: False,
    ) -> None:
        world = self.world
        end = after(world.clock.now(), seconds(span_s))
        while world.clock.now() < end and not is_over():
            wake_at = world.loop.tick()
            self._check()
            each()
            self._advance(min(wake_at, end))

    def _advance(self, wake_at: Instant) -> None:
        world = self.world
        now = world.clock.now()
        change_at = world.cluster.next_change()
        at = wake_at if change_at is None else min(wake_at, change_at)
        # The driver is late now and then, as a busy machine is.
        late = seconds(self.rng.choice([0, 0, 0, 0.01, 0.2]))
        world.clock.advance_to(after(max(at, now), late))

    # What goes wrong, and what users do

    def _trouble(self) -> None:
        for name, (chance, act) in FAULTS.items():
            if self.rng.random() < chance:
                self.faults[name] += bool(act(self))

    def submit(self) -> bool:
        """A job arrives."""
        if self._made >= 25:
            return False
        self._made += 1
        rng = self.rng
        job = a_job(
            f"j{self._made:03}",
            roles=[
                a_role("chief", workers=1, gpus=rng.choice([0, 1])),
                a_role("worker", workers=rng.randint(1, 5), gpus=rng.choice([1, 2, 4])),
            ],
            priority=rng.choice([0, 0, 10]),
            failure_policy=FailurePolicy(restarts_max=rng.choice([0, 1, 3])),
            success_policy=rng.choice(["all", "all", "rank0", "role:worker"]),
            run_time_max=rng.choice([None, None, seconds(400)]),
            hang_timeout=rng.choice([None, None, seconds(300)]),
        )
        grace = CheckpointRequest(grace=seconds(rng.choice([0, 5, 30])))
        job = replace(job, spec=self.declared(replace(job.spec, checkpoint=grace)))
        self.lives[job.id] = Life(
            scripts=tuple(self._worker() for _ in range(3)),
            odd_rank=rng.randrange(6),
            odd_script=self._worker(),
        )
        self.world.submit(job)
        return True

    def _worker(self) -> WorkerScript:
        rng = self.rng
        return WorkerScript(
            make_after=rng.choice([seconds(0), seconds(0.5), seconds(3), None]),
            start_after=seconds(rng.choice([0, 0, 1])),
            run_for=seconds(rng.choice([0, 1, 20, 100, 300])),
            exit_code=rng.choice([0, 0, 0, 0, 1, 137]),
            stop_after=rng.choice([seconds(0), seconds(2), None]),
            refusal=rng.choice([None] * 12 + [Outcome.ADMISSION_REJECTED, Outcome.LAUNCH_FAILED]),
        )

    def _script(self, order: GangOrder, rank: Rank) -> WorkerScript:
        life = self.lives[order.attempt.job_id]
        if rank == life.odd_rank and order.attempt.number == 0:
            return life.odd_script
        # From the fourth attempt on everything comes up and ends well.
        number = order.attempt.number
        return (
            life.scripts[number]
            if number < len(life.scripts)
            else WorkerScript(run_for=seconds(10))
        )

    def user_acts(self) -> bool:
        """A user cancels, holds or releases some job, right between two steps of the loop."""
        if not self.lives:
            return False
        job_id = self.rng.choice(sorted(self.lives))
        by = commands.Requester(actor="somebody", at=self.world.clock.now())
        try:
            match self.rng.randrange(4):
                case 0:
                    commands.cancel(self.store, job_id, by=by)
                case 1:
                    commands.cancel(self.store, job_id, by=by, now=True)
                case 2:
                    commands.hold(self.store, job_id, by=by)
                case _:
                    commands.release(self.store, job_id, by=by)
        except (InvalidTransitionError, ConflictError):
            return False
        return True

    def node_dies(self) -> bool:
        """A node goes with all its workers."""
        name = self.rng.choice(sorted(self._healthy))
        self.world.cluster.lose_node(name)
        return True

    def node_flaps(self) -> bool:
        """A node is reported unready while its workers run on, or ready again."""
        name = self.rng.choice(sorted(self._healthy))
        node = self._healthy[name]
        self.world.cluster.set_node(replace(node, is_ready=self.rng.random() < 0.5))
        return True

    def node_is_cordoned(self) -> bool:
        """A node takes no new workers for a while."""
        name = self.rng.choice(sorted(self._healthy))
        node = self._healthy[name]
        self.world.cluster.set_node(replace(node, is_cordoned=self.rng.random() < 0.5))
        return True

    def worker_vanishes(self) -> bool:
        """A worker that runs is gone without a report."""
        running = [
            report
            for report in self.world.cluster.observe().workers
            if report.state is WorkerState.RUNNING
        ]
        if not running:
            return False
        report = self.rng.choice(running)
        self.world.cluster.lose_worker(report.attempt, report.rank)
        return True

    def cluster_is_cut(self) -> bool:
        """The cluster does not answer."""
        self.world.cluster.cut()
        return True

    def cluster_is_mended(self) -> bool:
        """The cluster answers again."""
        self.world.cluster.mend()
        return True

    def requests_lag(self) -> bool:
        """The cluster takes its time with what is asked of it, or is quick again."""
        longest_s = self.rng.choice([0, 0.05, 2, 10])
        self.world.cluster.lag = lambda: seconds(self.rng.choice([0, 0.3, 1]) * longest_s)
        return True

    def server_dies(self) -> bool:
        """Another server takes over."""
        self.world.restart()
        return True

    def stale_server_ticks(self) -> bool:
        """A server that was deposed does not know it yet."""
        return self.world.tick_a_former_one(self.rng)

    def _heal(self) -> None:
        self.store.rng = None
        self.world.cluster.mend()
        self.world.cluster.lag = no_lag
        for node in self._healthy.values():
            self.world.cluster.set_node(node)
        by = commands.Requester(actor="somebody", at=self.world.clock.now())
        for job_id in sorted(self.lives):
            if self.store.job_by_id(job_id).phase is JobPhase.HELD:
                commands.release(self.store, job_id, by=by)

    # What must hold

    def _check(self) -> None:
        self.world.cluster.check()
        live = self.store.live()
        attempts = [attempt.job_id for attempt in live.attempts]
        assert len(attempts) == len(set(attempts)), "two live attempts of one job"
        self._check_reservations(set(attempts))
        for job_id in self.lives:
            job = self.store.job_by_id(job_id)
            if job.phase.is_terminal:
                assert self.ended.setdefault(job_id, job) == job, "terminal is not for ever"
                assert job_id not in attempts
                continue
            holds = job.phase in {JobPhase.STARTING, JobPhase.RUNNING, JobPhase.STOPPING}
            assert holds == (job_id in attempts), f"{job_id} is {job.phase}"
            assert job.restarts_user <= job.spec.failure_policy.restarts_max

    def _check_reservations(self, live: set[JobId]) -> None:
        held: dict[str, int] = {}
        for reservation in self.store.reservations():
            assert reservation.attempt.job_id in live, f"{reservation} leaked"
            held[reservation.node] = held.get(reservation.node, 0) + reservation.gpus
        for name, gpus in held.items():
            assert gpus <= self._healthy[name].gpus, f"{name}: {gpus} GPUs given away"

    def open_jobs(self) -> list[tuple[JobId, JobPhase]]:
        """Jobs that have not ended, but those that no healthy cluster could hold."""
        return [
            (job.id, job.phase)
            for job in (self.store.job_by_id(job_id) for job_id in sorted(self.lives))
            if not job.phase.is_terminal and not self._never_fits(job)
        ]

    def _never_fits(self, job: Job) -> bool:
        answer = self.store.answer(job.id)
        return answer is not None and isinstance(answer.blocked, NeverFits)


FAULTS: dict[str, tuple[float, Callable[[TroubledWorld], bool]]] = {
    "submit": (0.05, TroubledWorld.submit),
    "user": (0.01, TroubledWorld.user_acts),
    "node dies": (0.002, TroubledWorld.node_dies),
    "node flaps": (0.004, TroubledWorld.node_flaps),
    "node is cordoned": (0.004, TroubledWorld.node_is_cordoned),
    "worker vanishes": (0.003, TroubledWorld.worker_vanishes),
    "cluster is cut": (0.002, TroubledWorld.cluster_is_cut),
    "cluster is mended": (0.02, TroubledWorld.cluster_is_mended),
    "requests lag": (0.01, TroubledWorld.requests_lag),
    "server dies": (0.005, TroubledWorld.server_dies),
    "stale server": (0.005, TroubledWorld.stale_server_ticks),
}
"""How likely each is after a tick, and what it does."""
