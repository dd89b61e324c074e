"""Strays: gangs that the cluster has and the store does not know, and what is to become of them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from scheduler.domain.ids import Epoch, JobName, NodeName, ProjectName
from scheduler.domain.instants import Instant
from scheduler.domain.placement import StoreOutdated
from scheduler.domain.reservation import AttemptKey


class StrayReason(StrEnum):
    """What a stray says about the store."""

    NEWER_TERM = "NewerTerm"
    """It was made in a leadership term that the store does not know of."""
    NEWER_JOB = "NewerJob"
    """Its job was submitted after every job of the store."""
    NEWER_ATTEMPT = "NewerAttempt"
    """The store knows its job, and not that it was started again."""
    UNKNOWN = "Unknown"
    """Nothing: it may be older than anything the store keeps."""


class StrayOrder(StrEnum):
    """What an admin has decided."""

    ADOPT = "Adopt"
    """The store takes it up as it is."""
    RELEASE = "Release"
    """It runs on, and is not ours any more."""


class AdoptionProblem(StrEnum):
    """Why a stray is not adopted."""

    NOT_DESCRIBED = "NotDescribed"
    """The cluster does not say by which order it was made."""
    NAME_TAKEN = "NameTaken"
    """Another job of the project has its name."""
    JOB_IS_OVER = "JobIsOver"
    """The store knows how its job ended."""
    ANOTHER_RUNS = "AnotherRuns"
    """Another attempt of its job has workers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """One gang of ours that the store does not know."""

    attempt: AttemptKey
    epoch: Epoch
    """Leadership term that made it."""
    reason: StrayReason
    project: ProjectName | None = None
    """None while nobody has told."""
    name: JobName | None = None
    workers: int
    workers_alive: int
    """Workers that may run, or wait to."""
    nodes: tuple[NodeName, ...] = ()
    since: Instant
    """When it was first seen."""
    order: StrayOrder | None = None
    problem: AdoptionProblem | None = None
    """Why the order could not be carried out; it is tried again."""

    @property
    def shows_an_older_store(self) -> bool:
        """Whether it shows that the store is older than the cluster: restored from a backup."""
        return self.reason is not StrayReason.UNKNOWN


def outdated_by(strays: Iterable[Stray]) -> StoreOutdated | None:
    """That the store is older than the cluster; None while none of these shows it."""
    since = [stray.since for stray in strays if stray.shows_an_older_store]
    return StoreOutdated(since=min(since), gangs=len(since)) if since else None
