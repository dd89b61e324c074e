"""What a type check found wrong, in our words: pointer, reason, and how to mend it."""

import difflib
import re
import types
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from api.documents.document import child
from scheduler.domain.errors import SpecProblem

_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
}
_BOUNDS = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be more than {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be less than {lt}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must have at least {min_length} characters",
    "too_long": "must have at most {max_length} items",
    "too_short": "must have at least {min_length} items",
    "finite_number": "must be a finite number",
}
_WORDS_OF_OTHERS = {
    "args": "command",
    "completions": "workers",
    "gpu": "gpusPerWorker",
    "gpus": "gpusPerWorker",
    "gpuspernode": "gpusPerWorker",
    "gputype": "gpuModels",
    "nodes": "workers",
    "parallelism": "workers",
    "partition": "queue",
    "priorityclassname": "priority",
    "replicas": "workers",
    "walltime": "duration",
}
"""What other schedulers call our fields, in lower case."""

_OPTIONS_SHOWN_MAX = 12
_PLACES_SHOWN_MAX = 2
_OWN_REASON = re.compile(r"[A-Z][A-Za-z]+")


PROBLEMS_MAX = 50
"""Findings told of one body: whoever has more begins with these."""


def problems(error: ValidationError, model: type[BaseModel]) -> tuple[SpecProblem, ...]:
    """The first findings of a type check against `model`, in the order of the file's fields."""
    found = error.errors(include_url=False)[:PROBLEMS_MAX]
    return tuple(_problem(one, model) for one in found if not _is_consequence(one, found))


def nearest(name: str, valid: list[str]) -> str:
    """`; did you mean ...?` with the closest valid name, else the valid ones if they are few."""
    close = difflib.get_close_matches(name, valid, n=1, cutoff=0.6)
    if not close:
        by_lower = {option.lower(): option for option in valid}
        lower = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
        close = [by_lower[option] for option in lower]
    if close:
        return f'; did you mean "{close[0]}"?'
    if valid and len(valid) <= _OPTIONS_SHOWN_MAX:
        return f"; valid: {', '.join(valid)}"
    return ""


def pointer_of(location: tuple[int | str, ...]) -> str:
    """Location of a finding as a JSON pointer."""
    pointer = ""
    for part in location:
        if part != "[key]":
            pointer = child(pointer, part)
    return pointer


def _is_consequence(one: ErrorDetails, found: list[ErrorDetails]) -> bool:
    """Whether a list is called too short only because items of it were refused."""
    location = one["loc"]
    return one["type"] == "too_short" and any(
        len(other["loc"]) > len(location) and other["loc"][: len(location)] == location
        for other in found
    )


def _problem(found: ErrorDetails, model: type[BaseModel]) -> SpecProblem:
    kind, location = found["type"], found["loc"]
    reason, detail = _explained(found, model)
    assert reason, kind
    return SpecProblem(pointer=pointer_of(location), reason=reason, detail=detail)


def _explained(found: ErrorDetails, model: type[BaseModel]) -> tuple[str, str]:
    kind, context = found["type"], found.get("ctx", {})
    if kind == "missing":
        return "MissingField", "is required"
    if kind in _WANTED:
        return "WrongType", _wrong_type(_WANTED[kind], found["input"])
    if kind in _BOUNDS:
        return "OutOfRange", _BOUNDS[kind].format(**context)
    if kind in ("extra_forbidden", "literal_error"):
        return _unknown(found, model)
    return (kind if _OWN_REASON.fullmatch(kind) else "InvalidValue"), found["msg"]


def _unknown(found: ErrorDetails, model: type[BaseModel]) -> tuple[str, str]:
    if found["type"] == "extra_forbidden":
        name = str(found["loc"][-1])[:80]
        places = _places_by_name(model).get(name)
        if places:
            return "UnknownField", f"is not a field here; it belongs to {' or '.join(places)}"
        valid = _field_names(model, found["loc"][:-1])
        ours = _WORDS_OF_OTHERS.get(name.lower())
        hint = f'; did you mean "{ours}"?' if ours in valid else nearest(name, valid)
        return "UnknownField", f"is not a field here{hint}"
    valid = re.findall(r"'([^']*)'", str(found.get("ctx", {}).get("expected", "")))
    value = found["input"]
    if not isinstance(value, str):
        return "WrongType", f"must be one of {', '.join(valid)}"
    return "UnknownValue", f'does not know "{value[:80]}"{nearest(value[:80], valid)}'


def _wrong_type(wanted: str, value: object) -> str:
    detail = f"must be {wanted}, not {_kind_of(value)}"
    if wanted == "a string" and isinstance(value, bool | int | float):
        return f"{detail}; put it in quotes"
    if wanted == "true or false" and isinstance(value, str):
        return f"{detail}; write true or false without quotes"
    if "number" in wanted and isinstance(value, str) and value.lstrip("-").isdigit():
        return f"{detail}; take the quotes away"
    return detail


def _kind_of(value: object) -> str:
    for kind, words in (
        (bool, "true or false"),
        (int, "a whole number"),
        (float, "a number with a fraction"),
        (str, "a string"),
        (dict, "a mapping"),
        (list, "a list"),
    ):
        if isinstance(value, kind):
            return words
    return "empty"


def _field_names(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Names on the wire of the fields of the model that stands at `location`."""
    current: type[BaseModel] | None = model
    for part in location:
        if current is None or isinstance(part, int):
            continue
        field = next((f for f in current.model_fields.values() if f.alias == part), None)
        current = next(_models_in(field.annotation), None) if field else None
    if current is None:
        return []
    return [field.alias or name for name, field in current.model_fields.items()]


@cache
def _places_by_name(model: type[BaseModel]) -> Mapping[str, tuple[str, ...]]:
    """Where in a body fields of a name stand, e.g. `spec.checkpoint`; the outermost first."""
    found: dict[str, list[str]] = {}
    level: list[tuple[str, type[BaseModel]]] = [("", model)]
    while level:
        inner: list[tuple[str, type[BaseModel]]] = []
        for place, section in level:
            for field in section.model_fields.values():
                name = field.alias or ""
                found.setdefault(name, []).append(place or "the top level")
                below = f"{place}.{name}" if place else name
                inner += [(below, one) for one in _models_in(field.annotation)]
        level = inner
    return {name: tuple(places[:_PLACES_SHOWN_MAX]) for name, places in found.items()}


def _models_in(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in (Annotated, Union, types.UnionType, tuple, list, dict):
        for argument in get_args(annotation):
            yield from _models_in(argument)
