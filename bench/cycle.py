"""What a decision costs while many jobs wait: `python -m bench.cycle`.

1,000 nodes with 8 GPUs (32 a rack) are full, and so many jobs wait, by the mix in bench/fleet.py,
under fifo-backfill. `kinds` says in how many ways their requests differ: by GPUs alone, or every
one by its CPUs as well. All times are CPU time of this process.

* cycle_full: a standing made anew from a snapshot, the decision, and an answer for every job
* cycle_first: the decision on a standing that has just been made
* cycle_idle: the same again when nothing has changed
* cycle_one_ended: after one gang of 8 GPUs has ended; the reference is the full cycle
* can_not_fit: a gang of 512 GPUs on 4,000 GPUs of which 90 % are held; cold: on a new scratch pad
"""

import gc
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from bench.fleet import GPUS_PER_NODE, LEVELS, MIX, Fleet, a_request, nodes_of, tree_of
from bench.reporting import Options, Report, run_bench
from scheduler.domain import ids
from scheduler.domain.gang import GangRequest
from scheduler.domain.instants import Instant
from scheduler.domain.job import Attempt, AttemptPhase, Job, JobPhase, JobSpec, Role
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import Placement
from scheduler.domain.queue import DEFAULT_PROJECT, DEFAULT_QUEUE, Queue
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.resources import NOTHING, Resources
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.domain.topology import Node
from scheduler.engine.cycle import decide_on
from scheduler.engine.decision import Decision, answers_of
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang
from scheduler.engine.standing import Standing
from scheduler.policies.registry import policy_named

POLICY = policy_named("fifo-backfill")
NODES = 1_000
MILLI = 1e-3


def measure(options: Options, report: Report) -> None:
    """All rows."""
    nodes = NODES // 10 if options.quick else NODES
    for jobs in (1_000,) if options.quick else (10_000, 100_000):
        _cycles(nodes, jobs, report, differ=False)
    _cycles(nodes, 1_000 if options.quick else 10_000, report, differ=True)
    _can_not_fit(report)


def _cycles(nodes: int, jobs: int, report: Report, *, differ: bool) -> None:
    snapshot = _full_cluster(nodes, jobs, differ=differ)
    kinds = jobs if differ else len(MIX)
    case = {"jobs": jobs, "nodes": nodes, "kinds": kinds}
    full = _seconds(lambda: _decide_anew(snapshot)) / MILLI
    standing = Standing.of(snapshot)
    first = _seconds(lambda: decide_on(standing, snapshot, POLICY))
    idle = _seconds(lambda: decide_on(standing, snapshot, POLICY))
    ended = next(gang for gang in snapshot.holding if gang.job.spec.gpus == GPUS_PER_NODE)
    standing.holds(ended.reservations, ())
    started: list[Decision] = []
    after = _seconds(lambda: started.append(decide_on(standing, snapshot, POLICY)))
    assert started[0].plan.start, "the freed GPUs are given to someone"
    report.add("cycle_full", full, "ms", case=case)
    report.add("cycle_first", first / MILLI, "ms", case=case)
    report.add("cycle_idle", idle / MILLI, "ms", reference=full, case=case)
    report.add("cycle_one_ended", after / MILLI, "ms", reference=full, case=case)


def _decide_anew(snapshot: Snapshot) -> None:
    standing = Standing.of(snapshot)
    decision = decide_on(standing, snapshot, POLICY)
    assert len(answers_of(decision, standing, snapshot.now)) == len(snapshot.pending)


