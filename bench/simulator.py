"""The simulator: the whole Philly trace end to end, growth, and the naive one beside it.

Times are CPU seconds of one core. The naive simulator decides anew over all jobs alive at every
instant, so its cost per job grows with them; ours is compared with it on jobs that all wait.
"""

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from time import process_time

from bench.reference_simulator import Counter, ReferenceJob, policy_named, simulate
from bench.reporting import Options, Report, run_bench
from scheduler.domain.instants import SECOND, Duration
from simulator.fabric import NetworkOptions
from simulator.garbage import collect_seldom
from simulator.loading import Allocation
from simulator.replay import replay
from simulator.staging import RunOptions, staged
from simulator.topology_file import Topology, plain_topology, read_topology
from simulator.traces.formats import Trace, first_jobs, read_trace
from simulator.workload import PHILLY_MIX, Arrivals, drawn_jobs
from simulator.world import Costs

TOPOLOGY = Path(__file__).resolve().parents[1] / "examples" / "topologies" / "philly-2490.yaml"

SECONDS_MAX = 60.0
"""What a policy may take for the whole trace."""

MIB_MAX = 1_024.0

NAIVE_TIMES_MIN = 50.0

CONGESTION = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What a run cost."""

    jobs: int
    events: int
    cpu_s: float
    peak_mib: float
    jobs_waiting_max: int
    """At once, after what could start has started."""


def measure(options: Options, report: Report) -> None:
    """All figures."""
    trace = options.data / "traces" / "philly" / "philly.csv"
    if trace.exists():
        for policy in ("nowait", "dally"):
            _philly(trace, policy, 3_000 if options.quick else None, report)
    else:
        report.add("philly_cpu", None, "s", reference=SECONDS_MAX, case={"trace": "absent"})
    for jobs in (1_000, 2_000) if options.quick else (2_500, 5_000, 10_000, 20_000):
        _grown(jobs, 64, report)
    for nodes in (256,) if options.quick else (256, 1_024):
        _grown(1_000 if options.quick else 5_000, nodes, report)
    for jobs in (200, 400) if options.quick else (500, 1_000, 1_500):
        _against_the_naive(jobs, report)


def run_of(trace: Trace, topology: Topology, options: RunOptions) -> Run:
    """One run in this process."""
    collect_seldom()
    started = process_time()
    outcome = replay(staged(trace, topology, options).scenario)
    return Run(
        jobs=len(outcome.jobs),
        events=len(outcome.steps),
        cpu_s=process_time() - started,
        peak_mib=getrusage(RUSAGE_SELF).ru_maxrss / 1024,
        jobs_waiting_max=max((step.jobs_waiting for step in outcome.steps), default=0),
    )


def _options(policy: str) -> RunOptions:
    network = NetworkOptions(congestion=CONGESTION, jitter=0.05)
    return RunOptions(policy=policy, network=network, costs=Costs())


def philly_run(trace: Path, policy: str, jobs_max: int | None) -> Run:
    """Philly, reading included; for a process of its own, so that its peak memory is its own."""
    started = process_time()
    recorded = first_jobs(read_trace(trace), jobs_max)
    run = run_of(recorded, read_topology(TOPOLOGY), _options(policy))
    return replace(run, cpu_s=process_time() - started)


def _philly(trace: Path, policy: str, jobs_max: int | None, report: Report) -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        run = pool.submit(philly_run, trace, policy, jobs_max).result()
    case: dict[str, str | int | float] = {"policy": policy, "jobs": run.jobs, "gpus": 2_490}
    limit = SECONDS_MAX if jobs_max is None else None
    report.add("philly_cpu", run.cpu_s, "s", reference=limit, case=case)
    report.add("philly_cpu_per_job", run.cpu_s / run.jobs * 1e3, "ms", case=case)
    report.add("philly_instants", run.events / run.cpu_s, "1/s", case=case)
    report.add("philly_peak_memory", run.peak_mib, "MiB", reference=MIB_MAX, case=case)
    report.add("philly_jobs_waiting_max", run.jobs_waiting_max, "jobs", case=case)


def _grown(jobs: int, nodes: int, report: Report) -> None:
    """The same mix at the same load: more jobs, or more nodes."""
    gpus = nodes * 8
    drawn = drawn_jobs(PHILLY_MIX, Arrivals.POISSON, jobs=jobs, gpus=gpus, load=0.9, seed=1)
    trace = Trace(source="drawn", format="none", jobs=drawn, dropped={}, changed={})
    topology = plain_topology(nodes=nodes, gpus_per_node=8, racks=nodes // 16)
    run = run_of(trace, topology, _options("nowait"))
    case: dict[str, str | int | float] = {"jobs": jobs, "nodes": nodes}
    report.add("cpu_per_job", run.cpu_s / jobs * 1e3, "ms", case=case)


def _against_the_naive(jobs: int, report: Report) -> None:
    """Jobs that are all there at once, under 2D-LAS, network off: the naive time over ours."""
    drawn = drawn_jobs(PHILLY_MIX, Arrivals.BATCH, jobs=jobs, gpus=64, load=1, seed=2)
    drawn = tuple(replace(job, duration=_whole_seconds(job.duration)) for job in drawn)
    plain = [ReferenceJob(0, job.duration // SECOND, job.gpus) for job in drawn]
    started = process_time()
    naive = simulate(plain, Counter(64), policy_named("2d-las"))
    naive_s = process_time() - started
    trace = Trace(source="drawn", format="none", jobs=drawn, dropped={}, changed={})
    options = RunOptions(policy="las-exact", network=None, allocation=Allocation.COUNTER)
    started = process_time()
    outcome = replay(staged(trace, plain_topology(nodes=8, gpus_per_node=8), options).scenario)
    ours_s = process_time() - started
    assert [job.end // SECOND for job in outcome.jobs] == naive.ends, "the two disagree"
    case: dict[str, str | int | float] = {"policy": "2d-las", "jobs_at_once": jobs}
    report.add("naive_cpu", naive_s, "s", case=case)
    report.add("naive_over_ours", naive_s / ours_s, "x", reference=NAIVE_TIMES_MIN, case=case)


def _whole_seconds(duration: Duration) -> Duration:
    return Duration(-(-duration // SECOND) * SECOND)


if __name__ == "__main__":
    run_bench(__doc__ or "", measure)
