"""A naive simulator: small, quadratic and obviously right, to compare the real one with.

It shares no code with it. At each instant: release what has ended, add what arrives, let the policy
choose once among all jobs alive. Network model and costs are off: a job runs for its duration on
any GPUs. Rules and expected digits: shared/data/traces/reference_results.md. Time is any integer
unit, as long as arrivals, durations and thresholds share it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

LAS_THRESHOLDS_GPU_S = (3_250, 7_200)
"""Tiresias: GPU-seconds of service at which a job leaves the first and the second queue."""


@dataclass(frozen=True, slots=True)
class ReferenceJob:
    """One job; jobs are known by their place in the list, which also breaks ties."""

    arrival: int
    duration: int
    gpus: int


@dataclass(slots=True)
class ReferenceRun:
    """What became of the jobs."""

    jobs: Sequence[ReferenceJob]
    first_starts: list[int]
    ends: list[int]
    preemptions: int = 0

    def jcts(self) -> list[int]:
        """End minus arrival, job by job."""
        return [end - job.arrival for end, job in zip(self.ends, self.jobs, strict=True)]

    def jct_mean(self) -> float:
        """Mean job completion time."""
        return sum(self.jcts()) / len(self.jobs)

    def jct_percentile(self, percent: float) -> int:
        """The sorted completion time at index floor(percent / 100 x jobs)."""
        ordered = sorted(self.jcts())
        return ordered[min(len(ordered) - 1, int(percent / 100 * len(ordered)))]

    def makespan(self) -> int:
        """Last end minus first arrival."""
        return max(self.ends) - min(job.arrival for job in self.jobs)

    def queue_mean(self) -> float:
        """Mean time a job was there and did not run."""
        return self.jct_mean() - sum(job.duration for job in self.jobs) / len(self.jobs)


class Pool(Protocol):
    """GPUs to give out."""

    def take(self, gpus: int) -> list[tuple[int, int]] | None:
        """(node, GPUs) for a gang, or None if it does not fit."""
        ...

    def give(self, held: list[tuple[int, int]]) -> None:
        """Take back what `take` gave."""
        ...


class Counter:
    """One pool of GPUs; where they are does not matter."""

    def __init__(self, gpus: int) -> None:
        self._free = gpus

    def take(self, gpus: int) -> list[tuple[int, int]] | None:
        """See Pool."""
        if gpus > self._free:
            return None
        self._free -= gpus
        return [(0, gpus)]

    def give(self, held: list[tuple[int, int]]) -> None:
        """See Pool."""
        self._free += sum(gpus for _, gpus in held)


class EightANode:
    """Nodes of 8: up to 8 GPUs on the first node with so many free; more on idle nodes and one."""

    def __init__(self, nodes: int, gpus_per_node: int = 8) -> None:
        self._free = [gpus_per_node] * nodes
        self._size = gpus_per_node

    def take(self, gpus: int) -> list[tuple[int, int]] | None:
        """See Pool."""
        whole, rest = divmod(gpus, self._size) if gpus > self._size else (0, gpus)
        idle = [node for node, free in enumerate(self._free) if free == self._size]
        if len(idle) < whole:
            return None
        held = [(node, self._size) for node in idle[:whole]]
        if rest:
            others = set(range(len(self._free))) - set(idle[:whole])
            fitting = [node for node in sorted(others) if self._free[node] >= rest]
            if not fitting:
                return None
            held.append((fitting[0], rest))
        for node, taken in held:
            self._free[node] -= taken
        return held

    def give(self, held: list[tuple[int, int]]) -> None:
        """See Pool."""
        for node, taken in held:
            self._free[node] += taken


@dataclass(slots=True)
class _Alive:
    """A job that has arrived and not ended."""

    index: int
    job: ReferenceJob
    left: int
    service: int = 0
    """GPU time it has had before its present run."""
    since: int | None = None
    """When its present run began; None while it waits."""
    held: list[tuple[int, int]] = field(default_factory=list)

    def left_at(self, now: int) -> int:
        return self.left if self.since is None else self.left - (now - self.since)

    def service_at(self, now: int) -> int:
        running = 0 if self.since is None else (now - self.since) * self.job.gpus
        return self.service + running

    def stop(self, now: int) -> None:
        self.service, self.left = self.service_at(now), self.left_at(now)
        self.since = None


class Policy(Protocol):
    """Chooses who runs."""

    def choose(self, alive: list[_Alive], pool: Pool, now: int) -> int:
        """Start and stop jobs; returns how many were stopped."""
        ...

    def next_change(self, alive: list[_Alive], now: int) -> int | None:
        """When it must choose again although nothing arrives or ends."""
        ...


class SubmissionOrder:
    """No preemption. Strict (fifo) stops at a job that does not fit, else (fjf) it is skipped."""

    def __init__(self, *, strict: bool) -> None:
        self._strict = strict

    def choose(self, alive: list[_Alive], pool: Pool, now: int) -> int:
        """See Policy."""
        for each in sorted(alive, key=lambda a: (a.job.arrival, a.index)):
            if each.since is None:
                held = pool.take(each.job.gpus)
                if held is not None:
                    each.held, each.since = held, now
                elif self._strict:
                    break
        return 0

    def next_change(self, alive: list[_Alive], now: int) -> int | None:
        """See Policy."""
        return None


class Ranked:
    """Preemptive: walk all jobs by a key, keep what fits, stop the rest."""

    def __init__(self, key: Callable[[_Alive, int], tuple[int, int]]) -> None:
        self._key = key

    def choose(self, alive: list[_Alive], pool: Pool, now: int) -> int:
        """See Policy."""
        return _keep_first(sorted(alive, key=lambda a: self._key(a, now)), pool, now)

    def next_change(self, alive: list[_Alive], now: int) -> int | None:
        """See Policy."""
        return None


class LeastAttainedService:
    """2D-LAS in discrete queues.

    In a queue the running jobs stand before the waiting ones; a demoted job goes to the tail of
    the next queue; nobody is promoted.
    """

    def __init__(self, thresholds: Sequence[int]) -> None:
        self._thresholds = thresholds
        self._queues: list[list[_Alive]] = [[] for _ in range(len(thresholds) + 1)]

    def choose(self, alive: list[_Alive], pool: Pool, now: int) -> int:
        """See Policy."""
        self._queues = [[each for each in queue if each in alive] for queue in self._queues]
        known = [each for queue in self._queues for each in queue]
        self._queues[0] += [each for each in alive if each not in known]
        for level, threshold in enumerate(self._thresholds):
            demoted = [a for a in self._queues[level] if a.service_at(now) >= threshold]
            self._queues[level] = [a for a in self._queues[level] if a not in demoted]
            self._queues[level + 1] += demoted
        stopped = _keep_first([each for queue in self._queues for each in queue], pool, now)
        for queue in self._queues:
            queue.sort(key=lambda a: a.since is None)
        return stopped

    def next_change(self, alive: list[_Alive], now: int) -> int | None:
        """See Policy."""
        changes = []
        for queue, threshold in zip(self._queues, self._thresholds, strict=False):
            for each in queue:
                if each.since is not None:
                    missing = threshold - each.service_at(now)
                    changes.append(now + -(-missing // each.job.gpus))
        return min(changes, default=None)


def _keep_first(ranked: list[_Alive], pool: Pool, now: int) -> int:
    """Take every GPU back, then give them out in this order; counts who ran and runs no more."""
    before = {each.index for each in ranked if each.since is not None}
    for each in ranked:
        if each.index in before:
            pool.give(each.held)
    for each in ranked:
        held = pool.take(each.job.gpus)
        if held is None:
            if each.index in before:
                each.stop(now)
            continue
        each.held = held
        if each.index not in before:
            each.since = now
    return sum(each.since is None for each in ranked if each.index in before)


def policy_named(name: str, *, second: int = 1) -> Policy:
    """A policy of the reference tables; `second` is one second in the jobs' unit of time."""
    policies: dict[str, Callable[[], Policy]] = {
        "fifo": lambda: SubmissionOrder(strict=True),
        "fjf": lambda: SubmissionOrder(strict=False),
        "sjf": lambda: Ranked(lambda a, _: (a.job.gpus, a.index)),
        "srtf": lambda: Ranked(lambda a, now: (a.left_at(now), a.index)),
        "srsf": lambda: Ranked(lambda a, now: (a.left_at(now) * a.job.gpus, a.index)),
        "2d-las": lambda: LeastAttainedService([t * second for t in LAS_THRESHOLDS_GPU_S]),
    }
    return policies[name]()


def simulate(jobs: Sequence[ReferenceJob], pool: Pool, policy: Policy) -> ReferenceRun:
    """Run all jobs to their end. Jobs must be listed by arrival and must fit an empty pool."""
    run = ReferenceRun(jobs, first_starts=[-1] * len(jobs), ends=[-1] * len(jobs))
    coming = [_Alive(index, job, job.duration) for index, job in enumerate(jobs)]
    alive: list[_Alive] = []
    now = 0
    while coming or alive:
        instants = [coming[0].job.arrival] if coming else []
        instants += [a.since + a.left for a in alive if a.since is not None]
        change = policy.next_change(alive, now)
        instants += [] if change is None else [change]
        now = min(instants)
        for each in [a for a in alive if a.since is not None and a.left_at(now) == 0]:
            pool.give(each.held)
            run.ends[each.index] = now
            alive.remove(each)
        while coming and coming[0].job.arrival == now:
            alive.append(coming.pop(0))
        run.preemptions += policy.choose(alive, pool, now)
        for each in alive:
            if each.since == now and run.first_starts[each.index] < 0:
                run.first_starts[each.index] = now
    return run
