"""Reservations: which GPUs of which node belong to which rank of which attempt."""

from dataclasses import dataclass
from typing import NamedTuple

from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import AttemptNumber, JobId, NodeName, Rank, RoleName
from scheduler.domain.resources import NOTHING, Resources


class AttemptKey(NamedTuple):
    """Names one attempt of one job."""

    job_id: JobId
    number: AttemptNumber

    def __str__(self) -> str:
        """As `JOB/NUMBER`."""
        return f"{self.job_id}/{self.number}"


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """What one rank of one attempt holds until its first terminal report or until it is gone."""

    attempt: AttemptKey
    role: RoleName
    rank: Rank
    node: NodeName
    gpus: int
    resources: Resources = NOTHING
    gpu_indices: tuple[int, ...] | None = None
    """Which GPUs of the node, for the local executor; None where the cluster decides."""
