"""A troubled world under Dally: jobs that lose by distance wait, hold domains, stop others."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.ids import JobId
from scheduler.domain.instants import HOUR, seconds
from scheduler.domain.job import Job, JobSpec
from scheduler.domain.knobs import NetworkMoves, PolicyKnobs
from scheduler.domain.snapshot import Measured
from scheduler.domain.topology import Level, Node, Uplink
from scheduler.engine.ladders import Ladders
from scheduler.network.cluster_fabric import fabric_of_cluster
from scheduler.network.fabric import Fabric
from tests.simulation.troubled_world import KNOBS, TroubledWorld

VARIANTS = ("dally", "dally-classic", "dally-manual", "dally-nowait")
TALKS = CommunicationProfile(gradient_bytes=2_000_000_000, compute_s=0.2)
COMPUTES = CommunicationProfile(gradient_bytes=1_000, compute_s=0.2)

SOON = replace(
    KNOBS,
    residual_default=seconds(240),
    fixed_timer=seconds(30),
    hold_after=seconds(400),
    restart_cost=seconds(1),
    checkpoint_interval=seconds(5),
    lost_share_max=0.3,
    preemption=NetworkMoves.ON,
    upgrades=NetworkMoves.ON,
)
"""Numbers for jobs that run for minutes."""


def narrow_fabric(levels: Sequence[Level], nodes: Sequence[Node]) -> Fabric:
    """Racks whose uplinks carry a sixteenth of what their nodes could send."""
    narrow = [replace(level, uplink=Uplink(oversubscription=16.0)) for level in levels]
    return fabric_of_cluster(narrow, nodes)


@dataclass(frozen=True)
class DrawnLosses:
    """What jobs were measured to lose, drawn from their ids."""

    def of(self, job_id: JobId) -> Measured | None:
        """See Measurements."""
        draw = hashlib.sha256(job_id.encode()).digest()[0] % 4
        if draw == 0:
            return None
        return Measured(steps=9, step_s=1.0, compute_s=30.0, best_s=60.0 / draw, run_s=60.0)


class SensitiveWorld(TroubledWorld):
    """One run under a variant of Dally."""

    step_times = staticmethod(partial(Ladders, fabric_maker=narrow_fabric))
    measured = DrawnLosses()

    def knobs(self) -> PolicyKnobs:
        """A variant with numbers for short jobs."""
        policy, order_stops = self.rng.choice(VARIANTS), self.rng.choice((False, True))
        return replace(SOON, policy=policy, order_stops=order_stops)

    def declared(self, spec: JobSpec) -> JobSpec:
        """Half of the jobs talk much; most stand being stopped."""
        return replace(
            spec,
            communication=self.rng.choice([TALKS, COMPUTES, None]),
            checkpoint=replace(
                spec.checkpoint,
                every=seconds(5),
                restart_cost=seconds(1),
                is_declared=self.rng.random() < 0.8,
            ),
        )

    def jobs(self) -> list[Job]:
        """All jobs there were."""
        return [self.store.job_by_id(job_id) for job_id in sorted(self.lives)]


def evicted_too_often(job: Job, bound: int) -> bool:
    """Whether more stops for others' sake than the bound fall into one hour."""
    recent = job.evictions.recent
    return any(last - first < HOUR for first, last in zip(recent, recent[bound:], strict=False))


def are_in_order(job: Job) -> bool:
    """Whether evictions are remembered as they happened."""
    return all(first <= second for first, second in pairwise(job.evictions.recent))
