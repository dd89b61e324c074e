"""Which bound volumes a node can not mount, by what PersistentVolumes say."""

import pytest

from scheduler.adapters.kubernetes.cache import Change
from scheduler.adapters.kubernetes.objects import JsonObject
from scheduler.adapters.kubernetes.reach import Reach
from scheduler.domain.codec import Json
from scheduler.domain.ids import NodeName

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
FORMER_ZONE = "failure-domain.beta.kubernetes.io/zone"
NODES = {"n0": {HOST: "h0", ZONE: "a", "gen": "4"}, "n1": {HOST: "h1", ZONE: "b", "gen": "5"}}


def a_node(labels: dict[str, str]) -> JsonObject:
    """A node object with these labels."""
    return {"metadata": {"labels": {**labels}}}


def a_volume(
    *terms: JsonObject,
    claim: str = "c",
    namespace: str = "jobs",
    phase: str = "Bound",
    labels: dict[str, Json] | None = None,
    uid: str = "",
) -> JsonObject:
    """A PersistentVolume; one of the terms must hold, without any it says nothing of nodes."""
    spec: JsonObject = {"claimRef": {"namespace": namespace, "name": claim}}
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [*terms]}}
    metadata: JsonObject = {"uid": uid or claim, "name": f"pv-{claim}", "labels": labels or {}}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase}}


def a_term(key: str, operator: str, *values: str, part: str = "matchExpressions") -> JsonObject:
    """A term of one requirement."""
    return {part: [{"key": key, "operator": operator, "values": [*values]}]}


def a_reach(*volumes: JsonObject) -> Reach:
    """Both nodes, then these volumes."""
    reach = Reach(frozenset({"jobs"}))
    for name, labels in NODES.items():
        reach.take_node(NodeName(name), a_node(labels))
    reach.take_volumes([Change(before=None, after=volume) for volume in volumes])
    return reach


def within(reach: Reach, claim: str = "jobs/c") -> str:
    """The nodes that can mount the claim's volume."""
    return " ".join(name for name in NODES if claim not in reach.beyond(NodeName(name)))


@pytest.mark.parametrize(
    ("volume", "nodes"),
    [
        pytest.param(a_volume(), "n0 n1", id="no affinity"),
        pytest.param(a_volume(a_term(HOST, "In", "h1")), "n1", id="a local volume"),
        pytest.param(a_volume(a_term(ZONE, "In", "a", "z")), "n0", id="a zonal volume"),
        pytest.param(
            a_volume(a_term(ZONE, "In", "a"), a_term(HOST, "In", "h1")), "n0 n1", id="either term"
        ),
        pytest.param(
            a_volume(
                {
                    "matchExpressions": [
                        {"key": ZONE, "operator": "In", "values": ["a"]},
                        {"key": HOST, "operator": "In", "values": ["h1"]},
                    ]
                }
            ),
            "",
            id="all of a term",
        ),
        pytest.param(
            a_volume(a_term("metadata.name", "In", "n1", part="matchFields")), "n1", id="by name"
        ),
        pytest.param(a_volume(a_term(ZONE, "NotIn", "a")), "n1", id="anywhere else"),
        pytest.param(
            a_volume(a_term("ssd", "NotIn", "x")), "n0 n1", id="a label that is not there"
        ),
        pytest.param(a_volume(a_term("ssd", "Exists")), "", id="nowhere"),
        pytest.param(a_volume(a_term("ssd", "DoesNotExist")), "n0 n1", id="where it is not"),
        pytest.param(a_volume(a_term("gen", "Gt", "4")), "n1", id="larger"),
        pytest.param(a_volume(a_term("gen", "Lt", "5")), "n0", id="smaller"),
        pytest.param(a_volume(a_term("gen", "Gt", "x")), "", id="not a number"),
        pytest.param(a_volume(a_term("gen", "Gt", "0_1")), "", id="no number to kube-scheduler"),
        pytest.param(a_volume(a_term("gen", "Near", "4")), "", id="an operator of later"),
        pytest.param(a_volume({}), "", id="an empty term"),
        pytest.param(a_volume(labels={ZONE: "a__c"}), "n0", id="zones in a label"),
        pytest.param(a_volume(labels={FORMER_ZONE: "a"}), "n0", id="the former name of zones"),
        pytest.param(a_volume(a_term(HOST, "In", "h1"), phase="Available"), "n0 n1", id="unbound"),
        pytest.param(a_volume(a_term(HOST, "In", "h1"), phase="Released"), "n0 n1", id="let go"),
    ],
)
def test_a_volume_is_in_reach_where_its_affinity_allows(volume: JsonObject, nodes: str) -> None:
    assert within(a_reach(volume)) == nodes


def test_claims_of_other_namespaces_are_others() -> None:
    reach = a_reach(a_volume(a_term(HOST, "In", "h1")))
    assert within(reach, "other/c") == "n0 n1"


def test_a_volume_that_changes_and_goes_changes_the_nodes() -> None:
    here, there = (a_volume(a_term(HOST, "In", host)) for host in ("h0", "h1"))
    reach = a_reach(here)
    assert reach.take_volumes([Change(before=here, after=here)]) is False
    assert reach.take_volumes([Change(before=here, after=there)]) is True
    assert within(reach) == "n1"
    assert reach.take_volumes([Change(before=there, after=None)]) is True
    assert within(reach) == "n0 n1"


def test_a_node_that_comes_later_and_one_that_changes_are_judged_by_their_labels() -> None:
    reach = a_reach(a_volume(a_term(ZONE, "In", "a")), a_volume(claim="any"))
    reach.take_node(NodeName("n2"), a_node({ZONE: "b"}))
    assert reach.beyond(NodeName("n2")) == {"jobs/c"}
    reach.take_node(NodeName("n2"), a_node({ZONE: "a"}))
    assert reach.beyond(NodeName("n2")) == frozenset()
    reach.take_node(NodeName("n1"), None)
    assert reach.beyond(NodeName("n1")) == frozenset()


def test_a_node_without_any_zone_can_mount_volumes_of_all_zones() -> None:
    reach = a_reach(a_volume(labels={ZONE: "a"}))
    reach.take_node(NodeName("n2"), a_node({HOST: "h2"}))
    assert reach.beyond(NodeName("n2")) == frozenset(), "as kube-scheduler has it"
    reach.take_node(NodeName("n2"), a_node({"topology.kubernetes.io/region": "r"}))
    assert reach.beyond(NodeName("n2")) == {"jobs/c"}


def test_claims_where_no_gang_may_be_are_not_kept() -> None:
    reach = a_reach(a_volume(a_term(HOST, "In", "h1"), namespace="shop"))
    assert reach.beyond(NodeName("n0")) == frozenset()


def test_the_end_of_an_older_volume_leaves_what_a_newer_one_of_the_claim_says() -> None:
    older, newer = (a_volume(a_term(HOST, "In", "h1"), uid=uid) for uid in ("u1", "u2"))
    reach = a_reach(older)
    reach.take_volumes([Change(before=None, after=newer)])
    reach.take_volumes([Change(before=older, after=None)])
    assert within(reach) == "n1"
