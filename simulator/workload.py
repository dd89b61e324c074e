"""Synthetic workloads: arrivals, GPU demands and run times drawn from one seed.

A `Mix` says how often jobs ask for how many GPUs and how long such jobs run. It is fitted to a
trace (`fitted_to`), or is the built-in one of Philly. Arrivals are Poisson, a batch, diurnal or
bursty; the load factor sets their pace: sum of GPUs x run time over what the cluster offers from
the first to the last arrival.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import accumulate
from random import Random
from typing import Protocol

from scheduler.domain.instants import DAY, SECOND, Duration, Instant
from simulator.errors import OptionError
from simulator.traces.job import TraceJob

PROBABILITIES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)
"""Where a fitted mix keeps the run times of a demand; between them the logarithm is linear."""

DIURNAL_SWING = 0.8
"""The rate of a diurnal stream moves between 1 - swing and 1 + swing of its mean in a day."""

BURST_JOBS_MEAN = 20
BURST_GAP_MEAN_S = 10.0
"""A bursty stream brings groups of so many jobs (geometric), so far apart inside a group."""


class Arrivals(StrEnum):
    """How jobs arrive."""

    POISSON = "poisson"
    BATCH = "batch"
    """All at once."""
    DIURNAL = "diurnal"
    BURSTY = "bursty"


class RunTimes(Protocol):
    """How long jobs of one demand run."""

    def draw(self, rng: Random) -> Duration:
        """One run time, at least a microsecond."""
        ...


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Run times with these values, in seconds, at PROBABILITIES."""

    seconds: tuple[float, ...]

    def __post_init__(self) -> None:
        assert len(self.seconds) == len(PROBABILITIES)
        assert list(self.seconds) == sorted(self.seconds)
        assert self.seconds[0] > 0

    def draw(self, rng: Random) -> Duration:
        """See RunTimes."""
        probability = rng.random()
        index = min(bisect_right(PROBABILITIES, probability), len(PROBABILITIES) - 1)
        left, right = PROBABILITIES[index - 1], PROBABILITIES[index]
        share = (probability - left) / (right - left)
        low, high = (math.log(self.seconds[i]) for i in (index - 1, index))
        return _in_time(math.exp(low + share * (high - low)))


@dataclass(frozen=True, slots=True)
class Exponential:
    """Exponential run times, for checks against queueing theory."""

    mean_s: float

    def draw(self, rng: Random) -> Duration:
        """See RunTimes."""
        return _in_time(rng.expovariate(1 / self.mean_s))


@dataclass(frozen=True, slots=True)
class Demand:
    """Jobs that ask for one number of GPUs."""

    gpus: int
    weight: float
    """Their share of the jobs, up to a common factor."""
    run_times: RunTimes


@dataclass(frozen=True, slots=True)
class Mix:
    """Which jobs there are."""

    source: str
    """What it was fitted to."""
    demands: tuple[Demand, ...]


# Fitted by `fitted_to` on philly.csv (underlying trace: msr-fiddle/philly-traces, CC-BY-4.0; CSV:
# petuum/adaptdl osdi21-artifact c793c708, Apache-2.0), without demands of fewer than 50 jobs.
PHILLY_MIX = Mix(
    "Philly",
    (
        Demand(
            1, 76627, Quantiles((1, 52, 62, 122, 1117, 2716, 8512, 19137, 135404, 863786, 3256045))
        ),
        Demand(2, 1818, Quantiles((2, 9, 11, 16, 21, 76, 72361, 197004, 526030, 1463703, 2582803))),
        Demand(
            4,
            1870,
            Quantiles((3, 75, 138, 772, 17388, 89422, 184426, 274339, 906798, 2416865, 2750674)),
        ),
        Demand(
            8,
            1643,
            Quantiles(
                (1, 125, 216, 1871, 23683, 173288, 352409, 525631, 1066894, 2655194, 4628226)
            ),
        ),
        Demand(
            16,
            199,
            Quantiles((2, 40, 55, 387, 52548, 163599, 340881, 505681, 1152387, 1710643, 1710643)),
        ),
        Demand(
            32,
            67,
            Quantiles((2, 345, 819, 1182, 14262, 53301, 59941, 78004, 121661, 128924, 128924)),
        ),
    ),
)


def fitted_to(jobs: Sequence[TraceJob], *, source: str, jobs_least: int = 1) -> Mix:
    """The mix of a trace, without demands that fewer than `jobs_least` jobs ask for."""
    durations_by_gpus: dict[int, list[float]] = {}
    for job in jobs:
        durations_by_gpus.setdefault(job.gpus, []).append(job.duration / SECOND)
    return Mix(
        source,
        tuple(
            Demand(gpus, len(durations), _quantiles(sorted(durations)))
            for gpus, durations in sorted(durations_by_gpus.items())
            if len(durations) >= jobs_least
        ),
    )


