"""What the study runs: cells, the variants that meet in each, and the seeds.

A cell is a trace on a cluster under one load (or all jobs at once) and one congestion. In a cell
every variant meets the same jobs with the same profiles under each seed. Even seeds are the tuning
half: which baseline is best is decided there, and all ratios are those of the odd ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import product

from scheduler.domain.ids import GpuModel, LevelName
from scheduler.domain.instants import SECOND, Duration
from scheduler.domain.knobs import NetworkMoves
from scheduler.policies.registry import POLICIES
from simulator.fabric import NetworkOptions
from simulator.profiles import ProfileView
from simulator.staging import KNOW_LENGTHS, RunOptions
from simulator.topology_file import LevelPlan, NodeGroup, Topology
from simulator.world import Costs

LOADS = (0.6, 0.9, 1.1)
CONGESTIONS = (1.0, 2.0, 4.0, 8.0)
SEEDS = 20
JOBS_MAX = 5_000
BATCH_JOBS = 600
JITTER = 0.05

OURS = "dally"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A policy with what it is told and what differs in its world."""

    name: str
    policy: str
    view: ProfileView = ProfileView.NOISY
    costs: Costs = Costs()  # noqa: RUF009 - frozen
    knobs: Mapping[str, object] = field(default_factory=dict)
    is_ablation: bool = False

    @property
    def knows_lengths(self) -> bool:
        """Whether it is told how long jobs run: a bound, not a rival."""
        return self.policy in KNOW_LENGTHS

    def options(self, seed: int, congestion: float) -> RunOptions:
        """Of one run."""
        return RunOptions(
            policy=self.policy,
            seed=seed,
            network=NetworkOptions(congestion=congestion, jitter=JITTER),
            view=self.view,
            costs=self.costs,
            knobs={**STUDY_KNOBS, **self.knobs},
        )


STUDY_KNOBS: Mapping[str, object] = {
    "preemption": NetworkMoves.ON,
    "upgrades": NetworkMoves.ON,
}
"""Live defaults are gentler: moves for the network's sake inside a queue only."""


def variants() -> tuple[Variant, ...]:
    """Every policy as it is."""
    return tuple(Variant(name=name, policy=name) for name in sorted(POLICIES))


def ablations() -> tuple[Variant, ...]:
    """Ours with one part off, one thing less known, one number changed."""
    ours = Variant(name=OURS, policy=OURS, is_ablation=True)
    made = [
        replace(ours, name=f"{OURS}[profiles={view}]", view=view)
        for view in ProfileView
        if view is not ProfileView.NOISY
    ]
    parts: dict[str, Mapping[str, object]] = {
        "preemption off": {"preemption": NetworkMoves.OFF},
        "upgrades off": {"upgrades": NetworkMoves.OFF},
        "no large-gang hold": {"hold_after": Duration(0)},
        "timer quantile 0.45": {"timer_quantile": 0.45},
        "margin doubled": {"preemption_margin": 0.2},
        "benefit halved": {"benefit_min": 1.0},
        "benefit doubled": {"benefit_min": 4.0},
    }
    made += [replace(ours, name=f"{OURS}[{name}]", knobs=knobs) for name, knobs in parts.items()]
    for cost_s in (0, 250):
        costs = Costs(restore=Duration(cost_s * SECOND))
        for each in (ours, Variant(name="las", policy="las", is_ablation=True)):
            made.append(replace(each, name=f"{each.policy}[restore={cost_s}s]", costs=costs))
    return tuple(made)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One condition."""

    workload: str
    load: float | None
    """None: all jobs at once."""
    congestion: float

    @property
    def name(self) -> str:
        """As reports show it."""
        pace = "batch" if self.load is None else f"load {self.load:g}"
        return f"{self.workload}, {pace}, congestion {self.congestion:g}"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRun:
    """One run of the study."""

    cell: Cell
    variant: Variant
    seed: int
    jobs_max: int

    @property
    def name(self) -> str:
        """Of its file."""
        cell = self.cell
        pace = "batch" if cell.load is None else f"{cell.load:g}"
        variant = self.variant.name.replace("[", "--").replace("]", "").replace(" ", "-")
        return f"{cell.workload}-{pace}-c{cell.congestion:g}-{variant}-s{self.seed}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much of the study is run. Runs of different sizes are not to be read together."""

    quick: bool = False
    seeds: int = SEEDS
    jobs: int = JOBS_MAX
    batch_jobs: int = BATCH_JOBS
    policies: tuple[str, ...] = tuple(sorted(POLICIES))

    def facts(self) -> dict[str, object]:
        """By name, as a folder of runs keeps it."""
        facts = {each.name: getattr(self, each.name) for each in fields(self)}
        return facts | {"policies": list(self.policies)}


def runs(size: Size) -> Iterator[StudyRun]:
    """All runs, square by square; in a square seed by seed, and those of one cell together.

    Whoever stops early has met each load on each trace, and each congestion with either.
    """
    if size.quick:
        cells = [Cell(workload="itp06", load=load, congestion=4.0) for load in (0.9, None)]
        names = ("nowait", "fifo", "las", "dally-consolidated", OURS)
        chosen = [variant for variant in variants() if variant.name in names]
        yield from _product(cells, chosen, replace(size, seeds=4, jobs=120, batch_jobs=120))
        return
    chosen = [variant for variant in variants() if variant.name in size.policies]
    for square in range(len(CONGESTIONS)):
        yield from _product(_square(square), chosen, size)
    central = [Cell(workload="itp06", load=0.9, congestion=4.0)]
    central.append(Cell(workload="philly", load=0.9, congestion=4.0))
    yield from _product(central, ablations(), size)


def _square(number: int) -> list[Cell]:
    """One of the Latin squares that all cells fall into: each pair of trace, pace and congestion
    occurs in it."""
    return [
        Cell(
            workload=workload.name,
            load=load,
            congestion=CONGESTIONS[(trace + pace + number) % len(CONGESTIONS)],
        )
        for trace, workload in enumerate(WORKLOADS)
        for pace, load in enumerate((*LOADS, None))
    ]


def _product(
    cells: list[Cell], chosen: tuple[Variant, ...] | list[Variant], size: Size
) -> Iterator[StudyRun]:
    for seed, cell, variant in product(range(size.seeds), cells, chosen):
        most = size.batch_jobs if cell.load is None else size.jobs
        yield StudyRun(cell=cell, variant=variant, seed=seed, jobs_max=most)
