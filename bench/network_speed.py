"""How fast the network model answers: cached, cold, and when jobs that share links come and go."""

from random import Random
from time import perf_counter, process_time

from bench.reporting import Options, Report, run_bench
from scheduler.domain.communication import CommunicationProfile, ParallelAxes
from scheduler.domain.ids import GpuModel, LevelName
from scheduler.network.fabric import FabricLevel
from scheduler.network.loads import LinkKey, Uplink, load_of, uplink_capacities
from scheduler.network.presets import PRESETS, with_levels
from scheduler.network.sensitivity import GangShape, SensitivityTable
from scheduler.network.shape import Shape, shape_of_counts
from scheduler.network.sharing import SharedLinks

GPU = GpuModel("H100")
NODES = 1000
NODES_PER_RACK = 8

PROFILES = {
    "ddp": CommunicationProfile(model="bert-large", batch_per_gpu=32),
    "fsdp": CommunicationProfile(model="llama3.1-8b", batch_per_gpu=2),
    "3d": CommunicationProfile(
        model="llama3.1-70b",
        batch_per_gpu=1,
        accumulation_steps=16,
        parallel=ParallelAxes(tensor=8, pipeline=4),
    ),
}

CACHED_US = 20.0
COLD_US = 200.0
SHARING_PER_S = 10_000.0


def measure(options: Options, report: Report) -> None:
    """All three."""
    rounds = 200 if options.quick else 2_000
    for name, profile in PROFILES.items():
        _evaluations(name, profile, rounds, report)
    _sharing(2_000 if options.quick else 20_000, report)


def _evaluations(name: str, profile: CommunicationProfile, rounds: int, report: Report) -> None:
    fabric = PRESETS["h100-ndr"]
    shapes = [_shape(512, first_rack=first) for first in range(4)]
    table = SensitivityTable(fabric)
    table.iteration_time(profile, shapes[0], gpu_model=GPU)
    table.sensitivity(profile, GangShape(ranks=512, ranks_per_worker=8), gpu_model=GPU)
    started = process_time()
    for _ in range(rounds):
        table.iteration_time(profile, shapes[0], gpu_model=GPU)
    cached_s = (process_time() - started) / rounds
    report.add(
        "iteration_time_cached",
        cached_s * 1e6,
        "us",
        reference=CACHED_US,
        case={"gpus": 512, "profile": name},
    )
    started = process_time()
    for _ in range(rounds):
        table.sensitivity(profile, GangShape(ranks=512, ranks_per_worker=8), gpu_model=GPU)
    report.add(
        "sensitivity_cached",
        (process_time() - started) / rounds * 1e6,
        "us",
        reference=CACHED_US,
        case={"gpus": 512, "profile": name},
    )
    started = process_time()
    for _ in range(rounds // 10):
        cold = SensitivityTable(fabric)
        cold.iteration_time(profile, shapes[0], gpu_model=GPU)
    report.add(
        "iteration_time_cold",
        (process_time() - started) / (rounds // 10) * 1e6,
        "us",
        reference=COLD_US,
        case={"gpus": 512, "profile": name},
    )


def _shape(ranks: int, *, first_rack: int) -> Shape:
    nodes = ranks // 8
    paths = [(f"r{first_rack + node // NODES_PER_RACK}", "c") for node in range(nodes)]
    return shape_of_counts([8] * nodes, paths=paths)


def _sharing(updates: int, report: Report) -> None:
    """Gangs over two to four racks start and end at random on 1,000 nodes."""
    rng = Random(11)
    racks = NODES // NODES_PER_RACK
    levels = (
        FabricLevel(name=LevelName("rack"), nodes=NODES_PER_RACK, oversubscription=4.0),
        FabricLevel(name=LevelName("cluster"), nodes=NODES),
    )
    fabric = with_levels(PRESETS["h100-ndr"], levels)
    capacities = uplink_capacities(fabric, {1: [f"r{rack}" for rack in range(racks)]})
    table = SensitivityTable(fabric)
    profile = CommunicationProfile(model="bert-large", batch_per_gpu=4)
    links: SharedLinks[int, LinkKey] = SharedLinks(capacities)
    loads = []
    for _ in range(400):
        spread = rng.choice((2, 2, 2, 3, 4))
        used = rng.sample(range(racks), spread)
        shape = shape_of_counts([8] * spread, paths=[(f"r{rack}", "c") for rack in used])
        uplinks = [Uplink(level=1, domain=f"r{rack}", ranks=8) for rack in used]
        workload = table.workload(profile, shape.ranks, GPU)
        loads.append(load_of(workload, shape, fabric, uplinks, gpu_model=GPU))
    running: list[int] = []
    concerned = 0
    started = perf_counter()
    busy = process_time()
    for number in range(updates):
        if len(running) < 150 or (len(running) < 250 and rng.random() < 0.5):
            concerned += len(links.start(number, loads[number % len(loads)]))
            running.append(number)
        else:
            place = rng.randrange(len(running))
            running[place], running[-1] = running[-1], running[place]
            concerned += len(links.end(running.pop()))
    spent_s = process_time() - busy
    case = {"nodes": NODES, "jobs": len(running)}
    report.add("sharing_updates", updates / spent_s, "1/s", reference=SHARING_PER_S, case=case)
    report.add("sharing_updates_wall", updates / (perf_counter() - started), "1/s", case=case)
    report.add("sharing_jobs_touched", concerned / updates, "jobs", case=case)


if __name__ == "__main__":
    run_bench(__doc__ or "", measure)
