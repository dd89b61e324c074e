"""What stopping a gang costs its job, and how long it runs undisturbed."""

from dataclasses import replace
from math import ceil, floor, inf

from scheduler.domain.instants import DAY, HOUR, Duration, Instant, after
from scheduler.domain.job import Job, JobSpec
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.patience import EVICTIONS_KEPT, Evictions

QUANTUM_MAX = Duration(3660 * DAY)
"""Who is never to be stopped may be told so by any number."""

SHARE_SLOW = 0.9
"""A smaller share of the run time grows noticeably slower than the time that runs."""

MOMENT = Duration(1)


def restart_cost(spec: JobSpec, knobs: PolicyKnobs) -> Duration:
    """What one restart of the job takes."""
    declared = spec.checkpoint.restart_cost
    return knobs.restart_cost if declared is None else declared


def checkpoint_interval(spec: JobSpec, knobs: PolicyKnobs) -> Duration:
    """How often the job saves its progress."""
    every = spec.checkpoint.every
    return knobs.checkpoint_interval if every is None else every


def saves_when_told(spec: JobSpec) -> bool:
    """Whether the job writes a checkpoint when it is warned that it will be stopped."""
    return spec.checkpoint.is_declared and spec.checkpoint.warning > 0


def quantum(spec: JobSpec, knobs: PolicyKnobs) -> Duration:
    """How long a gang runs before it may be stopped for others' proximity."""
    longest = knobs.quantum_restarts * restart_cost(spec, knobs)
    if not saves_when_told(spec):
        longest = max(longest, knobs.quantum_checkpoints * checkpoint_interval(spec, knobs))
    return Duration(round(min(QUANTUM_MAX, longest)))


def is_movable(spec: JobSpec) -> bool:
    """Whether its user has said that it stands being stopped."""
    return spec.checkpoint.is_declared or spec.is_preemptible


def price_of_stop(spec: JobSpec, ran: Duration, knobs: PolicyKnobs) -> Duration:
    """Run time lost by stopping a gang that has run for so long: since its checkpoint, and a
    restart."""
    if saves_when_told(spec):
        unsaved = Duration(0)
    elif spec.checkpoint.is_declared:
        unsaved = Duration(ran % max(1, checkpoint_interval(spec, knobs)))
    else:
        unsaved = ran
    return Duration(unsaved + restart_cost(spec, knobs))


def evicted(job: Job, ran: Duration, knobs: PolicyKnobs, now: Instant) -> Evictions:
    """What the job remembers after one more stop for another's sake, or a move."""
    before = job.evictions
    return replace(
        before,
        recent=(*before.recent, now)[-EVICTIONS_KEPT:],
        lost=Duration(before.lost + price_of_stop(job.spec, ran, knobs)),
    )


def bears_another(job: Job, ran_for: Duration, price: Duration, knobs: PolicyKnobs) -> bool:
    """Whether what it has lost by evictions stays a small share of what it has run."""
    return job.evictions.lost + price <= knobs.lost_share_max * ran_for


def bears_another_alike(
    job: Job, ran_for: Duration, ran: Duration, knobs: PolicyKnobs
) -> Duration | None:
    """How long the answer of `bears_another` stays as it is if the gang runs on; None: for good.

    Times as in `bears_another_in`. It may be given shorter than it is, by what rounding may do.
    """
    share = knobs.lost_share_max
    if share > SHARE_SLOW:
        return MOMENT
    price = price_of_stop(job.spec, ran, knobs)
    bears = bears_another(job, ran_for, price, knobs)
    if saves_when_told(job.spec):
        # The price stays, and what it bears grows.
        least = (job.evictions.lost + price) / share if share and not bears else inf
        return None if least > QUANTUM_MAX else max(MOMENT, Duration(ceil(least) - ran_for - 2))
    # The price grows faster than what it bears: at the next checkpoint it falls.
    left: Duration | None = None
    if job.spec.checkpoint.is_declared:
        interval = max(1, checkpoint_interval(job.spec, knobs))
        left = Duration(interval - ran % interval)
        dearest = price_of_stop(job.spec, Duration(ran + left - 1), knobs)
        if bears and bears_another(job, Duration(ran_for + left - 1), dearest, knobs):
            # As dear it will be again, when it bears more.
            return None
    if not bears:
        return left
    spare = (share * ran_for - job.evictions.lost - price) / (1.0 - share)
    return max(MOMENT, Duration(floor(spare) - 2))


def bears_it_now(job: Job, knobs: PolicyKnobs, now: Instant) -> bool:
    """Whether it was not stopped too often in the last hour."""
    return job.evictions.since(after(now, Duration(-HOUR))) < knobs.evictions_per_hour


def bears_it_again_at(job: Job, knobs: PolicyKnobs) -> Instant | None:
    """From when on it was not stopped too often in the last hour; None: it never is to be."""
    if knobs.evictions_per_hour <= 0:
        return None
    recent = job.evictions.recent[-knobs.evictions_per_hour :]
    if len(recent) < knobs.evictions_per_hour:
        return Instant(0)
    return after(recent[0], Duration(HOUR + 1))


def bears_another_in(
    job: Job, ran_for: Duration, ran: Duration, knobs: PolicyKnobs
) -> Duration | None:
    """How much longer it runs until it bears one more stop; None: however long, it does not.

    `ran_for` in all, `ran` since it started last. A stop is cheapest just after a checkpoint.
    """
    if bears_another(job, ran_for, price_of_stop(job.spec, ran, knobs), knobs):
        return Duration(0)
    if not knobs.lost_share_max or not job.spec.checkpoint.is_declared:
        # What is lost with it grows at least as fast as what it bears.
        return None
    least = (job.evictions.lost + restart_cost(job.spec, knobs)) / knobs.lost_share_max
    if least > QUANTUM_MAX:
        return None
    longer = max(1, ceil(least) - ran_for)
    if saves_when_told(job.spec):
        return Duration(longer)
    interval = max(1, checkpoint_interval(job.spec, knobs))
    return Duration(-(-(ran + longer) // interval) * interval - ran)
