"""What a job asks of placing."""

from dataclasses import replace

import pytest

from scheduler.domain.communication import Axis, CommunicationProfile, ParallelAxes
from scheduler.domain.gang import axis_slices, gang_request
from scheduler.domain.ids import GpuModel, LevelName, NodeName, PoolName
from scheduler.domain.job import AxisWithin, JobSpec, Slice, TopologyRequest
from tests.builders import a_role, a_spec

RACK, BLOCK, NODE = LevelName("rack"), LevelName("block"), LevelName("node")


@pytest.mark.parametrize(
    ("rules", "parallel", "expected"),
    [
        pytest.param(
            {Axis.TENSOR: NODE}, ParallelAxes(tensor=8), [], id="an axis inside one worker"
        ),
        pytest.param(
            {Axis.TENSOR: RACK},
            ParallelAxes(tensor=16),
            [(2, RACK)],
            id="an axis over two workers",
        ),
        pytest.param(
            {Axis.TENSOR: RACK, Axis.PIPELINE: BLOCK},
            ParallelAxes(tensor=16, pipeline=2),
            [(4, BLOCK), (2, RACK)],
            id="an axis holds those inside it, widest first",
        ),
        pytest.param(
            {Axis.TENSOR: RACK},
            ParallelAxes(tensor=4, pipeline=8, order=(Axis.PIPELINE, Axis.TENSOR)),
            [(4, RACK)],
            id="the order says what lies inside",
        ),
        pytest.param(
            {Axis.TENSOR: RACK},
            ParallelAxes(tensor=12),
            [(3, RACK)],
            id="workers that share a group stay together",
        ),
        pytest.param(
            {Axis.DATA: BLOCK}, ParallelAxes(tensor=8), [(8, BLOCK)], id="the data axis is the gang"
        ),
        pytest.param({}, ParallelAxes(tensor=16), [], id="no rule"),
    ],
)
def test_axes_become_groups_of_workers_with_eight_gpus(
    rules: dict[Axis, LevelName], parallel: ParallelAxes, expected: list[tuple[int, LevelName]]
) -> None:
    named = tuple(AxisWithin(axis=axis, within=within) for axis, within in rules.items())

    assert axis_slices(named, parallel, workers=8, gpus=8) == tuple(
        Slice(workers=workers, within=within) for workers, within in expected
    )


def test_slices_bind_the_roles_they_cut_up() -> None:
    spec = a_spec(
        roles=[a_role("chief", gpus=1), a_role("trainer", workers=8), a_role("ps", gpus=0)],
        topology=TopologyRequest(slices=(Slice(workers=4, within=RACK),)),
    )
    slices = {role.name: role.slices for role in gang_request(spec).roles}

    assert slices == {"chief": (), "trainer": (Slice(workers=4, within=RACK),), "ps": ()}


def test_axes_take_their_sizes_from_the_communication_section() -> None:
    spec = a_spec(
        workers=4,
        topology=TopologyRequest(axes=(AxisWithin(axis=Axis.TENSOR, within=RACK),)),
    )
    profile = CommunicationProfile(parallel=ParallelAxes(tensor=16))

    assert gang_request(spec).roles[0].slices == ()
    assert gang_request(a_spec_with(spec, profile)).roles[0].slices == (
        Slice(workers=2, within=RACK),
    )


def a_spec_with(spec: JobSpec, profile: CommunicationProfile) -> JobSpec:
    return replace(spec, communication=profile)


def test_a_request_says_what_the_job_says() -> None:
    spec = a_spec(
        roles=[a_role("a", gpus=2)],
        gpu_models=(GpuModel("H100"),),
        mixes_gpu_models=True,
        pool=PoolName("p"),
        topology=TopologyRequest(required=RACK),
    )
    request = gang_request(spec, excluded=frozenset({NodeName("n1")}))

    assert request.models == ("H100",)
    assert request.mixes_models
    assert request.required == RACK
    assert request.excluded == {"n1"}
    assert request.roles[0].pool == "p"
    assert (request.workers, request.gpus) == (1, 2)


def test_equal_requests_are_one_key() -> None:
    assert {gang_request(a_spec(workers=2)): 1}[gang_request(a_spec(workers=2))] == 1
    assert gang_request(a_spec(workers=2)) != gang_request(a_spec(workers=3))
