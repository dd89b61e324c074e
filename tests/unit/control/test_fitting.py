"""At submission: a gang that even the empty cluster can not hold is refused, no other."""

from dataclasses import replace

import pytest

from scheduler.control.fitting import EmptyCluster
from scheduler.domain.ids import GpuModel, LevelName, PoolName
from scheduler.domain.job import JobSpec, TopologyRequest
from scheduler.domain.placement import NeverFits, PoolMissing
from tests.builders import a_cluster, a_spec

RACK = TopologyRequest(required=LevelName("rack"))


def an_empty(picture: str) -> EmptyCluster:
    drawn = a_cluster(picture)
    return EmptyCluster(drawn.levels, drawn.nodes)


@pytest.mark.parametrize(
    ("picture", "spec"),
    [
        pytest.param("r1: 8 8", a_spec(workers=2), id="it fits"),
        pytest.param("r1: 8\nr2: 8", a_spec(workers=2), id="it fits across racks"),
        pytest.param("", a_spec(workers=1000), id="no cluster has been observed"),
        pytest.param("r1: 8", a_spec(gpus=0), id="no GPUs wanted"),
    ],
)
def test_a_gang_that_may_fit_one_day_is_accepted(picture: str, spec: JobSpec) -> None:
    assert an_empty(picture).refusal(spec) is None


@pytest.mark.parametrize(
    ("picture", "spec", "kind"),
    [
        pytest.param("r1: 8 8", a_spec(workers=3), NeverFits, id="too many workers"),
        pytest.param("r1: 8 8", a_spec(gpus=16), NeverFits, id="too many GPUs for one node"),
        pytest.param(
            "r1: 8\nr2: 8", a_spec(workers=2, topology=RACK), NeverFits, id="no rack is so large"
        ),
        pytest.param(
            "r1: 8", a_spec(gpu_models=(GpuModel("H100"),)), NeverFits, id="no such GPU model"
        ),
        pytest.param("r1: 8", a_spec(pool=PoolName("h100")), PoolMissing, id="no such pool"),
    ],
)
def test_a_gang_that_never_fits_is_refused(picture: str, spec: JobSpec, kind: type) -> None:
    assert isinstance(an_empty(picture).refusal(spec), kind)


def test_what_may_pass_is_no_reason_to_refuse() -> None:
    drawn = a_cluster("r1: 8 8")
    hindered = [
        replace(drawn.nodes[0], is_ready=False, gpus=2, gpus_foreign=6),
        replace(drawn.nodes[1], is_cordoned=True, taints=("a=b:NoSchedule",)),
    ]

    assert EmptyCluster(drawn.levels, hindered).refusal(a_spec(workers=2)) is None
