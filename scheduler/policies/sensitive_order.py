"""The order of jobs under Dally: priority, then what the knob `order` says, then submission, id.

    gittins   the Gittins index of attained GPU time, learned from ended jobs, a multiple of it for
              jobs that have run and another for gangs that run; `las` until it is learned
    las       attained GPU time in classes of 3600 x 4^k GPU-seconds
    n1        share of computation in all run time, smallest first: who communicates most
    n2        the same over the time since submission
    n3        share of computation as last measured
    n4        attained GPU time, of which only computation counts, in the classes of las

What jobs declare never ranks them: n1 to n4 go by measured steps, and by a prior of the gang's
size until there are any. n1 starves jobs that compute only; it is the one with a short makespan.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from scheduler.domain.history import PastJobs
from scheduler.domain.ids import QueueName
from scheduler.domain.instants import MINUTE, Duration, Instant, after, elapsed, in_seconds
from scheduler.domain.job import Job
from scheduler.domain.knobs import JobOrder
from scheduler.domain.restarts import quantum
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.policies.interface import Key
from scheduler.policies.ordering import (
    GITTINS_CLASSES,
    LAS_CLASSES,
    GittinsTable,
    ServiceTime,
    learned,
)

GRAIN = Duration(5 * MINUTE)
"""Orders that change with time alone do so this often."""

BEGUN = 2.5
"""How many times the Gittins index counts of a job that has run before. Of one that has not nothing
is known but what others did."""

RUNS = 3.0
"""The same of a gang that runs: what a stop costs is certain, what it gains an estimate."""

QUANTUM_MIN = Duration(1)
"""A job that restarts at no cost has none; before its first step its share is the prior alone."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Gittins tables: of queues with enough ends, and of all jobs together."""

    of_all: GittinsTable | None
    by_queue: Mapping[QueueName, GittinsTable]

    def of(self, queue: QueueName) -> GittinsTable | None:
        """The one for jobs of a queue; None while too little is known."""
        return self.by_queue.get(queue, self.of_all)


@lru_cache(maxsize=8)
def tables_of(past: PastJobs, ends_min: int) -> Tables:
    """What ended and live jobs teach of the order."""
    ended: dict[QueueName, list[ServiceTime]] = {}
    live: dict[QueueName, list[ServiceTime]] = {}
    for end in past.ends:
        kind = ended if end.is_complete else live
        kind.setdefault(end.queue, []).append(end.gpus * end.ran_for)
    for job in past.live:
        live.setdefault(job.queue, []).append(job.gpus * job.ran_for)
    found = {
        queue: learned(services, live.get(queue, ()), ends_min=ends_min)
        for queue, services in sorted(ended.items())
    }
    return Tables(
        of_all=learned(
            (each for services in ended.values() for each in services),
            (each for services in live.values() for each in services),
            ends_min=ends_min,
        ),
        by_queue={queue: table for queue, table in found.items() if table is not None},
    )


