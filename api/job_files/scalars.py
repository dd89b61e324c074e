"""Scalar types of the job file: checked text, amounts, names; each error says what to write."""

import re
import shlex
from collections.abc import Callable
from typing import Annotated

from pydantic import BeforeValidator, Field, PlainValidator, StringConstraints, WithJsonSchema
from pydantic_core import PydanticCustomError

from scheduler.domain.quantities import QuantityError, parse_bytes, parse_cpus, parse_duration

NAME_LENGTH_MAX = 40
"""A job's or role's name: the longest that every name derived from it has room for."""

_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_LABEL_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_LABEL_LENGTH_MAX = 63
_LABEL_PREFIX_LENGTH_MAX = 253
OWN_LABEL_PREFIX = "dally.internal"

COUNT_MAX = 10**12
STALENESS_MAX = 1_000_000


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("WrongType", "must be a string")
    if not _NAME.fullmatch(value) or len(value) > NAME_LENGTH_MAX:
        raise PydanticCustomError(
            "InvalidName",
            "must be 1 to {most} lower-case letters, digits and '-', starting with a letter"
            " and not ending with '-'",
            {"most": NAME_LENGTH_MAX},
        )
    return value


def _label_value(value: object) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("WrongType", "must be a string; put it in quotes")
    if not _LABEL_VALUE.fullmatch(value) or len(value) > _LABEL_LENGTH_MAX:
        raise PydanticCustomError(
            "InvalidLabel",
            "must be at most 63 letters, digits, '-', '_' and '.',"
            " starting and ending with a letter or digit",
        )
    return value


def _label_key(value: object) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("WrongType", "must be a string")
    prefix, slash, name = value.rpartition("/")
    is_name = bool(name) and bool(_LABEL_VALUE.fullmatch(name)) and len(name) <= _LABEL_LENGTH_MAX
    is_prefix = not slash or (
        bool(_LABEL_PREFIX.fullmatch(prefix)) and len(prefix) <= _LABEL_PREFIX_LENGTH_MAX
    )
    if not (is_name and is_prefix):
        raise PydanticCustomError("InvalidLabel", "is not a label key: write name or prefix/name")
    if prefix == OWN_LABEL_PREFIX or prefix.endswith("." + OWN_LABEL_PREFIX):
        raise PydanticCustomError("ReservedName", "labels under dally.internal/ are the service's")
    return value


def _command(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        raise PydanticCustomError(
            "WrongType", "must be a list of words: {words}", {"words": _as_words(value)}
        )
    if not isinstance(value, list | tuple) or not all(isinstance(word, str) for word in value):
        raise PydanticCustomError("WrongType", "must be a list of strings; put numbers in quotes")
    if not value or not value[0]:
        raise PydanticCustomError("InvalidValue", "must start with the program to run")
    return tuple(str(word) for word in value)


def _as_words(text: str) -> str:
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    shown = ", ".join(words[:8])
    return f"[{shown}]" if len(words) <= 8 else f"[{shown}, ...]"  # noqa: PLR2004 - one line


def _absolute_path(value: object) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("WrongType", "must be a string")
    if not value.startswith("/") or ".." in value.split("/"):
        raise PydanticCustomError("InvalidValue", "must be an absolute path without '..'")
    return value


def _success(value: object) -> object:
    is_role = isinstance(value, dict) and list(value) == ["role"] and isinstance(value["role"], str)
    if value not in ("all", "rank0") and not is_role:
        raise PydanticCustomError("UnknownValue", "must be all, rank0 or {role: NAME}")
    return value


def _staleness(value: object) -> object:
    is_bound = type(value) is int and 0 <= value <= STALENESS_MAX
    if value != "unbounded" and not is_bound:
        raise PydanticCustomError("InvalidValue", "must be 0 (synchronous), a number, or unbounded")
    return value


def _amount(parse: Callable[[object], int]) -> Callable[[object], object]:
    """A check that leaves the amount as it was written."""

    def check(value: object) -> object:
        try:
            parse(value)
        except QuantityError as error:
            raise PydanticCustomError("InvalidQuantity", "{why}", {"why": str(error)}) from error
        return value

    return check


def _schema(*types: str, examples: list[object]) -> WithJsonSchema:
    wanted: object = types[0] if len(types) == 1 else list(types)
    return WithJsonSchema({"type": wanted, "examples": examples})


Name = Annotated[
    str,
    PlainValidator(_name),
    WithJsonSchema({"type": "string", "pattern": f"^{_NAME.pattern}$", "maxLength": 40}),
]
"""Name of a job or a role."""

LabelKey = Annotated[str, PlainValidator(_label_key), WithJsonSchema({"type": "string"})]
LabelValue = Annotated[
    str, PlainValidator(_label_value), WithJsonSchema({"type": "string", "maxLength": 63})
]

Reference = Annotated[str, StringConstraints(min_length=1, max_length=253)]
"""Name of something that others have made: a queue, a pool, a level, a GPU model, a class."""

Text = Annotated[str, StringConstraints(max_length=4096)]

Command = Annotated[
    tuple[str, ...],
    BeforeValidator(_command),
    Field(min_length=1, examples=[["torchrun", "train.py"]]),
]
AbsolutePath = Annotated[
    str, PlainValidator(_absolute_path), _schema("string", examples=["/workspace"])
]
Cpus = Annotated[
    int | float | str,
    PlainValidator(_amount(parse_cpus)),
    _schema("number", "string", examples=[32, 0.5, "500m"]),
]
Bytes = Annotated[
    int | str,
    PlainValidator(_amount(parse_bytes)),
    _schema("integer", "string", examples=["256Gi", "64GB"]),
]
Time = Annotated[
    str, PlainValidator(_amount(parse_duration)), _schema("string", examples=["90s", "10m", "24h"])
]
SuccessRule = Annotated[
    str | dict[str, str],
    PlainValidator(_success),
    WithJsonSchema(
        {
            "anyOf": [
                {"enum": ["all", "rank0"]},
                {
                    "type": "object",
                    "properties": {"role": {"type": "string"}},
                    "required": ["role"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]
Staleness = Annotated[
    int | str,
    PlainValidator(_staleness),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"const": "unbounded"}]}),
]

Count = Annotated[int, Field(ge=0, le=COUNT_MAX)]
Positive = Annotated[int, Field(ge=1, le=COUNT_MAX)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
