"""Placements as pictures."""

from collections import Counter
from dataclasses import replace

from scheduler.domain.drawing import Held, draw_placement
from scheduler.domain.ids import LevelName, NodeName, RoleName
from scheduler.domain.placement import Assignment, Placement
from scheduler.domain.topology import topology_tree
from tests.builders import APicture, a_cluster, a_job, a_placement

LEGEND = "# this job   o held by others   . free"


def drawn(
    cluster: APicture, placement: Placement, others: dict[str, int], gpus: dict[str, int]
) -> list[str]:
    """The lines of the picture, with what others hold."""
    held = Counter({NodeName(name): count for name, count in others.items()})
    for part in placement.assignments:
        held[part.node] += part.workers * gpus[part.role]
    picture = draw_placement(
        placement,
        topology_tree(cluster.levels, cluster.nodes),
        cluster.nodes,
        Held(
            gpus_by_node=held,
            gpus_per_worker={RoleName(role): count for role, count in gpus.items()},
        ),
    )
    *lines, legend = picture.splitlines()
    assert legend == LEGEND
    return lines


def test_nodes_stand_in_their_racks_gpu_by_gpu() -> None:
    cluster = a_cluster("b1/r1: 8 8 8\nb1/r2: 8\nb2/r3: 8")
    placement = a_placement(cluster, a_job(workers=4, gpus=4), {"r1-n0": 2, "r1-n1": 1, "r2-n0": 1})

    assert drawn(cluster, placement, {"r1-n1": 2}, {"worker": 4}) == [
        "block b1   (1 other node)",
        "  rack r1   (1 other node)",
        "    r1-n0  [########]  worker 0-1",
        "    r1-n1  [####oo..]  worker 2",
        "  rack r2",
        "    r2-n0  [####....]  worker 3",
    ]


def test_a_gang_on_one_node_is_shown_in_its_rack() -> None:
    cluster = a_cluster("b1/r1: 4 4")
    placement = a_placement(cluster, a_job(gpus=1), {"r1-n1": 1})

    assert drawn(cluster, placement, {}, {"worker": 1}) == [
        "rack r1   (1 other node)",
        "  r1-n1  [#...]  worker 0",
    ]


def test_workers_without_gpus_are_named_beside_the_others() -> None:
    cluster = a_cluster("r1: 2")
    node = NodeName("r1-n0")
    placement = Placement(
        assignments=(
            Assignment(role=RoleName("launcher"), node=node, workers=1),
            Assignment(role=RoleName("worker"), node=node, workers=2),
        ),
        tier=0,
        tier_name=LevelName("node"),
    )

    assert drawn(cluster, placement, {}, {"launcher": 0, "worker": 1}) == [
        "rack r1",
        "  r1-n0  [##]  launcher 0, worker 1-2",
    ]


def test_nodes_with_many_gpus_show_numbers() -> None:
    cluster = a_cluster("r1: 72")
    placement = a_placement(cluster, a_job(gpus=36), {"r1-n0": 1})

    assert drawn(cluster, placement, {"r1-n0": 4}, {"worker": 36})[1] == (
        "  r1-n0  [36# 4o 32.]  worker 0"
    )


def test_without_racks_the_nodes_stand_in_the_cluster() -> None:
    cluster = a_cluster("r1: 1 1")
    flat = APicture(levels=(), nodes=tuple(replace(node, path=()) for node in cluster.nodes))
    placement = a_placement(flat, a_job(workers=2, gpus=1), {"r1-n0": 1, "r1-n1": 1})

    assert drawn(flat, placement, {}, {"worker": 1}) == [
        "cluster",
        "  r1-n0  [#]  worker 0",
        "  r1-n1  [#]  worker 1",
    ]


def test_a_node_that_has_left_the_cluster_is_named() -> None:
    cluster = a_cluster("r1: 1 1")
    placement = a_placement(cluster, a_job(workers=2, gpus=1), {"r1-n0": 1, "r1-n1": 1})
    left = replace(cluster, nodes=cluster.nodes[:1])

    assert drawn(left, placement, {}, {"worker": 1}) == [
        "rack r1",
        "  r1-n0  [#]  worker 0",
        "r1-n1  is not in the cluster any more",
    ]
