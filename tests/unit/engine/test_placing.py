"""Where gangs go on small clusters."""

import pytest

from scheduler.domain.gang import GangRequest
from scheduler.domain.placement import NeverFits, Placement, TooFewGpus
from scheduler.engine.placing import place_gang
from tests.pads import a_gang, a_pad, spots


@pytest.mark.parametrize(
    ("picture", "gang", "expected", "tier"),
    [
        pytest.param("r1: 4 8", a_gang(1, 4), {"r1-n0": 1}, 0, id="tightest node wins"),
        pytest.param("r1: 8 4", a_gang(2, 2), {"r1-n1": 2}, 0, id="several workers share a node"),
        pytest.param(
            "r1: 8\nr2: 8", a_gang(2), {"r1-n0": 1, "r2-n0": 1}, 2, id="across racks if need be"
        ),
        pytest.param(
            "r1: 8 8 8\nr2: 8 8",
            a_gang(2),
            {"r2-n0": 1, "r2-n1": 1},
            1,
            id="tightest rack wins",
        ),
        pytest.param(
            "r1: 8 2 4",
            a_gang(10, 1),
            {"r1-n0": 8, "r1-n1": 2},
            1,
            id="fewest nodes and the last one tight",
        ),
        pytest.param(
            "?: 8 8\nr1: 8\nr2: 8",
            a_gang(2),
            {"?-n0": 1, "?-n1": 1},
            2,
            id="an unknown rack promises nothing, so the tier is the cluster",
        ),
    ],
)
def test_a_gang_goes_to(
    picture: str, gang: GangRequest, expected: dict[str, int], tier: int
) -> None:
    placement = place_gang(gang, a_pad(picture))

    assert isinstance(placement, Placement)
    assert spots(placement) == expected
    assert placement.tier == tier


def test_a_full_cluster_may_hold_the_gang_later() -> None:
    answer = place_gang(a_gang(2), a_pad("r1: 8 4\nr2: 3"))

    assert isinstance(answer, TooFewGpus)
    assert answer.workers_fit_max == 1
    assert sum(answer.nodes_by_reason.values()) == answer.nodes == 3


def test_a_gang_over_the_capacity_of_every_rack_never_fits_one() -> None:
    assert isinstance(place_gang(a_gang(3, required="rack"), a_pad("r1: 8 4\nr2: 3")), NeverFits)


def test_a_trial_undoes_itself() -> None:
    free = a_pad("r1: 8")
    placement = place_gang(a_gang(), free)
    assert isinstance(placement, Placement)

    with free.trial():
        free.take(placement, a_gang())
        assert isinstance(place_gang(a_gang(), free), TooFewGpus)

    assert place_gang(a_gang(), free) == placement
