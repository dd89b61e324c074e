"""How long a gang runs undisturbed, and what stopping it costs."""

from scheduler.domain.instants import Duration, Instant, elapsed
from scheduler.domain.job import JobSpec
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.snapshot import RunningGang


def restart_cost(spec: JobSpec, knobs: PolicyKnobs) -> Duration:
    """What one restart of the job takes."""
    declared = spec.checkpoint.restart_cost
    return knobs.restart_cost if declared is None else declared


def checkpoint_interval(spec: JobSpec, knobs: PolicyKnobs) -> Duration:
    """How often the job saves its progress."""
    every = spec.checkpoint.every
    return knobs.checkpoint_interval if every is None else every


def quantum(spec: JobSpec, knobs: PolicyKnobs) -> Duration:
    """How long a gang runs before it may be stopped for others' proximity."""
    return Duration(
        round(
            max(
                knobs.quantum_restarts * restart_cost(spec, knobs),
                knobs.quantum_checkpoints * checkpoint_interval(spec, knobs),
            )
        )
    )


def is_movable(spec: JobSpec) -> bool:
    """Whether its user has said that it stands being stopped."""
    return spec.checkpoint.is_declared or spec.is_preemptible


def price_of_stop(gang: RunningGang, knobs: PolicyKnobs, now: Instant) -> Duration:
    """Run time lost by stopping the gang now: work since its checkpoint, and a restart."""
    since = gang.attempt.running_since
    ran = Duration(0) if since is None else elapsed(since, now)
    every = checkpoint_interval(gang.job.spec, knobs)
    unsaved = ran if not gang.job.spec.checkpoint.is_declared else ran % max(1, every)
    return Duration(min(ran, unsaved) + restart_cost(gang.job.spec, knobs))