def drawn_jobs(
    mix: Mix,
    arrivals: Arrivals,
    *,
    jobs: int,
    gpus: int,
    load: float,
    seed: int,
) -> tuple[TraceJob, ...]:
    """So many jobs for a cluster of `gpus` GPUs at that load, by arrival, the first at 0."""
    if jobs < 1:
        raise OptionError("--jobs", f"{jobs} is not a number of jobs")
    if not load > 0:
        raise OptionError("--load", f"{load} is not a load")
    rng = Random(seed)
    drawn = list(_undated(mix, jobs, rng))
    gpu_time_s = sum(job.gpus * job.duration for job in drawn) / SECOND
    gap_mean_s = gpu_time_s / (load * gpus) / max(1, jobs - 1)
    offsets_s = _STREAMS[arrivals](rng, gap_mean_s, jobs)
    first_s = offsets_s[0]
    return tuple(
        replace(job, arrival=Instant(round((offset_s - first_s) * SECOND)))
        for job, offset_s in zip(drawn, offsets_s, strict=True)
    )


def load_of(jobs: Sequence[TraceJob], *, gpus: int) -> float:
    """Sum of GPUs x run time over what `gpus` GPUs offer from the first to the last arrival.

    0 if all jobs arrive at once: then there is no load, only an amount of work.
    """
    span = jobs[-1].arrival - jobs[0].arrival
    return sum(job.gpus * job.duration for job in jobs) / (gpus * span) if span else 0.0


def at_load(jobs: Sequence[TraceJob], *, gpus: int, load: float) -> tuple[TraceJob, ...]:
    """The same jobs, their arrivals stretched or squeezed evenly so that the load is `load`."""
    present = load_of(jobs, gpus=gpus)
    if present == 0:
        raise OptionError("--load", "all jobs arrive at once, so the load can not be set")
    factor = present / load
    first = jobs[0].arrival
    return tuple(
        replace(job, arrival=Instant(round((job.arrival - first) * factor))) for job in jobs
    )


def as_batch(jobs: Sequence[TraceJob], *, count: int, seed: int) -> tuple[TraceJob, ...]:
    """So many of the jobs, drawn without putting back, all arriving at 0 in their old order."""
    chosen = sorted(Random(seed).sample(range(len(jobs)), min(count, len(jobs))))
    return tuple(replace(jobs[index], arrival=Instant(0)) for index in chosen)


def _undated(mix: Mix, jobs: int, rng: Random) -> Iterator[TraceJob]:
    limits = list(accumulate(demand.weight for demand in mix.demands))
    for number in range(1, jobs + 1):
        demand = mix.demands[bisect_right(limits, rng.random() * limits[-1])]
        yield TraceJob(
            row=number,
            name=f"job-{number}",
            arrival=Instant(0),
            duration=demand.run_times.draw(rng),
            gpus=demand.gpus,
        )


def _poisson(rng: Random, gap_mean_s: float, jobs: int) -> list[float]:
    return list(accumulate(rng.expovariate(1 / gap_mean_s) for _ in range(jobs)))


def _batch(_rng: Random, _gap_mean_s: float, jobs: int) -> list[float]:
    return [0.0] * jobs


def _diurnal(rng: Random, gap_mean_s: float, jobs: int) -> list[float]:
    """A Poisson stream at the top rate, thinned to the rate of the hour."""
    day_s, top = DAY / SECOND, 1 + DIURNAL_SWING
    offsets: list[float] = []
    now = 0.0
    while len(offsets) < jobs:
        now += rng.expovariate(top / gap_mean_s)
        rate = 1 + DIURNAL_SWING * math.sin(2 * math.pi * now / day_s)
        if rng.random() * top < rate:
            offsets.append(now)
    return offsets


def _bursty(rng: Random, gap_mean_s: float, jobs: int) -> list[float]:
    """Groups of jobs a few seconds apart; the groups are a Poisson stream."""
    offsets: list[float] = []
    start = 0.0
    while len(offsets) < jobs:
        start += rng.expovariate(1 / (gap_mean_s * BURST_JOBS_MEAN))
        now = start
        while True:
            offsets.append(now)
            now += rng.expovariate(1 / BURST_GAP_MEAN_S)
            if rng.random() < 1 / BURST_JOBS_MEAN:
                break
    return sorted(offsets[:jobs])


_STREAMS: Mapping[Arrivals, Callable[[Random, float, int], list[float]]] = {
    Arrivals.POISSON: _poisson,
    Arrivals.BATCH: _batch,
    Arrivals.DIURNAL: _diurnal,
    Arrivals.BURSTY: _bursty,
}


def _quantiles(in_order: Sequence[float]) -> Quantiles:
    last = len(in_order) - 1
    return Quantiles(tuple(in_order[round(p * last)] for p in PROBABILITIES))


def _in_time(seconds: float) -> Duration:
    return Duration(max(1, round(seconds * SECOND)))
