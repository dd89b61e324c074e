"""`replace`: the same as that of the standard library."""

import dataclasses
from dataclasses import dataclass, field

import pytest

from scheduler.domain.copying import replace
from scheduler.domain.gang import gang_request
from scheduler.domain.instants import Instant
from scheduler.domain.job import JobPhase
from tests.builders import a_job


@dataclass(frozen=True, slots=True)
class Halves:
    left: int
    right: int

    def __post_init__(self) -> None:
        assert self.left <= self.right


@dataclass(frozen=True)
class WithoutSlots:
    left: int
    right: int = 2


@dataclass(frozen=True, slots=True)
class WithSum:
    left: int
    right: int
    total: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "total", self.left + self.right)


@pytest.mark.parametrize(
    ("thing", "changes"),
    [
        pytest.param(Halves(1, 2), {"right": 7}, id="one field"),
        pytest.param(Halves(1, 2), {}, id="nothing"),
        pytest.param(WithoutSlots(1), {"left": 3}, id="a class without slots"),
        pytest.param(WithSum(1, 2), {"left": 3}, id="a field that is worked out"),
        pytest.param(
            a_job(), {"phase": JobPhase.RUNNING, "phase_since": Instant(7)}, id="a whole job"
        ),
        pytest.param(gang_request(a_job().spec), {}, id="a hash that is kept"),
    ],
)
def test_a_copy_equals_that_of_the_standard_library(thing: Halves, changes: dict[str, int]) -> None:
    expected = dataclasses.replace(thing, **changes)
    copy = replace(thing, **changes)
    assert copy == expected
    assert copy is not thing
    assert type(copy) is type(thing)


def test_the_thing_itself_stays_as_it_was() -> None:
    thing = Halves(1, 2)
    replace(thing, right=9)
    assert thing == Halves(1, 2)


def test_a_copy_is_checked_as_a_new_one_is() -> None:
    with pytest.raises(AssertionError):
        replace(Halves(1, 2), left=3)


def test_an_unknown_field_is_refused() -> None:
    with pytest.raises(TypeError, match="no field 'middle'"):
        replace(Halves(1, 2), middle=3)  # type: ignore[call-arg]  # what is tested


def test_a_copy_is_as_frozen_as_a_new_one() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        replace(Halves(1, 2), right=3).right = 4  # type: ignore[misc]  # what is tested
