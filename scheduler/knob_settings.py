"""The policy knobs on paper: what each one is, and how its value is read and written."""

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Final, get_type_hints

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from scheduler.domain.instants import Duration
from scheduler.domain.knob_sheet import CLUSTER_KNOBS, KnobSheet, KnobTexts, knob_texts
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.quantities import QuantityError, parse_duration, render_duration

KNOB_TEXTS: Final[Mapping[str, str]] = {
    "policy": "Policy that orders the queues, waits for closer GPUs and moves gangs: `dally`, one "
    "of its variants, or a baseline such as `fifo` (strict in each queue) or `fifo-backfill`.",
    "placing": "How nodes are chosen for a gang: `best-fit` (tightest), `least-free` (smallest "
    "holes first), `balanced` (evenly over few domains) or `first-fit`.",
    "start_timeout": "Time from reservation to all workers running; after it a gang is unwound.",
    "restart_backoff": "First wait after a failed attempt; it doubles with each failure in a row.",
    "restart_backoff_max": "Longest wait after a failed attempt.",
    "healthy_after": "A run of this length forgives the failures before it.",
    "restarts_infra_max": "Restarts after failures of the cluster without a healthy run between.",
    "node_lost_after": "A node that is unready for so long has lost its workers.",
    "clock": "When the clock of a job that waits for closer GPUs runs: `idle` (its offer was "
    "declined and GPUs it could use stay idle), `declined` or `pending` (always).",
    "timers": "Timers of waiting jobs: `tuned` (learned from past waits), `naive` (to show its "
    "collapse), `value` (what waiting is worth), `fixed`, `zero` or `infinite`.",
    "fixed_timer": "Timer of each tier with `timers: fixed`.",
    "wait_max": "The timers of one job add up to no more than this (not with `timers: fixed`).",
    "moves_cap_timers": "A job that declares a checkpoint, in a queue with upgrades, waits no "
    "longer than it would cost to start wide and move later (not with `timers: fixed` or "
    "`infinite`).",
    "crowding_weight": "What a wide gang and those on its links would lose by each other is added "
    "to how long it holds out so many times (not with `timers: fixed`, `zero` or `infinite`); 0: "
    "links count as free.",
    "offer_speed_min": "An offer counts as its tier if its predicted speed is at least this share "
    "of that of the tier's fewest, even nodes; else as the next wider tier.",
    "residual_samples_min": "Ended jobs needed to estimate how long another one still runs.",
    "residual_default": "Remaining time of a job of which nothing is known (or what it has run, if "
    "that is longer).",
    "idle_gpus_max": "GPUs the jobs of a queue may leave idle by declining them; 0: no cap.",
    "timer_quantile": "Share of past waits that a tuned timer outlasts.",
    "timer_floor": "Least tuned timer.",
    "tuner_window": "Past waits older than this teach nothing.",
    "tuner_half_life": "A past wait of this age counts half.",
    "tuner_newest": "At most so many past waits of one demand and tier are looked at.",
    "tuner_accepted_min": "With fewer accepted waits, smaller gangs are looked at.",
    "order": "What goes first in a priority: `gittins` (learned from ended jobs), `las`, or the "
    "network-sensitive `n1`, `n2`, `n3`, `n4`.",
    "ends_min": "Succeeded jobs needed before `gittins` replaces `las`, and of a queue before it "
    "has its own lengths. "
    "What has ended is looked at when five more have, later a tenth more.",
    "aging_after": "A job that has not started for so long goes first; 0: never.",
    "hold_after": "A job that has not started for so long holds a domain for itself; 0: never.",
    "hold_share_max": "Share of the GPUs that held domains may have together.",
    "protected_share": "A job that held a domain is not stopped for as long as it held it, and "
    "for no more than this share of its wait.",
    "preemption": "Which gangs may be stopped so that a job of theirs runs closer together: `off`, "
    "`same-queue` or `on` (also borrowed GPUs of other queues).",
    "upgrades": "Whether a gang moves to closer GPUs: `off`, `same-queue` or `on`.",
    "order_stops": "Whether a gang that declares a checkpoint or `preemptible: true` is stopped "
    "for a job that the order puts before it (by a class with `las` and `n4`; with `gittins`, "
    "once it is learned, by a multiple of the index), whatever its queue, and as gently as for "
    "proximity.",
    "preemption_margin": "By what share a victim's key must be worse, with orders n1 to n4.",
    "benefit_min": "GPU time saved by a stop or move, divided by its cost, is at least this.",
    "lost_share_max": "Share of its run time that stops and moves may cost a job.",
    "evictions_per_hour": "Stops and moves of one job within an hour.",
    "quantum_restarts": "A gang is not stopped before it has run so many times its restart cost.",
    "quantum_checkpoints": "Nor before so many of its checkpoint intervals.",
    "restart_cost": "Restart cost of a job that declares none.",
    "checkpoint_interval": "Checkpoint interval of a job that declares none.",
    "promote_after": "Policies `tiresias` and `tiresias-gittins`: a job that has waited so many "
    "times as long as it has run comes back into the first queue; 0: never.",
    "skew_min": "The same: a model of which the largest tensor is this share holds out for its "
    "best tier, the others run anywhere.",
    "time_slice": "Policy `gandiva`: a gang runs so long before others have their turn.",
    "lease": "Policy `themis`: a gang keeps its GPUs so long at least.",
    "fairness_filter": "Policy `themis`: GPUs are offered first to the rest of this share of the "
    "jobs, the worst-off.",
}
"""Description of each knob by its name in PolicyKnobs."""

