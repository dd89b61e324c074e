"""How fast gangs are placed: `python -m bench.placement`.

A cluster of 8-GPU nodes, 32 a rack, 20 racks a block, is filled with gangs of the mix in
bench/fleet.py to a load, and stirred: every gang has been replaced twice. Then gangs end and others
are placed at that load.

All times are CPU time of this process: what others on the machine do slows it through the caches
all the same, so rates and means are those of the fastest of several rounds; p50 and p99 are of all.

* decisions_per_second: place_gang alone; the reference is a plain scan over all nodes with the
  same rules, on the same cluster
* operations_per_second: placing with taking, and releasing, one each
* decision_p50, decision_p99: one place_gang
* decision_mean: the reference is a tenth of the GPUs, so the ratio is how the cost grows
* decision_p99[gang=512]: a gang of 64 whole nodes
"""

import gc
import random
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.fleet import GPUS_PER_RACK, Fleet, a_request, nodes_of, tree_of
from bench.plain_scan import PlainScan
from bench.reporting import Options, Report, percentile, run_bench
from scheduler.domain.gang import GangRequest
from scheduler.domain.placement import Placement
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang

RACKS = (4, 40, 400)
LOADS = (0.5, 0.8, 0.95)
LARGE_GANG = 512
MICRO = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How much is measured."""

    racks: Sequence[int]
    loads: Sequence[float]
    rounds: int
    decisions: int
    """A round."""
    large: int
    scans: int


FULL = Counts(racks=RACKS, loads=LOADS, rounds=5, decisions=10_000, large=500, scans=40)
QUICK = Counts(racks=(4, 40), loads=(0.8,), rounds=2, decisions=2_000, large=100, scans=20)


def measure(options: Options, report: Report) -> None:
    """All rows."""
    counts = QUICK if options.quick else FULL
    means: dict[tuple[int, float], float] = {}
    for racks in counts.racks:
        _memory(racks, report)
        for load in counts.loads:
            fleet = _stirred(racks, load)
            case = {"gpus": racks * GPUS_PER_RACK, "load": load}
            mean = _decisions(fleet, load, counts, report, case)
            report.add(
                "decision_mean",
                mean / MICRO,
                "us",
                reference=_tenth(means, racks, load),
                case=case,
            )
            means[racks, load] = mean / MICRO
            _large_gang(fleet, load, counts, report, case)


def _stirred(racks: int, load: float) -> Fleet:
    nodes = nodes_of(racks)
    free = FreeGpus(tree_of(nodes), nodes)
    fleet = Fleet(free=free, gpus=racks * GPUS_PER_RACK, chance=random.Random(racks))
    fleet.fill(load)
    return fleet


@dataclass(slots=True, kw_only=True)
class Round:
    """What one round has taken, in seconds of CPU."""

    samples: list[float] = field(default_factory=list)
    """Each decision."""
    taking: float = 0.0
    """Taking and releasing."""
    releases: int = 0

    @property
    def decision(self) -> float:
        """Mean of one decision."""
        return sum(self.samples) / len(self.samples)

    @property
    def operations_per_second(self) -> float:
        """Places and releases."""
        return (len(self.samples) + self.releases) / (sum(self.samples) + self.taking)


def _decisions(
    fleet: Fleet, load: float, counts: Counts, report: Report, case: dict[str, int | float]
) -> float:
    """Places and releases gangs; seconds of CPU per decision."""
    rounds = [_round(fleet, load, counts.decisions) for _ in range(counts.rounds)]
    mean = min(each.decision for each in rounds)
    samples = [sample for each in rounds for sample in each.samples]
    report.add(
        "decisions_per_second",
        1 / mean,
        "1/s",
        reference=_scans_per_second(fleet, list(fleet.wanted(counts.scans))),
        case=case,
    )
    operations = max(each.operations_per_second for each in rounds)
    report.add("operations_per_second", operations, "1/s", case=case)
    report.add("decision_p50", percentile(samples, 0.5) / MICRO, "us", case=case)
    report.add("decision_p99", percentile(samples, 0.99) / MICRO, "us", case=case)
    return mean


def _round(fleet: Fleet, load: float, decisions: int) -> Round:
    free, found = fleet.free, Round()
    clock, overhead = time.process_time, _clock_cost()
    wanted = list(fleet.wanted(decisions))
    gc.collect()
    for request in wanted:
        while fleet.held + request.gpus > load * fleet.gpus:
            placement, ended = fleet.any_running()
            start = clock()
            free.release(placement, ended)
            found.taking += clock() - start - overhead
            found.releases += 1
        start = clock()
        answer = place_gang(request, free)
        found.samples.append(clock() - start - overhead)
        if isinstance(answer, Placement):
            start = clock()
            free.take(answer, request)
            found.taking += clock() - start - overhead
            fleet.running.append((answer, request))
            fleet.held += request.gpus
    return found


def _large_gang(
    fleet: Fleet, load: float, counts: Counts, report: Report, case: dict[str, int | float]
) -> None:
    """Placing a gang of many nodes, with some change in between."""
    request = a_request(LARGE_GANG)
    samples: list[float] = []
    for _ in range(counts.large):
        for small in fleet.wanted(10):
            fleet.make_room(small, load)
            fleet.start(small)
        start = time.process_time()
        found = place_gang(request, fleet.free)
        samples.append(time.process_time() - start)
        if isinstance(found, Placement):
            fleet.free.take(found, request)
            fleet.free.release(found, request)
    report.add(
        "decision_p99",
        percentile(samples, 0.99) / MICRO,
        "us",
        case={"gang": LARGE_GANG, **case},
    )


def _scans_per_second(fleet: Fleet, wanted: Sequence[GangRequest]) -> float:
    scan = PlainScan(fleet.free.tree, fleet.free.nodes, fleet.free.gpus)
    start = time.process_time()
    for request in wanted:
        scan.place(request)
    return len(wanted) / (time.process_time() - start)


def _memory(racks: int, report: Report) -> None:
    """What the tree, the pad and the counts of the mix take."""
    nodes = nodes_of(racks)
    tracemalloc.start()
    fleet = Fleet(free=FreeGpus(tree_of(nodes), nodes), gpus=0, chance=random.Random(0))
    for request in fleet.requests.values():
        fleet.start(request)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    report.add("memory", taken / 2**20, "MiB", case={"gpus": racks * GPUS_PER_RACK})


def _tenth(means: dict[tuple[int, float], float], racks: int, load: float) -> float | None:
    return means.get((racks // 10, load))


def _clock_cost() -> float:
    start = time.process_time()
    for _ in range(1000):
        time.process_time()
    return (time.process_time() - start) / 1000


if __name__ == "__main__":
    run_bench("How fast gangs are placed on up to 100,000 GPUs.", measure)
