"""Frozen dataclasses to plain JSON values and back, by their type hints.

dataclass        object of its fields      Mapping    object; list of pairs if keys are not text
one of several   object with its `kind`    tuple      list
enum             its value                 frozenset  sorted list
NewType          what it stands for        inf, nan   the texts "inf", "-inf", "nan"

Reading is lenient where versions meet: a missing field takes its default, an unknown one is passed
over. It is strict where data is broken: DecodeError names the place.
"""

import json
import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import (
    NewType,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"
T = TypeVar("T")

_Encode: TypeAlias = Callable[[object], Json]
_Decode: TypeAlias = Callable[[Json], object]

_LEFT_OUT = "left_out"
LEFT_OUT: Mapping[str, bool] = {_LEFT_OUT: True}
"""Metadata of a field with a default that follows from the others, so it is not written."""

_KIND = "kind"
_PLAIN: tuple[type, ...] = (str, int, bool, NoneType)
_WRITER = json.JSONEncoder(separators=(",", ":"), sort_keys=True, allow_nan=False)
_SHOWN_CHARACTERS_MAX = 40
_ODD_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


class DecodeError(ValueError):
    """The JSON value does not say what the type needs."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path or 'value'}: {problem}")
        self.path = path
        """Where, e.g. `roles[0].workers`; empty for the whole value."""
        self.problem = problem

    def inside(self, step: str) -> "DecodeError":
        """The same error seen from one step further out."""
        dot = "." if self.path and not self.path.startswith("[") else ""
        return DecodeError(f"{step}{dot}{self.path}", self.problem)


def encode(value: object) -> Json:
    """`value`, a dataclass instance, as a JSON value."""
    return _encoder(cast("Hashable", type(value)))(value)


def decode(wanted: type[T], data: Json) -> T:
    """The instance of the dataclass `wanted` that `data` stands for, or DecodeError."""
    return cast("T", _decoder(cast("Hashable", wanted))(data))


def to_json(value: object) -> str:
    """`value` as compact text; equal values give equal texts."""
    return dump(encode(value))


def from_json(wanted: type[T], text: str) -> T:
    """The instance of `wanted` that the text stands for, or DecodeError."""
    return decode(wanted, load(text))


def dump(data: Json) -> str:
    """A JSON value as compact text with sorted keys."""
    return _WRITER.encode(data)


def load(text: str) -> Json:
    """The JSON value of a text, or DecodeError."""
    try:
        return cast("Json", json.loads(text))
    except (ValueError, RecursionError) as error:
        raise DecodeError("", f"not JSON: {error}") from error


# Writing: one function per type, made once.


@cache
def _encoder(hint: Hashable) -> _Encode:
    if isinstance(hint, NewType):
        return _encoder(hint.__supertype__)
    if isinstance(hint, type) and (encode_class := _class_encoder(hint)) is not None:
        return encode_class
    if get_origin(hint) in {Union, UnionType}:
        return _union_encoder(get_args(hint))
    return _collection_encoder(hint)


def _class_encoder(wanted: type) -> _Encode | None:
    if wanted in _PLAIN:
        return _encode_plain
    if wanted is float:
        return _encode_float
    if issubclass(wanted, Enum):
        return _encode_enum
    return _dataclass_encoder(wanted) if is_dataclass(wanted) else None


def _encode_plain(value: object) -> Json:
    return cast("Json", value)


def _encode_float(value: object) -> Json:
    number = cast("float", value)
    return number if math.isfinite(number) else str(float(number))


def _encode_enum(value: object) -> Json:
    return cast("Json", cast("Enum", value).value)


def _dataclass_encoder(wanted: type) -> _Encode:
    hints = get_type_hints(wanted)
    writers = [
        (field.name, _plain_types(hints[field.name]), _encoder(hints[field.name]))
        for field in fields(wanted)
        if not field.metadata.get(_LEFT_OUT)
    ]

    def encode_dataclass(value: object) -> Json:
        data: dict[str, Json] = {}
        for name, plain, encode_field in writers:
            raw = getattr(value, name)
            data[name] = raw if type(raw) in plain else encode_field(raw)
        return data

    return encode_dataclass


def _union_encoder(members: tuple[object, ...]) -> _Encode:
    tagged = _tagged_members(members)
    plain = {type(None): _encode_plain} | {
        cast("type", _bare(member)): _encoder(member)
        for member in members
        if member not in tagged.values()
    }

    def encode_union(value: object) -> Json:
        encode_member = plain.get(type(value))
        if encode_member is not None:
            return encode_member(value)
        data = cast("dict[str, Json]", encode(value))
        return {_KIND: type(value).__name__, **data}

    return encode_union


def _collection_encoder(hint: object) -> _Encode:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple and arguments[1:] == (Ellipsis,):
        encode_item = _encoder(arguments[0])
        return lambda value: [encode_item(item) for item in cast("tuple[object, ...]", value)]
    if (items := _tuple_items(hint)) is not None:
        encoders = [_encoder(item) for item in items]
        return lambda value: [
            encode_one(item)
            for encode_one, item in zip(encoders, cast("tuple[object, ...]", value), strict=True)
        ]
    if origin is frozenset:
        encode_item = _encoder(arguments[0])
        return lambda value: sorted(
            (encode_item(item) for item in cast("frozenset[object]", value)), key=dump
        )
    if _is_mapping(origin):
        return _mapping_encoder(*arguments)
    return _no_codec(hint)


def _mapping_encoder(key_hint: object, value_hint: object) -> _Encode:
    encode_key, encode_value = _encoder(key_hint), _encoder(value_hint)

    def encode_mapping(value: object) -> Json:
        mapping = cast("Mapping[object, object]", value)
        return {str(encode_key(key)): encode_value(item) for key, item in mapping.items()}

    def encode_pairs(value: object) -> Json:
        mapping = cast("Mapping[object, object]", value)
        pairs: list[Json] = [[encode_key(key), encode_value(item)] for key, item in mapping.items()]
        return sorted(pairs, key=dump)

    return encode_mapping if _is_text(key_hint) else encode_pairs


# Reading: the same shape.


@cache
def _decoder(hint: Hashable) -> _Decode:
    if isinstance(hint, NewType):
        return _decoder(hint.__supertype__)
    if isinstance(hint, type) and (decode_class := _class_decoder(hint)) is not None:
        return decode_class
    if get_origin(hint) in {Union, UnionType}:
        return _union_decoder(get_args(hint))
    return _collection_decoder(hint)


def _class_decoder(wanted: type) -> _Decode | None:
    if wanted in _PLAIN:
        return _plain_decoder(wanted)
    if wanted is float:
        return _decode_float
    if issubclass(wanted, Enum):
        return _enum_decoder(wanted)
    return _dataclass_decoder(wanted) if is_dataclass(wanted) else None


def _plain_decoder(wanted: type) -> _Decode:
    def decode_plain(data: Json) -> object:
        # Not isinstance: JSON's true is no int.
        if type(data) is not wanted:
            raise DecodeError("", f"{_shown(data)} is not of type {wanted.__name__}")
        return data

    return decode_plain


def _decode_float(data: Json) -> object:
    if type(data) is float:
        return data
    if type(data) is int:
        return float(data)
    if type(data) is str and data in _ODD_FLOATS:
        return _ODD_FLOATS[data]
    raise DecodeError("", f"{_shown(data)} is not a number")


def _enum_decoder(wanted: type[Enum]) -> _Decode:
    by_value: dict[object, Enum] = {member.value: member for member in wanted}

    def decode_enum(data: Json) -> object:
        member = by_value.get(data) if not isinstance(data, dict | list) else None
        if member is None:
            raise DecodeError("", f"{_shown(data)} is no {wanted.__name__}")
        return member

    return decode_enum


def _dataclass_decoder(wanted: type) -> _Decode:
    hints = get_type_hints(wanted)
    readers = [
        (field.name, _plain_types(hints[field.name]), _decoder(hints[field.name]))
        for field in fields(wanted)
        if not field.metadata.get(_LEFT_OUT)
    ]
    needed = {
        field.name
        for field in fields(wanted)
        if field.default is MISSING and field.default_factory is MISSING
    }

    def decode_dataclass(data: Json) -> object:
        if type(data) is not dict:
            raise DecodeError("", f"{_shown(data)} is no object")
        values: dict[str, object] = {}
        name = ""
        try:
            for name, plain, decode_field in readers:
                if name in data:
                    raw = data[name]
                    values[name] = raw if type(raw) in plain else decode_field(raw)
        except DecodeError as error:
            raise error.inside(name) from None
        if not needed <= values.keys():
            raise DecodeError(min(needed - values.keys()), "missing")
        try:
            return wanted(**values)
        except AssertionError as error:
            raise DecodeError("", f"no valid {wanted.__name__}: {error}") from error

    return decode_dataclass


def _inside(step: str | int, decode_part: _Decode, raw: Json) -> object:
    try:
        return decode_part(raw)
    except DecodeError as error:
        raise error.inside(step if isinstance(step, str) else f"[{step}]") from None


def _union_decoder(members: tuple[object, ...]) -> _Decode:
    tagged = {name: _decoder(member) for name, member in _tagged_members(members).items()}
    is_optional = NoneType in members
    others = [
        m for m in members if m is not NoneType and m not in _tagged_members(members).values()
    ]
    if len(others) > 1:
        _no_codec(members)
    decode_other = _decoder(others[0]) if others else None

    def decode_union(data: Json) -> object:
        if data is None and is_optional:
            return None
        if tagged and isinstance(data, dict):
            decode_member = tagged.get(str(data.get(_KIND)))
            if decode_member is None:
                raise DecodeError(_KIND, f"{_shown(data.get(_KIND))} is none of {sorted(tagged)}")
            return decode_member(data)
        if decode_other is None:
            raise DecodeError("", f"{_shown(data)} is no object")
        return decode_other(data)

    return decode_union


def _collection_decoder(hint: object) -> _Decode:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple and arguments[1:] == (Ellipsis,):
        decode_items = _items_decoder(arguments[0])
        return lambda data: tuple(decode_items(data))
    if (items := _tuple_items(hint)) is not None:
        return _fixed_tuple_decoder(items, hint)
    if origin is frozenset:
        decode_items = _items_decoder(arguments[0])
        return lambda data: frozenset(decode_items(data))
    if _is_mapping(origin):
        return _mapping_decoder(*arguments)
    return _no_codec(hint)


def _items_decoder(item_hint: object) -> Callable[[Json], list[object]]:
    decode_item, plain = _decoder(item_hint), _plain_types(item_hint)

    def decode_items(data: Json) -> list[object]:
        if type(data) is not list:
            raise DecodeError("", f"{_shown(data)} is no list")
        if not data or plain.issuperset(map(type, data)):
            return [*data]
        return [_inside(place, decode_item, raw) for place, raw in enumerate(data)]

    return decode_items


def _fixed_tuple_decoder(items: tuple[object, ...], hint: object) -> _Decode:
    decoders = [_decoder(item) for item in items]
    # A NamedTuple is made from its items, a bare tuple from one list of them.
    make = getattr(hint, "_make", tuple)

    def decode_fixed(data: Json) -> object:
        if type(data) is not list or len(data) != len(decoders):
            raise DecodeError("", f"{_shown(data)} is no list of {len(decoders)}")
        parts = enumerate(zip(decoders, data, strict=True))
        return make(_inside(place, decode_one, raw) for place, (decode_one, raw) in parts)

    return decode_fixed


def _mapping_decoder(key_hint: object, value_hint: object) -> _Decode:
    if not _is_text(key_hint):
        pair = tuple[key_hint, value_hint]  # type: ignore[valid-type]  # hints known at run time
        decode_pairs = _items_decoder(pair)
        return lambda data: dict(cast("list[tuple[object, object]]", decode_pairs(data)))
    decode_key, decode_value = _decoder(key_hint), _decoder(value_hint)
    is_plain_key, plain = _bare(key_hint) is str, _plain_types(value_hint)

    def decode_mapping(data: Json) -> object:
        if type(data) is not dict:
            raise DecodeError("", f"{_shown(data)} is no object")
        if is_plain_key and plain.issuperset(map(type, data.values())):
            return {**data}
        return {decode_key(key): _inside(key, decode_value, raw) for key, raw in data.items()}

    return decode_mapping


# Types.


def _bare(hint: object) -> object:
    """What a value of this type is an instance of."""
    while isinstance(hint, NewType):
        hint = hint.__supertype__
    return get_origin(hint) or hint


def _plain_types(hint: object) -> frozenset[type]:
    """Types of the values that are the same in JSON, for which no function need be called."""
    bare = _bare(hint)
    if bare in {Union, UnionType}:
        return frozenset().union(*(_plain_types(member) for member in get_args(hint)))
    return frozenset({bare}) if isinstance(bare, type) and bare in _PLAIN else frozenset()


def _is_text(hint: object) -> bool:
    bare = _bare(hint)
    return isinstance(bare, type) and issubclass(bare, str)


def _is_mapping(origin: object) -> bool:
    return isinstance(origin, type) and issubclass(origin, Mapping)


def _tuple_items(hint: object) -> tuple[object, ...] | None:
    """Types of the items of a fixed tuple or a NamedTuple."""
    if get_origin(hint) is tuple:
        return get_args(hint)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        return tuple(get_type_hints(hint).values())
    return None


def _tagged_members(members: tuple[object, ...]) -> dict[str, type]:
    """The dataclasses of a union by their tag; none where a single one needs no tag."""
    found = {m.__name__: m for m in members if isinstance(m, type) and is_dataclass(m)}
    if len(found) <= 1:
        return {}
    for member in found.values():
        if any(field.name == _KIND for field in fields(member)):
            raise TypeError(f"{member.__name__} is one of several and has its own field {_KIND!r}")
    return found


def _shown(data: Json) -> str:
    text = repr(data)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else f"{text[:_SHOWN_CHARACTERS_MAX]}..."


def _no_codec(hint: object) -> NoReturn:
    raise TypeError(f"no JSON form for {hint!r}")
