"""Dataclasses become JSON and come back equal; broken data is named by its place."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple, NewType, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.domain.codec import DecodeError, Json, decode, encode, from_json, load, to_json
from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.event import Event, EventKind
from scheduler.domain.ids import JobId, LevelName, NodeName, PoolName, QueueName
from scheduler.domain.instants import Duration, Instant
from scheduler.domain.job import FailurePolicy, FailureRule, JobSpec, Slice, TopologyRequest
from scheduler.domain.placement import BackingOff, Blocked, PoolMissing, TooFewGpus
from scheduler.domain.resources import Resources
from scheduler.domain.snapshot import Snapshot
from scheduler.domain.topology import topology_tree
from tests.builders import a_cluster, a_job, a_node, a_role, a_snapshot, a_spec

Metres = NewType("Metres", float)
Tag = NewType("Tag", str)


class Colour(StrEnum):
    """Two colours."""

    RED = "red"
    BLUE = "blue"


class Pair(NamedTuple):
    """A named tuple."""

    left: Tag
    right: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Circle:
    """One shape."""

    radius: Metres


@dataclass(frozen=True, slots=True, kw_only=True)
class Square:
    """Another shape."""

    side: Metres
    sides: int = 4

    def __post_init__(self) -> None:
        assert self.sides == 4, "a square has four sides"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """Something of every kind."""

    shape: Circle | Square
    colour: Colour = Colour.RED
    note: str | None = None
    border: Circle | None = None
    title: Square | Circle | None = None
    sizes: tuple[Metres, ...] = ()
    pairs: Mapping[Pair, Colour] = field(default_factory=dict)
    tags: Mapping[Tag, Pair] = field(default_factory=dict)
    seen: frozenset[int] = frozenset()
    corner: tuple[int, str] = (0, "")
    is_done: bool = False


FULL = Drawing(
    shape=Square(side=Metres(1.5)),
    colour=Colour.BLUE,
    note="ünï\x00code",
    border=Circle(radius=Metres(math.inf)),
    title=Circle(radius=Metres(-math.inf)),
    sizes=(Metres(1.0), Metres(2.5)),
    pairs={Pair(Tag("b"), 2): Colour.RED, Pair(Tag("a"), 1): Colour.BLUE},
    tags={Tag("t"): Pair(Tag("x"), -1)},
    seen=frozenset({3, 1, 2}),
    corner=(7, "up"),
    is_done=True,
)


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(FULL, id="every kind of field"),
        pytest.param(Drawing(shape=Circle(radius=Metres(0.0))), id="defaults"),
        pytest.param(a_spec(workers=4, labels={"team": "vision"}), id="a job spec"),
        pytest.param(a_node(labels={"zone": "a"}), id="a node"),
        pytest.param(
            JobSpec(
                queue=QueueName("q"),
                roles=(a_role("ps", resources=Resources(cpu_milli=1, extended=(("ib", 2),))),),
                topology=TopologyRequest(slices=(Slice(workers=2, within=LevelName("rack")),)),
                communication=CommunicationProfile(model="bert"),
                failure_policy=FailurePolicy(
                    restarts_max=2, rules=(FailureRule(exit_codes=(1, 2), action="Fail"),)
                ),
                run_time_max=Duration(5),
                pool=PoolName("p"),
            ),
            id="a job spec that says much",
        ),
        pytest.param(
            Event(
                reason="R", message="m", at=Instant(5), kind=EventKind.WARNING, job_id=JobId("j")
            ),
            id="an event",
        ),
    ],
)
def test_what_is_written_is_read_back_equal(value: object) -> None:
    assert from_json(type(value), to_json(value)) == value


def test_not_a_number_is_written_too() -> None:
    radius = decode(Circle, encode(Circle(radius=Metres(math.nan)))).radius
    assert math.isnan(radius)


def test_equal_values_give_equal_texts() -> None:
    one = Drawing(shape=Circle(radius=Metres(1.0)), seen=frozenset({10, 2}), tags={})
    other = Drawing(shape=Circle(radius=Metres(1.0)), seen=frozenset({2, 10}), tags={})
    assert to_json(one) == to_json(other)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boxed:
    """Holds any reason."""

    blocked: Blocked


def test_every_reason_carries_its_kind() -> None:
    reasons: list[Blocked] = [
        TooFewGpus(level=LevelName("rack"), workers_wanted=2, workers_fit_max=1, nodes=3),
        BackingOff(until=Instant(3), restarts=1),
        PoolMissing(pool=PoolName("p")),
    ]
    for reason in reasons:
        data = encode(Boxed(blocked=reason))
        assert data == {"blocked": {"kind": type(reason).__name__, **_fields(reason)}}
        assert decode(Boxed, data).blocked == reason


def test_no_reason_lacks_a_form_in_json() -> None:
    for kind in get_args(Blocked):
        with pytest.raises(DecodeError, match="missing"):
            decode(Boxed, {"blocked": {"kind": kind.__name__}})


def test_a_missing_field_takes_its_default_and_an_unknown_one_is_passed_over() -> None:
    data: Json = {"shape": {"kind": "Square", "side": 1, "colour_of_next_version": "x"}, "more": 1}
    assert decode(Drawing, data) == Drawing(shape=Square(side=Metres(1.0)))


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        pytest.param("[]", "", "no object", id="not an object"),
        pytest.param("{", "", "not JSON", id="not JSON"),
        pytest.param("{}", "shape", "missing", id="no shape"),
        pytest.param('{"shape":{"kind":"Cone"}}', "shape.kind", "'Cone' is none of", id="kind"),
        pytest.param('{"shape":{"kind":["x"]}}', "shape.kind", "none of", id="kind is a list"),
        pytest.param('{"shape":3}', "shape", "no object", id="shape is a number"),
        pytest.param(
            '{"shape":{"kind":"Circle","radius":"r"}}', "shape.radius", "number", id="NaN"
        ),
        pytest.param(
            '{"shape":{"kind":"Circle","radius":true}}', "shape.radius", "number", id="bool"
        ),
        pytest.param(
            '{"shape":{"kind":"Square","side":1,"sides":true}}',
            "shape.sides",
            "int",
            id="true: no int",
        ),
        pytest.param(
            '{"shape":{"kind":"Square","side":1,"sides":5}}', "shape", "four sides", id="invariant"
        ),
        pytest.param(
            '{"shape":{"kind":"Circle","radius":1},"colour":"green"}',
            "colour",
            "no Colour",
            id="enum",
        ),
        pytest.param(
            '{"shape":{"kind":"Circle","radius":1},"colour":{}}',
            "colour",
            "no Colour",
            id="unhashable",
        ),
        pytest.param('{"shape":{"kind":"Circle","radius":1},"note":1}', "note", "str", id="text"),
        pytest.param(
            '{"shape":{"kind":"Circle","radius":1},"sizes":[1,"x"]}',
            "sizes[1]",
            "number",
            id="item",
        ),
        pytest.param(
            '{"shape":{"kind":"Circle","radius":1},"sizes":{}}', "sizes", "no list", id="list"
        ),
        pytest.param(
            '{"shape":{"kind":"Circle","radius":1},"tags":{"t":["x"]}}',
            "tags.t",
            "list of 2",
            id="pair",
        ),
        pytest.param(
            '{"shape":{"kind":"Circle","radius":1},"tags":[]}', "tags", "no object", id="mapping"
        ),
        pytest.param(
            '{"shape":{"kind":"Circle","radius":1},"pairs":[[["a",1],"pink"]]}',
            "pairs[0][1]",
            "no Colour",
            id="deep",
        ),
        pytest.param(
            '{"shape":{"kind":"Circle","radius":1},"corner":["a","b"]}',
            "corner[0]",
            "int",
            id="fixed",
        ),
    ],
)
def test_broken_data_is_named_by_its_place(text: str, path: str, problem: str) -> None:
    with pytest.raises(DecodeError, match=problem) as caught:
        from_json(Drawing, text)
    assert caught.value.path == path


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinded:
    """Has a field that the tag would hide."""

    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """Can not be told apart in JSON."""

    either: Kinded | Circle


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Holds what JSON has no form for."""

    data: bytes = b""


