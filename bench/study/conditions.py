"""Where policies meet: traces on their clusters, loads, congestion, and what else may be amiss."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from scheduler.domain.ids import GpuModel, LevelName
from scheduler.domain.instants import DAY, SECOND, Duration, Instant
from simulator.faults import NO_FAULTS, FaultOptions
from simulator.topology_file import LevelPlan, NodeGroup, Topology
from simulator.traces.job import TraceJob
from simulator.workload import at_load

LOADS = (0.6, 0.9, 1.1)
CONGESTIONS = (1.0, 2.0, 4.0, 8.0)

BURST_JOBS = 20
BURST_GAP = Duration(10 * SECOND)
STEP_LOADS = (0.6, 1.2)
"""Of the first half of the jobs, and of the second."""
NODE_MTBF = Duration(10 * DAY)


def _cluster(name: str, *, nodes: int, gpu_model: str, fabric: str) -> Topology:
    """Racks of four nodes with eight GPUs, uplinks 2:1: a rack's gangs share two nodes' rate."""
    return Topology(
        name=name,
        levels=(LevelPlan(name=LevelName("rack"), nodes=4, oversubscription=2.0),),
        groups=(NodeGroup(count=nodes, gpus=8, gpu_model=GpuModel(gpu_model)),),
        fabric=fabric,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A trace and the cluster it runs on."""

    name: str
    file: str
    """Under shared/data/traces."""
    cluster: Topology


WORKLOADS = (
    Workload(
        name="philly",
        file="philly/philly.csv",
        cluster=_cluster("64x8 V100, TCP", nodes=64, gpu_model="V100", fabric="v100-tcp"),
    ),
    Workload(
        name="itp09",
        file="microsoft-itp/cluster09.csv",
        cluster=_cluster("32x8 V100, EDR", nodes=32, gpu_model="V100", fabric="v100-edr"),
    ),
    Workload(
        name="itp06",
        file="microsoft-itp/cluster06.csv",
        cluster=_cluster("16x8 V100, TCP", nodes=16, gpu_model="V100", fabric="v100-tcp"),
    ),
    Workload(
        name="muri",
        file="muri/trace3.csv",
        cluster=_cluster("16x8 P100, TCP", nodes=16, gpu_model="P100", fabric="p100-tcp"),
    ),
    # Nine jobs in ten want one GPU: no network policy matters here, and none may hurt.
    Workload(
        name="openb",
        file="alibaba-openb/openb_pod_list_default.csv",
        cluster=_cluster("8x8 V100, TCP", nodes=8, gpu_model="V100", fabric="v100-tcp"),
    ),
)


class Trouble(StrEnum):
    """What else is amiss in a cell."""

    NONE = ""
    FAILURES = "failures"
    """Nodes fail, and are away for hours."""
    BURSTS = "bursts"
    """Jobs arrive in groups, each where the first of its group does in the trace."""
    LOAD_STEP = "load step"
    """The second half of the jobs arrives twice as fast as the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One condition."""

    workload: str
    load: float | None
    """None: all jobs at once, a sample of the trace's."""
    congestion: float
    trouble: Trouble = Trouble.NONE

    @property
    def pace(self) -> str:
        """How jobs come, and what is amiss, as reports show it."""
        pace = "batch" if self.load is None else f"load {self.load:g}"
        return f"{pace}, {self.trouble}" if self.trouble else pace

    @property
    def name(self) -> str:
        """As reports show it."""
        return f"{self.workload}, {self.pace}, congestion {self.congestion:g}"

    def arrivals(self, jobs: Sequence[TraceJob], *, gpus: int) -> tuple[TraceJob, ...]:
        """The jobs of a trace as they arrive in this cell on a cluster of `gpus` GPUs."""
        if self.load is None:
            return tuple(replace(job, arrival=jobs[0].arrival) for job in jobs)
        if self.trouble is Trouble.LOAD_STEP:
            return _with_step(jobs, gpus=gpus)
        paced = at_load(jobs, gpus=gpus, load=self.load)
        return _in_bursts(paced) if self.trouble is Trouble.BURSTS else paced

    def faults(self) -> FaultOptions:
        """What goes wrong with nodes."""
        failing = self.trouble is Trouble.FAILURES
        return FaultOptions(node_mtbf=NODE_MTBF) if failing else NO_FAULTS


def drawn(jobs: Sequence[TraceJob], *, count: int, seed: int) -> tuple[TraceJob, ...]:
    """So many of the jobs, drawn by the seed without putting back, in their order; all of them if
    there are no more.

    A batch has no weeks to resample, and policies that never go wide meet the same network under
    every profile seed: with one and the same batch, all seeds would show one draw of chance.
    """
    if count >= len(jobs):
        return tuple(jobs)
    return tuple(jobs[index] for index in sorted(Random(seed).sample(range(len(jobs)), count)))


def _in_bursts(jobs: Sequence[TraceJob]) -> tuple[TraceJob, ...]:
    return tuple(
        replace(
            job,
            arrival=Instant(
                jobs[index - index % BURST_JOBS].arrival + index % BURST_JOBS * BURST_GAP
            ),
        )
        for index, job in enumerate(jobs)
    )


def _with_step(jobs: Sequence[TraceJob], *, gpus: int) -> tuple[TraceJob, ...]:
    half = len(jobs) // 2
    calm, busy = (
        at_load(part, gpus=gpus, load=load)
        for part, load in zip((jobs[:half], jobs[half:]), STEP_LOADS, strict=True)
    )
    later = calm[-1].arrival - busy[0].arrival
    return (*calm, *(replace(job, arrival=Instant(job.arrival + later)) for job in busy))