def _can_not_fit(report: Report) -> None:
    nodes = nodes_of(16)[:500]
    fleet = Fleet(free=FreeGpus(tree_of(nodes), nodes), gpus=4_000, chance=random.Random(0))
    fleet.fill(0.9)
    held = list(fleet.running)
    request = a_request(512)

    def cold() -> None:
        free = FreeGpus(fleet.free.tree, nodes)
        for placement, other in held:
            free.take(placement, other)
        samples.append(_seconds(lambda: _refuse(request, free)))

    samples: list[float] = []
    cold()
    warm = _seconds(lambda: _refuse(request, fleet.free))
    report.add("can_not_fit", samples[0] / MILLI, "ms", case={"gpus": 4_000, "pad": "cold"})
    report.add("can_not_fit", warm / MILLI, "ms", case={"gpus": 4_000, "pad": "warm"})


def _refuse(request: GangRequest, free: FreeGpus) -> None:
    assert not isinstance(place_gang(request, free), Placement), "there is no room"


def _full_cluster(nodes: int, jobs: int, *, differ: bool) -> Snapshot:
    """A cluster on which nothing is free, and jobs that wait for it."""
    chance = random.Random(jobs)
    made = [_with_cpus(node) for node in nodes_of(-(-nodes // 32))[:nodes]]
    fleet = Fleet(free=FreeGpus(tree_of(made), made), gpus=nodes * GPUS_PER_NODE, chance=chance)
    for request in fleet.wanted():
        fleet.start(request)
        if fleet.held == fleet.gpus:
            break
    return Snapshot(
        version=ids.Sequence(1),
        now=Instant(jobs),
        levels=LEVELS,
        nodes=tuple(made),
        pending=tuple(
            _job(f"waits{number}", gpus, submitted=number, cpu_milli=number + 1 if differ else 0)
            for number, gpus in enumerate(_sizes(chance, jobs))
        ),
        holding=tuple(
            _running(f"runs{number}", placement, request)
            for number, (placement, request) in enumerate(fleet.running)
        ),
        queues={DEFAULT_QUEUE: Queue(name=DEFAULT_QUEUE)},
        knobs=PolicyKnobs(policy="fifo-backfill"),
        tree=fleet.free.tree,
    )


def _sizes(chance: random.Random, jobs: int) -> Sequence[int]:
    return chance.choices(list(MIX), list(MIX.values()), k=jobs)


def _with_cpus(node: Node) -> Node:
    return replace(node, resources=Resources(cpu_milli=10**9))


def _job(name: str, gpus: int, *, submitted: int = 0, cpu_milli: int = 0) -> Job:
    role = Role(
        name=ids.RoleName("worker"),
        workers=max(1, gpus // GPUS_PER_NODE),
        gpus_per_worker=min(gpus, GPUS_PER_NODE),
        command=("train",),
        resources=Resources(cpu_milli=cpu_milli) if cpu_milli else NOTHING,
    )
    return Job(
        id=ids.JobId(name),
        project=DEFAULT_PROJECT,
        name=ids.JobName(name),
        spec=JobSpec(queue=DEFAULT_QUEUE, roles=(role,)),
        priority=0,
        submitted_at=Instant(submitted),
        phase_since=Instant(submitted),
    )


def _running(name: str, placement: Placement, request: GangRequest) -> RunningGang:
    job = replace(_job(name, request.gpus), phase=JobPhase.RUNNING, attempts=1)
    number = ids.AttemptNumber(0)
    attempt = Attempt(
        job_id=job.id,
        number=number,
        phase=AttemptPhase.RUNNING,
        phase_since=Instant(0),
        epoch=ids.Epoch(1),
        placement=placement,
        created_at=Instant(0),
    )
    reservations = tuple(
        Reservation(
            attempt=AttemptKey(job.id, number),
            role=role,
            rank=ids.Rank(rank),
            node=node,
            gpus=request.roles[0].gpus,
        )
        for rank, (role, node) in enumerate(placement.node_of_ranks())
    )
    return RunningGang(job=job, attempt=attempt, reservations=reservations)


def _seconds(call: Callable[[], object]) -> float:
    gc.collect()
    start = time.process_time()
    call()
    return time.process_time() - start


if __name__ == "__main__":
    run_bench("What a decision costs while many jobs wait.", measure)
