"""TraceJob: one job of a recorded workload, whatever format it came in; and what was left out."""

from dataclasses import dataclass

from scheduler.domain.copying import copier_of, quickly_made
from scheduler.domain.instants import Duration, Instant


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class TraceJob:
    """One job as recorded: when it came, how long it ran, and on how many GPUs."""

    row: int
    """Line of the file it starts on, counted from 1; it orders jobs that arrive together."""
    name: str
    """The trace's own id; `row-N` where it has none."""
    arrival: Instant
    """Since the format's own zero (see its parser) until `Trace` rebases it to the first job."""
    duration: Duration
    """Run time on the GPUs it had, without waiting."""
    gpus: int
    """GPUs of the whole gang."""
    workers: int | None = None
    """Nodes or instances the trace says it ran on; None where it does not say."""
    model: str = ""
    user: str = ""
    queue: str = ""
    """Virtual cluster, queue or group."""
    status: str = ""
    """How it ended, in the trace's own word."""
    iterations: int | None = None
    gpu_models: tuple[str, ...] = ()
    """Acceptable GPU models; empty for any."""
    deadline: Duration | None = None
    """Since its arrival."""

    def __post_init__(self) -> None:
        assert self.gpus >= 1, self.name
        assert self.duration > 0, self.name

    def moved_by(self, offset: Duration) -> "TraceJob":
        """This job, arriving `offset` later (earlier if negative)."""
        return _arriving(self, arrival=Instant(self.arrival + offset))


_arriving = copier_of(TraceJob, "arrival")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropped:
    """A row that is no job of the workload."""

    row: int
    reason: str
    """CamelCase code, e.g. `NoGpus`; the format's parser says what each means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A job that was kept after a change, e.g. a share of a GPU counted as a whole one."""

    job: TraceJob
    change: str
    """CamelCase code, e.g. `FractionRoundedUp`."""


Parsed = TraceJob | Dropped | Changed
"""What a parser yields for each job or row, in file order."""
