"""What gangs are predicted to lose by each other on the ways out of racks."""

from dataclasses import replace

import pytest

from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import Duration
from scheduler.domain.job import Job
from scheduler.domain.snapshot import Neighbour
from scheduler.domain.topology import topology_tree
from scheduler.engine.crowding import ways_out
from scheduler.engine.ladders import Ladders, NoDistance
from tests.builders import a_cluster, a_job, a_placement
from tests.simulation.sensitive_world import COMPUTES, TALKS, narrow_fabric

PICTURE = a_cluster("r1: 8 8 8\nr2: 8 8 8", gpu_model="V100")
TREE = topology_tree(PICTURE.levels, PICTURE.nodes)
LADDERS = Ladders(TREE, PICTURE.nodes, narrow_fabric)


def talking(name: str, profile: CommunicationProfile = TALKS) -> Job:
    job = a_job(name, workers=2)
    return replace(job, spec=replace(job.spec, communication=profile))


def beside(job: Job, *nodes: str) -> Neighbour:
    return Neighbour(
        job=job, placement=a_placement(PICTURE, job, dict.fromkeys(nodes, 1)), ran_for=Duration(0)
    )


def test_two_gangs_across_the_same_racks_slow_each_other_down() -> None:
    job, other = talking("s"), beside(talking("o"), "r1-n1", "r2-n1")
    place = a_placement(PICTURE, job, {"r1-n0": 1, "r2-n0": 1})
    own, theirs = LADDERS.shared_steps(job, place, (other,))
    assert own.before_s == pytest.approx(LADDERS.step_s(job, place))
    assert own.after_s > 1.5 * own.before_s
    assert theirs == own


def test_a_gang_inside_a_rack_and_one_that_computes_only_disturb_nobody() -> None:
    job = talking("s")
    place = a_placement(PICTURE, job, {"r1-n0": 1, "r2-n0": 1})
    others = (
        beside(talking("inside"), "r1-n1", "r1-n2"),
        beside(talking("quiet", COMPUTES), "r1-n1", "r2-n1"),
        beside(replace(talking("small"), spec=a_job("small", gpus=1).spec), "r1-n1"),
    )
    own, inside, quiet, small = LADDERS.shared_steps(job, place, others)
    assert own.longer_s < 0.01 * own.before_s
    assert [each.longer_s for each in (inside, quiet, small)] == [0, pytest.approx(0), 0]


def test_of_a_gang_whose_first_node_is_gone_the_others_count() -> None:
    job = talking("s")
    place = a_placement(PICTURE, job, {"r1-n0": 1, "r2-n0": 1})
    wide = replace(talking("o"), spec=replace(talking("o").spec, roles=a_job(workers=3).spec.roles))
    placement = a_placement(PICTURE, wide, {"r1-n1": 1, "r1-n2": 1, "r2-n2": 1})
    gone, *there = placement.assignments
    moved = replace(placement, assignments=(replace(gone, node=NodeName("gone")), *there))
    other = Neighbour(job=wide, placement=moved, ran_for=Duration(0))
    own, theirs = LADDERS.shared_steps(job, place, (other,))
    assert own.longer_s > 0
    assert theirs.longer_s > 0


def test_alike_jobs_at_one_place_are_tried_once_and_others_each_for_itself() -> None:
    others = (beside(talking("o"), "r1-n1", "r2-n1"),)
    jobs = [talking("a"), talking("b"), talking("c", COMPUTES)]
    a, b, c = (
        LADDERS.shared_steps(job, a_placement(PICTURE, job, {"r1-n0": 1, "r2-n0": 1}), others)
        for job in jobs
    )
    assert a is b
    assert c[1].longer_s < 0.01 * a[1].longer_s


def test_a_neighbour_that_has_moved_is_met_where_it_is_now() -> None:
    job = talking("s")
    place = a_placement(PICTURE, job, {"r1-n0": 1, "r2-n0": 1})
    across, inside = beside(talking("o"), "r1-n1", "r2-n1"), beside(talking("o"), "r1-n1", "r1-n2")
    met = [LADDERS.shared_steps(job, place, (gang,))[0].longer_s for gang in (across, inside)]
    assert met[0] > 0
    assert met[1] == 0


def test_without_distance_nobody_loses() -> None:
    job, other = talking("s"), beside(talking("o"), "r1-n1", "r2-n1")
    place = a_placement(PICTURE, job, {"r1-n0": 1, "r2-n0": 1})
    steps = NoDistance(TREE, PICTURE.nodes).shared_steps(job, place, (other,))
    assert [each.longer_s for each in steps] == [0, 0]


def test_a_gang_leaves_each_domain_below_its_tier_unless_it_fills_one() -> None:
    job = a_job("s", workers=2)
    across = a_placement(PICTURE, job, {"r1-n1": 1, "r2-n0": 1})
    assert list(ways_out(across, TREE)) == [(0, 1), (0, 3), (1, 0), (1, 1)]
    inside = a_placement(PICTURE, job, {"r1-n1": 1, "r1-n2": 1})
    assert list(ways_out(inside, TREE)) == [(0, 1), (0, 2)]
    alone = a_job("a")
    assert list(ways_out(a_placement(PICTURE, alone, {"r1-n1": 1}), TREE)) == []
