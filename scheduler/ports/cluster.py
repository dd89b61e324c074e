"""The cluster that runs gangs: nodes, workers, and the four things the loop asks of it.

No method blocks: an adapter notes what is wanted and works it off by itself; what came of it is
seen in the next `observe`. Every request is idempotent: asked twice, done once.

    prepare ──▶ MADE (waits at the barrier) ──release──▶ RUNNING ──▶ ENDED ──forget──▶ gone
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import Epoch, JobName, NodeName, ProjectName, Rank
from scheduler.domain.instants import Instant
from scheduler.domain.job import JobSpec, Outcome
from scheduler.domain.placement import Placement
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.topology import Level, Node


class WorkerState(StrEnum):
    """Where one worker is."""

    MADE = "Made"
    """It exists and waits at the barrier."""
    RUNNING = "Running"
    """User code may run or runs."""
    ENDED = "Ended"
    """Reported its end; the first such report counts for ever."""
    GONE = "Gone"
    """The cluster knew it and does not have it any more, and never saw it end."""
    REFUSED = "Refused"
    """The cluster could not make it; `outcome` and `message` say why."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What the cluster knows of one worker."""

    attempt: AttemptKey
    rank: Rank
    node: NodeName
    state: WorkerState
    exit_code: int | None = None
    """Set when ENDED: the exit code, 128+n after signal n."""
    outcome: Outcome | None = None
    """Set when ENDED, GONE or REFUSED: how the cluster classifies it, before our own stop cause."""
    message: str = ""
    started_at: Instant | None = None
    ended_at: Instant | None = None
    epoch: Epoch = Epoch(0)
    """Leadership term that made it; 0 where the cluster does not keep it."""
    gpus: int = 0
    """GPUs that it was made with, told before `order_of` is; 0 where the cluster does not say."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """One consistent look at the cluster.

    As a change set (`after` given): `workers` need only hold the reports of attempts that have
    changed since then, each such attempt with all its ranks. It may hold more, never less.
    """

    levels: tuple[Level, ...]
    """Levels above `node`, closest first."""
    nodes: tuple[Node, ...]
    """All nodes, always; the very same tuple while nothing about them has changed."""
    workers: tuple[WorkerReport, ...]
    """Every worker of ours that exists, ended or refused and is not forgotten."""
    is_reachable: bool = True
    """False while the cluster does not answer: then nodes and workers are the last known ones."""
    attempts_complete: frozenset[AttemptKey] = field(default_factory=frozenset)
    """Attempts whose ranks missing in `workers` are known not to exist: the list was complete."""
    is_complete: bool = False
    """The list is complete for all attempts: one without a worker in a whole view has none and
    holds no GPU, unless it is unsettled. So a gang that was Prepared once and is not listed is
    lost."""
    attempts_unsettled: frozenset[AttemptKey] = field(default_factory=frozenset)
    """Attempts of which nothing follows from not being listed: something that was asked of them is
    still to be done, or their workers are being made. All of them, in a change set too."""
    sequence: int = 0
    """To be named in the next `observe`; larger is later."""


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class GangOrder:
    """All that is needed to make the workers of one attempt."""

    attempt: AttemptKey
    epoch: Epoch
    project: ProjectName
    name: JobName
    spec: JobSpec
    placement: Placement
    reservations: tuple[Reservation, ...]
    """One per rank, in rank order."""
    deadline: Instant | None = None
    """When the attempt is stopped for its maximum run time."""
    priority: int = 0
    submitted_at: Instant | None = None
    submitted_by: str = ""


class Cluster(Protocol):
    """Where gangs run."""

    def observe(self, after: int | None = None) -> ClusterView:
        """The present view, whole or as changes since a view of that sequence.

        Cheap, never blocks on the network. An adapter may answer with a whole view at any time.
        """
        ...

    def prepare(self, order: GangOrder) -> None:
        """Make every worker, each waiting at the barrier."""
        ...

    def release(self, attempt: AttemptKey) -> None:
        """Let the workers run as soon as every one is made.

        If one of them is refused, gone or stopped before that, none ever runs.
        """
        ...

    def stop(self, attempt: AttemptKey, *, kill_at: Instant) -> None:
        """Ask the workers to end now (SIGTERM) and kill those that still live at `kill_at`.

        Asked again with an earlier `kill_at`, the earlier one holds. Also for attempts this adapter
        does not know (then there is nothing to do).
        """
        ...

    def forget(self, attempt: AttemptKey) -> None:
        """The attempt is over and stored; its workers need not be reported any more.

        Its logs stay readable, and preparing it again makes nothing.
        """
        ...

    def order_of(self, attempt: AttemptKey) -> GangOrder | None:
        """The order by which a gang was made that is reported; None where nobody knows (yet)."""
        ...

    def disown(self, attempt: AttemptKey) -> None:
        """Leave a gang to itself: it runs on, is reported no more and never touched again."""
        ...
