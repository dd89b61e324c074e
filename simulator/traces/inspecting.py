"""What a trace is like: counts, GPU demand, run times, load; from one pass over the file."""

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from scheduler.domain.instants import DAY, HOUR, SECOND
from simulator.traces.job import Changed, Dropped, Parsed, TraceJob

QUANTILES = (0.5, 0.9, 0.95, 0.99)


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The jobs that ask for one number of GPUs."""

    gpus: int
    jobs: int
    gpu_hours: float
    duration_p50_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """A trace in numbers."""

    jobs: int
    dropped: Mapping[str, int]
    changed: Mapping[str, int]
    span_days: float
    """From the first to the last arrival."""
    gpu_hours: float
    """Sum of GPUs x run time."""
    busy_gpus_mean: float
    """GPU time over the span: how many GPUs keep up with the arrivals; 0 if all arrive at once."""
    busy_gpus_peak: int
    """Most GPUs in use at once if every job started when it came."""
    gpus_max: int
    duration_mean_s: float
    duration_max_s: float
    duration_quantiles_s: Mapping[float, float]
    gap_cv: float
    """Standard deviation of the gaps between arrivals over their mean; 1 for a Poisson stream."""
    demands: tuple[Demand, ...]
    """By number of GPUs, smallest first."""
    jobs_by_hour: tuple[int, ...]
    """Arrivals by hour of the day, in the trace's own clock."""
    users: int
    queues: int
    models: int
    statuses: Mapping[str, int]

    def load_on(self, gpus: int) -> float:
        """GPU time over what `gpus` GPUs offer in the span; 0 if all jobs arrive at once."""
        return self.busy_gpus_mean / gpus


@dataclass(slots=True)
class _Columns:
    """What one pass keeps: numbers only, so that millions of jobs fit."""

    arrivals: "array[int]" = field(default_factory=lambda: array("q"))
    durations: "array[int]" = field(default_factory=lambda: array("q"))
    gpus: "array[int]" = field(default_factory=lambda: array("l"))
    dropped: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    users: set[str] = field(default_factory=set)
    queues: set[str] = field(default_factory=set)
    models: set[str] = field(default_factory=set)

    def add(self, job: TraceJob) -> None:
        self.arrivals.append(job.arrival)
        self.durations.append(job.duration)
        self.gpus.append(job.gpus)
        self.statuses[job.status] += 1
        self.users.add(job.user)
        self.queues.add(job.queue)
        self.models.add(job.model)


def summarise(parsed: Iterable[Parsed]) -> TraceSummary:
    """The summary of all that a parser yields; there must be at least one job."""
    columns = _Columns()
    for each in parsed:
        match each:
            case Dropped():
                columns.dropped[each.reason] += 1
            case Changed():
                columns.changed[each.change] += 1
                columns.add(each.job)
            case TraceJob():
                columns.add(each)
    return _summary(columns)


def _summary(columns: _Columns) -> TraceSummary:
    count = len(columns.arrivals)
    assert count, "an empty trace has no summary"
    span = max(columns.arrivals) - min(columns.arrivals)
    gpu_time = sum(g * d for g, d in zip(columns.gpus, columns.durations, strict=True))
    in_order = sorted(columns.durations)
    return TraceSummary(
        jobs=count,
        dropped=dict(sorted(columns.dropped.items())),
        changed=dict(sorted(columns.changed.items())),
        span_days=span / DAY,
        gpu_hours=gpu_time / HOUR,
        busy_gpus_mean=gpu_time / span if span else 0.0,
        busy_gpus_peak=_peak(columns),
        gpus_max=max(columns.gpus),
        duration_mean_s=sum(in_order) / count / SECOND,
        duration_max_s=in_order[-1] / SECOND,
        duration_quantiles_s={q: _quantile(in_order, q) / SECOND for q in QUANTILES},
        gap_cv=_gap_cv(sorted(columns.arrivals)),
        demands=tuple(_demands(columns)),
        jobs_by_hour=_by_hour(columns.arrivals),
        users=len(columns.users - {""}),
        queues=len(columns.queues - {""}),
        models=len(columns.models - {""}),
        statuses={s: n for s, n in sorted(columns.statuses.items()) if s},
    )


def _quantile(in_order: Sequence[int], q: float) -> int:
    return in_order[min(len(in_order) - 1, int(q * len(in_order)))]


def _peak(columns: _Columns) -> int:
    """GPUs are freed before others are taken at the same instant, hence the sign as second key."""
    steps = [(a, g) for a, g in zip(columns.arrivals, columns.gpus, strict=True)]
    ends = zip(columns.arrivals, columns.durations, columns.gpus, strict=True)
    steps.extend((a + d, -g) for a, d, g in ends)
    busy = peak = 0
    for _, change in sorted(steps):
        busy += change
        peak = max(peak, busy)
    return peak


def _gap_cv(in_order: Sequence[int]) -> float:
    gaps = [later - earlier for earlier, later in pairwise(in_order)]
    mean = sum(gaps) / len(gaps) if gaps else 0.0
    if mean == 0:
        return 0.0
    variance: float = sum((gap - mean) ** 2 for gap in gaps) / len(gaps)
    return float(variance**0.5) / mean


def _demands(columns: _Columns) -> Iterator[Demand]:
    durations_by_gpus: dict[int, list[int]] = {}
    for gpus, duration in zip(columns.gpus, columns.durations, strict=True):
        durations_by_gpus.setdefault(gpus, []).append(duration)
    for gpus, durations in sorted(durations_by_gpus.items()):
        yield Demand(
            gpus=gpus,
            jobs=len(durations),
            gpu_hours=gpus * sum(durations) / HOUR,
            duration_p50_s=_quantile(sorted(durations), 0.5) / SECOND,
        )


def _by_hour(arrivals: Iterable[int]) -> tuple[int, ...]:
    counts = Counter((arrival % DAY) // HOUR for arrival in arrivals)
    return tuple(counts[hour] for hour in range(24))
