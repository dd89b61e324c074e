"""`replace`, `quickly_made` and the like: the same as what the standard library makes."""

import copy as copying
import dataclasses
import inspect
import pickle
from dataclasses import dataclass, field

import pytest

from scheduler.domain.copying import copier_of, maker_of, quickly_made, replace
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


@dataclass(frozen=True, slots=True)
class Slow:
    first: int
    kind: str = "none"
    others: list[int] = field(default_factory=list)
    last: int = field(kw_only=True)

    def __post_init__(self) -> None:
        assert self.first <= self.last


@quickly_made
@dataclass(frozen=True, slots=True)
class Quick:
    first: int
    kind: str = "none"
    others: list[int] = field(default_factory=list)
    last: int = field(kw_only=True)

    def __post_init__(self) -> None:
        assert self.first <= self.last


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


def test_a_quickly_made_record_takes_and_says_what_a_slow_one_does() -> None:
    assert inspect.signature(Quick).parameters.keys() == inspect.signature(Slow).parameters.keys()
    for slow, quick in (
        (Slow(1, last=2), Quick(1, last=2)),
        (Slow(1, "a", [3], last=2), Quick(1, "a", [3], last=2)),
        (Slow(first=1, others=[4], last=2), Quick(first=1, others=[4], last=2)),
    ):
        assert dataclasses.astuple(quick) == dataclasses.astuple(slow)
        assert repr(quick) == repr(slow).replace("Slow", "Quick")
        assert type(quick) is Quick
    assert Quick(1, last=2).others is not Quick(1, last=2).others


def test_a_quickly_made_record_is_checked_and_frozen() -> None:
    with pytest.raises(AssertionError):
        Quick(3, last=2)
    with pytest.raises(TypeError, match="last"):
        Quick(3)  # type: ignore[call-arg]  # what is tested
    with pytest.raises(dataclasses.FrozenInstanceError):
        Quick(1, last=2).first = 2  # type: ignore[misc]  # what is tested


def test_a_quickly_made_record_is_pickled_and_copied_as_any_other() -> None:
    thing = Quick(1, last=2)
    assert pickle.loads(pickle.dumps(thing)) == thing  # noqa: S301 - what it has just written
    assert copying.copy(thing) == thing
    assert dataclasses.replace(thing, last=5) == replace(thing, last=5) == Quick(1, last=5)


def test_a_maker_makes_what_its_class_makes() -> None:
    make = maker_of(Quick)
    assert inspect.signature(make).parameters.keys() == inspect.signature(Quick).parameters.keys()
    made = make(1, others=[2], last=3)
    assert made == Quick(1, others=[2], last=3)
    assert type(made) is Quick
    assert make(1, last=3).others is not make(1, last=3).others
    with pytest.raises(AssertionError):
        make(3, last=2)
    with pytest.raises(TypeError, match="last"):
        make(3)  # type: ignore[call-arg]  # what is tested
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.first = 2  # type: ignore[misc]  # what is tested


def test_a_copier_copies_as_replace_does() -> None:
    moved = copier_of(Quick, "first", "last")
    thing = Quick(1, "a", [7], last=2)
    copy = moved(thing, first=4, last=5)
    assert copy == replace(thing, first=4, last=5)
    assert type(copy) is Quick
    with pytest.raises(AssertionError):
        moved(thing, first=4, last=3)
    with pytest.raises(TypeError, match="last"):
        moved(thing, first=0)
    with pytest.raises(TypeError, match="no field 'middle'"):
        copier_of(Quick, "middle")
