"""Least attained service: `las` in wide classes, `las-exact` by the reference simulator's rule.

`las`: classes of 3600 x 4^k GPU-seconds; in a class running gangs first, then submission. So a gang
is only stopped for a job of an earlier class.

`las-exact` (2D-LAS as Tiresias's simulator has it): queues left at 3250 and 7200 GPU-seconds.
Whatever happens, a queue holds its running jobs in the order they started, then those that were
stopped, the last one stopped first, then those that have not run since they came into it. A job
that comes into the next queue while it runs stands at the tail of it until it is chosen again. All
of this follows from what a job has run, when it was placed and stopped, and its start number.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from scheduler.domain.copying import quickly_made
from scheduler.domain.instants import SECOND, Duration, Instant, after
from scheduler.domain.job import Job, Outcome
from scheduler.domain.snapshot import RunningGang
from scheduler.policies.interface import Key, Ranks
from scheduler.policies.ordering import LAS_CLASSES, ServiceClasses, ServiceTime
from scheduler.policies.reranked import Reranked, next_instant, runs_on, service, service_before

TIRESIAS_CLASSES = ServiceClasses((3_250 * SECOND, 7_200 * SECOND))

RUNNING, WAITING = 0, 1
STOPPED, FRESH = 0, 1
"""Among the waiting of a queue: stopped since they came into it, or not run in it."""


class ByService(Reranked):
    """What both have in common: classes of service, and when a running job leaves its own."""

    classes = LAS_CLASSES
    grain = 1
    """Class changes are seen at multiples of this many microseconds."""

    @property
    def order_version(self) -> Hashable:
        """A waiting job stays in its class."""
        return type(self).__name__

    @property
    def ranks(self) -> Ranks:
        """This policy."""
        return self

    def key(self, job: Job) -> Key:
        """See Orders."""
        number = self.classes.class_of(service_before(job))
        return (-job.priority, number, WAITING, job.submitted_at, job.id)

    def rank(self, gang: RunningGang) -> Key:
        """See Ranks."""
        number = self.classes.class_of(service(gang, self.snapshot.now))
        return (-gang.job.priority, number, RUNNING, gang.job.submitted_at, gang.job.id)

    def holds_until(self, gang: RunningGang) -> Instant | None:
        """See Ranks: as long as the gang stays in its class."""
        if not runs_on(gang, self.snapshot.now):
            return next_instant(self.snapshot)
        return self._leaves_class_at(gang)

    def changes_at(self, gang: RunningGang) -> Instant | None:
        """See Ranks: when it leaves its class."""
        # One that is still starting up may leave later than this: then it is asked again.
        at = self._leaves_class_at(gang)
        return None if at is None else _rounded_up(at, self.grain)

    def _leaves_class_at(self, gang: RunningGang) -> Instant | None:
        had, gpus = service(gang, self.snapshot.now), gang.job.spec.gpus
        left = self.classes.leaves_in(had, gpus=gpus)
        return None if left is None else after(self.snapshot.now, left)


@quickly_made
@dataclass(frozen=True, slots=True)
class _Past:
    """What the place of a job in its queue follows from, at an instant up to which it ran."""

    number: int
    """Of its queue."""
    came_running: bool
    """It came into the queue while it ran, in its latest attempt."""
    came_at: Instant
    """When it came in, if so."""
    began_at: Instant
    """When it began to run in this queue: it was placed, or came in."""
    began_before_at: Instant
    """The same in the queue before, for those that came in together."""


class LasExact(ByService):
    """`las-exact`."""

    classes = TIRESIAS_CLASSES
    grain = SECOND

    def key(self, job: Job) -> Key:
        """See Orders."""
        if job.last_placed_at is None or job.reason != Outcome.PREEMPTED:
            number = self.classes.class_of(service_before(job))
            return (-job.priority, number, WAITING, FRESH, job.submitted_at, 0, 0, job.id)
        had = service_before(job)
        stopped_at = job.phase_since
        past = self._past(job, had, placed_at=job.last_placed_at, until=stopped_at)
        head = (-job.priority, past.number, WAITING)
        tail = (job.start_number, job.id)
        if past.came_running and past.came_at == stopped_at:
            return (*head, FRESH, stopped_at, past.began_before_at, *tail)
        return (*head, STOPPED, -stopped_at, *_beginning(past), *tail)

    def rank(self, gang: RunningGang) -> Key:
        """See Ranks."""
        job, now = gang.job, self.snapshot.now
        placed_at = gang.attempt.created_at
        past = self._past(job, service(gang, now), placed_at=placed_at, until=now)
        tail = (job.start_number, job.id)
        head = (-job.priority, past.number)
        if past.came_running and past.came_at == now:
            return (*head, WAITING, FRESH, now, past.began_before_at, *tail)
        return (*head, RUNNING, *_beginning(past), *tail)

    def holds_until(self, gang: RunningGang) -> Instant | None:
        """See Ranks: as it comes into a queue it stands at its tail, for that one instant."""
        now, job = self.snapshot.now, gang.job
        left_at = super().holds_until(gang)
        had = service(gang, now)
        came_at = self._came_at(self.classes.class_of(had), had, job.spec.gpus, now)
        bounds = (left_at, came_at, after(came_at, Duration(1)))
        return min((at for at in bounds if at is not None and at > now), default=None)

    def _past(self, job: Job, had: ServiceTime, *, placed_at: Instant, until: Instant) -> _Past:
        number, gpus = self.classes.class_of(had), job.spec.gpus
        before = had - gpus * max(0, until - placed_at)
        came_at = self._came_at(number, had, gpus, until)
        came_running = number > 0 and before < self._bound(number)
        came_before_at = self._came_at(number - 1, had, gpus, until)
        return _Past(
            number=number,
            came_running=came_running,
            came_at=came_at,
            began_at=Instant(max(placed_at, came_at)) if came_running else placed_at,
            began_before_at=Instant(max(placed_at, came_before_at)),
        )

    def _came_at(self, number: int, had: ServiceTime, gpus: int, until: Instant) -> Instant:
        """When it came into a queue, had it run without a break until then."""
        if number <= 0:
            return Instant(0)
        return _rounded_up(until - (had - self._bound(number)) // gpus, self.grain)

    def _bound(self, number: int) -> ServiceTime:
        bound = self.classes.upper_bound(number - 1)
        assert bound is not None
        return bound


def _beginning(past: _Past) -> tuple[int, int, int]:
    """Sorts by the beginning of the run in a queue; those that came in running last, in the order
    they had before."""
    return (
        past.began_at,
        int(past.came_running),
        past.began_before_at if past.came_running else 0,
    )


def _rounded_up(instant: int, grain: int) -> Instant:
    return Instant(-(-instant // grain) * grain)
