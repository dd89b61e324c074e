"""Who meets on which way out, followed from one decision to the next."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from scheduler.domain.ids import JobId
from scheduler.domain.instants import after, seconds
from scheduler.domain.job import JobPhase
from scheduler.domain.placement import Placement
from scheduler.domain.snapshot import Neighbour, RunningGang, Snapshot
from scheduler.domain.topology import topology_tree
from scheduler.engine.crowding import Crowd, Traffic
from tests.builders import a_cluster, a_job, a_placement, a_running_gang, a_snapshot, at

PICTURE = a_cluster("r1: 8 8 8\nr2: 8 8 8")
NODES = [node.name for node in PICTURE.nodes]
TREE = topology_tree(PICTURE.levels, PICTURE.nodes)
WIDE = a_placement(PICTURE, a_job("new", workers=6, gpus=1), dict.fromkeys(NODES, 1))


def a_gang(name: str, *nodes: str) -> RunningGang:
    job = a_job(name, workers=len(nodes), gpus=1)
    return a_running_gang(PICTURE, job, dict.fromkeys(nodes, 1))


def a_view(*gangs: RunningGang) -> Snapshot:
    return replace(a_snapshot(PICTURE, now=at(60)), holding=gangs)


def beside(
    traffic: Traffic, snapshot: Snapshot, *, moving: Mapping[JobId, Placement] | None = None
) -> list[str]:
    """Who meets a gang that is on all nodes."""
    crowd = Crowd(traffic, snapshot.now)
    crowd.follow(snapshot, moving=moving or {}, coming=())
    return [told(each) for each in crowd.beside(WIDE, leaving=frozenset())]


def told(gang: Neighbour) -> str:
    nodes = " ".join(each.node for each in gang.placement.assignments)
    return f"{gang.job.name}: {nodes}, {gang.ran_for}"


def test_gangs_on_one_node_meet_nobody() -> None:
    traffic = Traffic(TREE)
    seen = a_view(a_gang("one", "r1-n0"), a_gang("two", "r1-n0", "r1-n1"))
    assert beside(traffic, seen) == ["two: r1-n0 r1-n1, 60000000"]


def test_a_gang_that_leaves_or_is_told_to_stop_meets_nobody() -> None:
    traffic = Traffic(TREE)
    gang = a_gang("two", "r1-n0", "r1-n1")
    stopping = replace(gang, job=replace(gang.job, phase=JobPhase.STOPPING))
    assert beside(traffic, a_view(gang))
    assert beside(traffic, a_view(stopping)) == []
    assert beside(traffic, a_view(gang))
    assert beside(traffic, a_view()) == []


def test_a_gang_that_moves_is_met_where_it_goes() -> None:
    gang = a_gang("two", "r1-n1", "r1-n2")
    wide = a_placement(PICTURE, gang.job, {"r1-n0": 1, "r2-n0": 1})
    narrow = a_placement(PICTURE, gang.job, {"r1-n0": 2})
    met = beside(Traffic(TREE), a_view(gang), moving={gang.job.id: wide})
    assert met == ["two: r1-n0 r2-n0, 0"]
    assert beside(Traffic(TREE), a_view(gang), moving={gang.job.id: narrow}) == []


def test_what_is_followed_equals_what_is_looked_up_anew() -> None:
    rng, followed = Random(1), Traffic(TREE)
    gangs: dict[str, RunningGang] = {}
    now = at(0)
    for step in range(200):
        name = f"j{rng.randrange(8)}"
        match rng.randrange(3):
            case 0:
                gangs[name] = a_gang(name, *sorted(rng.sample(NODES, rng.randint(1, 4))))
            case 1:
                gangs.pop(name, None)
            case _ if name in gangs:
                job = gangs[name].job
                phase = rng.choice([JobPhase.RUNNING, JobPhase.STOPPING])
                gangs[name] = replace(gangs[name], job=replace(job, phase=phase))
        now = after(now, seconds(10))
        view = replace(a_view(*gangs.values()), now=now)
        assert beside(followed, view) == beside(Traffic(TREE), view), f"step {step}"