NUMBER_MAX: Final = 1_000_000
"""Larger shares and multiples mean nothing, and overflow when times are multiplied by them."""

_Knob = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Bounds:
    """Between what a number lies."""

    said: str
    hold: Callable[[float], bool]


_SHARE = Bounds("must be from 0 to 1", lambda value: 0 <= value <= 1)
_POSITIVE = Bounds("must be more than 0", lambda value: value > 0)

BOUNDS: Final[Mapping[str, Bounds]] = {
    "crowding_weight": Bounds("must be 0 or more", lambda value: value >= 0),
    "offer_speed_min": Bounds("must be more than 0, at most 1", lambda value: 0 < value <= 1),
    "timer_quantile": Bounds("must be more than 0, less than 1", lambda value: 0 < value < 1),
    "tuner_window": _POSITIVE,
    "tuner_half_life": _POSITIVE,
    "tuner_newest": _POSITIVE,
    "hold_share_max": _SHARE,
    "protected_share": _SHARE,
    "lost_share_max": _SHARE,
    "start_timeout": _POSITIVE,
    "promote_after": Bounds("must be 0 or more", lambda value: value >= 0),
    "skew_min": _SHARE,
    "time_slice": _POSITIVE,
    "fairness_filter": _SHARE,
}
"""Knobs with which a decision can not be made outside of them."""

_HINTS: Final = get_type_hints(PolicyKnobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class KnobProblem:
    """A knob that can not be read."""

    name: str
    """As written."""
    detail: str


def knob_fields() -> Mapping[str, str]:
    """Every knob as it is written in files and on the wire, and its name in PolicyKnobs."""
    return {to_camel(field.name): field.name for field in fields(PolicyKnobs)}


def knob_names() -> tuple[str, ...]:
    """Every knob as it is written in files and on the wire."""
    return tuple(knob_fields())


def read_knobs(
    values: Mapping[str, JsonValue], base: PolicyKnobs
) -> tuple[PolicyKnobs, tuple[KnobProblem, ...]]:
    """`base` with the knobs that `values` names changed, and what could not be read."""
    problems: list[KnobProblem] = []
    changes: dict[str, _Knob] = {}
    names = knob_fields()
    for written, value in values.items():
        if written not in names:
            detail = f"there is no such knob{nearest(written, names)}"
            problems.append(KnobProblem(name=written, detail=detail))
            continue
        try:
            read = _read(value, _HINTS[names[written]])
            _expect_bounds(names[written], read)
            changes[names[written]] = read
        except QuantityError as error:
            problems.append(KnobProblem(name=written, detail=str(error)))
    return replace(base, **changes), tuple(problems)  # type: ignore[arg-type]  # read by their hints


def read_texts(
    values: Mapping[str, JsonValue], *, is_for_queue: bool
) -> tuple[KnobTexts, tuple[KnobProblem, ...]]:
    """What a sheet is told by `values`, and what could not be read."""
    knobs, problems = read_knobs(values, PolicyKnobs())
    texts = knob_texts(knobs)
    names = {to_camel(name): name for name in texts}
    misplaced = [
        KnobProblem(name=written, detail="is one for the whole cluster; no queue has its own")
        for written in values
        if is_for_queue and names.get(written) in CLUSTER_KNOBS
    ]
    said = {names[written]: texts[names[written]] for written in values if written in names}
    return said, (*problems, *misplaced)


def written_knobs(knobs: PolicyKnobs) -> Iterator[tuple[str, JsonValue]]:
    """Every knob as `read_knobs` reads it back."""
    for field in fields(PolicyKnobs):
        value = getattr(knobs, field.name)
        is_time = _HINTS[field.name] is Duration
        plain = value.value if isinstance(value, StrEnum) else value
        yield to_camel(field.name), render_duration(value) if is_time else plain


def written_texts(texts: KnobTexts) -> dict[str, JsonValue]:
    """What a sheet says, as `read_texts` reads it back."""
    knobs = KnobSheet(changed=texts).over(PolicyKnobs())
    names = {to_camel(name) for name in texts}
    return {name: value for name, value in written_knobs(knobs) if name in names}


def nearest(written: str, names: Mapping[str, str] | tuple[str, ...]) -> str:
    """`; did you mean X?`, or nothing if no name is near."""
    found = difflib.get_close_matches(written, list(names), n=1)
    return f"; did you mean {found[0]}?" if found else ""


def _read(value: JsonValue, hint: object) -> _Knob:
    if hint is Duration:
        return parse_duration(value)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return _choice(value, hint)
    reader = _READERS.get(hint)
    assert reader is not None, f"no way to read a {hint}"
    return reader(value)


def _expect_bounds(name: str, value: _Knob) -> None:
    bounds = BOUNDS.get(name)
    if bounds is not None and isinstance(value, int | float) and not bounds.hold(value):
        raise QuantityError(bounds.said)


def _choice(value: JsonValue, choices: type[StrEnum]) -> StrEnum:
    known = [choice.value for choice in choices]
    if not isinstance(value, str) or value not in known:
        raise QuantityError(f"must be one of {', '.join(known)}")
    return choices(value)


def _whole(value: JsonValue) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise QuantityError("must be a whole number from 0")
    return value


def _number(value: JsonValue) -> float:
    if isinstance(value, bool) or not (isinstance(value, int | float) and 0 <= value <= NUMBER_MAX):
        raise QuantityError(f"must be a number from 0 to {NUMBER_MAX}")
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