def test_a_type_without_a_form_in_json_is_a_bug_said_at_once() -> None:
    with pytest.raises(TypeError, match="bytes"):
        encode(Raw())
    with pytest.raises(TypeError, match="bytes"):
        decode(Raw, {})
    with pytest.raises(TypeError, match="its own field 'kind'"):
        decode(Ambiguous, {})


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["shape", "kind", "radius", "colour", "tags", "pairs", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(JSON_VALUES)
def test_whatever_comes_is_read_or_refused(data: Json) -> None:
    try:
        value = decode(Drawing, data)
    except DecodeError:
        return
    assert decode(Drawing, encode(value)) == value


FLOATS = st.floats(allow_nan=False).map(Metres)
SHAPES = st.builds(Circle, radius=FLOATS) | st.builds(Square, side=FLOATS)
PAIRS = st.builds(Pair, st.text().map(Tag), st.integers())
DRAWINGS = st.builds(
    Drawing,
    shape=SHAPES,
    colour=st.sampled_from(Colour),
    note=st.none() | st.text(),
    border=st.none() | st.builds(Circle, radius=FLOATS),
    title=st.none() | SHAPES,
    sizes=st.lists(FLOATS).map(tuple),
    pairs=st.dictionaries(PAIRS, st.sampled_from(Colour)),
    tags=st.dictionaries(st.text().map(Tag), PAIRS),
    seen=st.frozensets(st.integers()),
)


@given(DRAWINGS)
def test_any_value_survives_the_way_through_text(drawing: Drawing) -> None:
    text = to_json(drawing)
    assert from_json(Drawing, text) == drawing
    assert to_json(from_json(Drawing, text)) == text


def _fields(reason: Blocked) -> dict[str, Json]:
    data = load(to_json(reason))
    assert isinstance(data, dict)
    return data


def test_names_of_mapping_keys_keep_their_types() -> None:
    reason = TooFewGpus(
        level=LevelName("rack"),
        workers_wanted=2,
        workers_fit_max=1,
        workers_fit_by_level={LevelName("node"): 1},
        nodes=1,
        nodes_by_reason={NodeName("n"): 1},
    )
    assert decode(TooFewGpus, encode(reason)) == reason


def test_bottomless_text_is_refused() -> None:
    with pytest.raises(DecodeError, match="not JSON"):
        load("[" * 100_000)


def test_a_snapshot_is_saved_and_read_back() -> None:
    cluster = a_cluster("b1/r1: 8 4\nb2/r2: 8")
    snapshot = a_snapshot(
        cluster,
        pending=(a_job("waits", labels={"a": "b"}),),
        running=((a_job("runs", workers=2, gpus=4), {"r1-n0": 1, "r2-n0": 1}),),
    )
    assert from_json(Snapshot, to_json(snapshot)) == snapshot


def test_what_follows_from_the_rest_is_not_saved() -> None:
    snapshot = a_snapshot("r1: 8", pending=(a_job("waits"),))
    at_hand = replace(snapshot, tree=topology_tree(snapshot.levels, snapshot.nodes))
    assert to_json(at_hand) == to_json(snapshot)