class SensitiveOrder:
    """Keys of jobs, pending and running ones alike."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._knobs = snapshot.knobs

    @cached_property
    def _tables(self) -> Tables | None:
        """Looked up when a place is asked for: with nobody waiting, none is."""
        if self._knobs.order != JobOrder.GITTINS:
            return None
        tables = tables_of(self._snapshot.past_jobs, self._knobs.ends_min)
        return None if tables.of_all is None else tables

    @property
    def is_learned(self) -> bool:
        """Whether ended jobs have taught it enough."""
        return self._tables is not None

    @property
    def goes_by_class(self) -> bool:
        """Whether gangs change their places by leaving a class of service and by nothing else."""
        return self._knobs.order in {JobOrder.GITTINS, JobOrder.LAS}

    def leaves_class_at(self, gang: RunningGang) -> Instant | None:
        """When a gang leaves its class of service, if it runs on; None: never."""
        now, gpus = self._snapshot.now, gang.job.spec.gpus
        classes = GITTINS_CLASSES if self.is_learned else LAS_CLASSES
        left = classes.leaves_in(gpus * gang.run_time(now), gpus=gpus)
        return None if left is None else after(now, left)

    @property
    def version(self) -> Hashable:
        """Keys made under equal versions go together."""
        order = self._knobs.order
        if order == JobOrder.GITTINS:
            past = self._snapshot.past_jobs.version if self.is_learned else None
            return (order, past, self._knobs.ends_min)
        if order == JobOrder.LAS:
            return (order,)
        # What computing should come to of a step is another with other nodes.
        grain = self._snapshot.now // GRAIN if order == JobOrder.N2 else None
        return (order, self._snapshot.step_times, grain)

    def key(self, job: Job) -> Key:
        """Place of a waiting job; smaller goes first."""
        place, *others = self.standing(job, job.ran_for)
        if self.is_learned and job.ran_for:
            place *= BEGUN
        return (-job.priority, place, *others, job.submitted_at, job.id)

    def key_of_running(self, gang: RunningGang) -> Key:
        """Place of a gang that runs, among those keys."""
        job = gang.job
        ran_for = gang.run_time(self._snapshot.now)
        return (-job.priority, *self.standing(job, ran_for), job.submitted_at, job.id)

    def standing_to_stay(self, gang: RunningGang) -> tuple[float | int, ...]:
        """What the key of a waiting job of its priority has to come before to have it stopped.

        Until ended jobs have taught `gittins` anything none does: of jobs of one length, a stop
        only delays the ends that would teach that.
        """
        if self._knobs.order == JobOrder.GITTINS and not self.is_learned:
            return (0,)
        place, *others = self.standing(gang.job, gang.run_time(self._snapshot.now))
        return (RUNS * place if self.is_learned else place, *others)

    def standing(self, job: Job, ran_for: Duration) -> tuple[float | int, ...]:
        """What the order goes by after the priority."""
        service = job.spec.gpus * ran_for
        match self._knobs.order:
            case JobOrder.GITTINS | JobOrder.LAS:
                return self._by_service(job, service)
            case JobOrder.N1:
                return (self._compute_share(job, ran_for),)
            case JobOrder.N2:
                now = Instant(self._snapshot.now // GRAIN * GRAIN)
                return (self._compute_share(job, elapsed(job.submitted_at, now)),)
            case JobOrder.N3:
                return (self._last_share(job),)
            case JobOrder.N4:
                return (LAS_CLASSES.class_of(round(service * self._last_share(job))),)

    def _by_service(self, job: Job, service: ServiceTime) -> tuple[float | int, ...]:
        table = None if self._tables is None else self._tables.of(job.spec.queue)
        if table is None:
            return (LAS_CLASSES.class_of(service),)
        return (-table.index_of(service), GITTINS_CLASSES.class_of(service))

    def _compute_share(self, job: Job, over: Duration) -> float:
        """(time computed + q0 x prior) / (time + q0): the prior counts as much as one quantum."""
        q0 = in_seconds(max(QUANTUM_MIN, quantum(job.spec, self._knobs)))
        measured = self._snapshot.measured and self._snapshot.measured.of(job.id)
        computed = measured.compute_s if measured else 0.0
        # Without reports nothing of its time says how much it computed.
        time_s = in_seconds(over) if self._knobs.order == JobOrder.N2 else 0.0
        if measured and self._knobs.order == JobOrder.N1:
            time_s = measured.run_s
        return (computed + q0 * self._prior(job)) / (time_s + q0)

    def _last_share(self, job: Job) -> float:
        measured = self._snapshot.measured and self._snapshot.measured.of(job.id)
        if not measured or not measured.run_s:
            return self._prior(job)
        return measured.compute_s / measured.run_s

    def _prior(self, job: Job) -> float:
        times = self._snapshot.step_times
        return 1.0 if times is None else times.prior_share(job)
