"""The policy knobs on paper: what each one is, and how its value is read and written."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Final, get_type_hints

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from scheduler.domain.instants import Duration
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.quantities import QuantityError, parse_duration, render_duration

KNOB_TEXTS: Final[Mapping[str, str]] = {
    "policy": "Policy that orders the queues: `fifo` (strict in each queue) or `fifo-backfill`.",
    "start_timeout": "Time from reservation to all workers running; after it a gang is unwound.",
    "restart_backoff": "First wait after a failed attempt; it doubles with each failure in a row.",
    "restart_backoff_max": "Longest wait after a failed attempt.",
    "healthy_after": "A run of this length forgives the failures before it.",
    "restarts_infra_max": "Restarts after failures of the cluster without a healthy run between.",
    "node_lost_after": "A node that is unready for so long has lost its workers.",
}
"""Description of each knob by its name in PolicyKnobs."""

_HINTS: Final = get_type_hints(PolicyKnobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobProblem:
    """A knob that can not be read."""

    name: str
    """As written."""
    detail: str


def knob_names() -> tuple[str, ...]:
    """Every knob as it is written in files and on the wire."""
    return tuple(to_camel(field.name) for field in fields(PolicyKnobs))


def read_knobs(
    values: Mapping[str, JsonValue], base: PolicyKnobs
) -> tuple[PolicyKnobs, tuple[KnobProblem, ...]]:
    """`base` with the knobs that `values` names changed, and what could not be read."""
    problems: list[KnobProblem] = []
    changes: dict[str, str | int | float | bool] = {}
    names = {to_camel(field.name): field.name for field in fields(PolicyKnobs)}
    for written, value in values.items():
        if written not in names:
            detail = f"there is no such knob{nearest(written, names)}"
            problems.append(KnobProblem(name=written, detail=detail))
            continue
        try:
            changes[names[written]] = _read(value, _HINTS[names[written]])
        except QuantityError as error:
            problems.append(KnobProblem(name=written, detail=str(error)))
    return replace(base, **changes), tuple(problems)  # type: ignore[arg-type]  # read by their hints


def written_knobs(knobs: PolicyKnobs) -> Iterator[tuple[str, JsonValue]]:
    """Every knob as `read_knobs` reads it back."""
    for field in fields(PolicyKnobs):
        value = getattr(knobs, field.name)
        is_time = _HINTS[field.name] is Duration
        yield to_camel(field.name), render_duration(value) if is_time else value


def nearest(written: str, names: Mapping[str, str] | tuple[str, ...]) -> str:
    """`; did you mean X?`, or nothing if no name is near."""
    found = difflib.get_close_matches(written, list(names), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def _read(value: JsonValue, hint: object) -> str | int | float | bool:
    if hint is Duration:
        return parse_duration(value)
    reader = _READERS.get(hint)
    assert reader is not None, f"no way to read a {hint}"
    return reader(value)


def _whole(value: JsonValue) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise QuantityError("must be a whole number from 0")
    return value


def _number(value: JsonValue) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise QuantityError("must be a number from 0")
    return float(value)


def _text(value: JsonValue) -> str:
    if not isinstance(value, str):
        raise QuantityError("must be a string")
    return value


def _switch(value: JsonValue) -> bool:
    if not isinstance(value, bool):
        raise QuantityError("must be true or false")
    return value


_READERS: Mapping[object, Callable[[JsonValue], str | int | float | bool]] = {
    int: _whole,
    float: _number,
    str: _text,
    bool: _switch,
}
