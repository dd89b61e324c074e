"""The tuner's table: the timer of every demand and level, as a job's would be frozen now."""

from collections.abc import Iterable, Iterator, Sequence

from scheduler.domain.ids import LevelName
from scheduler.domain.instants import Duration, Instant
from scheduler.domain.knobs import PolicyKnobs, Timers
from scheduler.domain.timers import TimerRow, TimerSource
from scheduler.domain.topology import NODE_LEVEL, Level, Node
from scheduler.domain.waits import WaitObservation
from scheduler.policies.dally import VARIANTS
from scheduler.policies.holding_out import tuning_rules
from scheduler.policies.tuning import TuningRules, counted, tuned_timer

MOVED_SHARE = 0.2
"""A timer that moves by less than this share of its former value is not told of."""

MOVED_MIN = Duration(10_000_000)
"""Nor one that moves by less than ten seconds."""


def has_timers(knobs: PolicyKnobs) -> bool:
    """Whether the policy lets jobs wait by timers at all."""
    return knobs.policy in VARIANTS


def timer_table(
    waits: Sequence[WaitObservation],
    demands: Iterable[int],
    *,
    levels: Sequence[Level],
    nodes: Sequence[Node],
    knobs: PolicyKnobs,
    now: Instant,
) -> tuple[TimerRow, ...]:
    """One row for each demand and level with past waits, or that a gang of `demands` could have."""
    knobs = VARIANTS[knobs.policy](knobs) if has_timers(knobs) else knobs
    known = {(wait.demand, wait.level) for wait in waits}
    known |= set(_possible({demand for demand in demands if demand}, levels, nodes))
    closeness = {level: place for place, level in enumerate(_names(levels))}
    cells = sorted(known, key=lambda cell: (cell[0], closeness.get(cell[1], -1), cell[1]))
    return tuple(_row(waits, demand, level, knobs=knobs, now=now) for demand, level in cells)


def retuned(before: Iterable[TimerRow], after: Iterable[TimerRow]) -> Iterator[TimerRow]:
    """Rows of `after` whose timers have moved noticeably."""
    former = {row.cell: row for row in before}
    for row in after:
        old = former.get(row.cell)
        if _has_moved(None if old is None else old.timer, row.timer):
            yield row


def _has_moved(before: Duration | None, after: Duration | None) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) >= max(MOVED_MIN, MOVED_SHARE * before)


def _row(
    waits: Sequence[WaitObservation],
    demand: int,
    level: LevelName,
    *,
    knobs: PolicyKnobs,
    now: Instant,
) -> TimerRow:
    rules = tuning_rules(knobs)
    own = counted(waits, demand=demand, level=level, now=now, rules=rules)
    timer, source, learned_from = _timer(waits, demand, level, knobs=knobs, now=now, rules=rules)
    looked_at = (
        own
        if learned_from in (0, demand)
        else counted(waits, demand=learned_from, level=level, now=now, rules=rules)
    )
    return TimerRow(
        demand=demand,
        level=level,
        timer=timer,
        source=source,
        learned_from=learned_from,
        accepted=sum(not wait.is_censored for wait in own),
        censored=sum(wait.is_censored for wait in own),
        changed_at=max((wait.at for wait in looked_at), default=None),
    )


def _timer(
    waits: Sequence[WaitObservation],
    demand: int,
    level: LevelName,
    *,
    knobs: PolicyKnobs,
    now: Instant,
    rules: TuningRules,
) -> tuple[Duration | None, TimerSource, int]:
    match knobs.timers:
        case Timers.FIXED:
            return knobs.fixed_timer, TimerSource.FIXED, 0
        case Timers.ZERO:
            return Duration(0), TimerSource.FIXED, 0
        case Timers.INFINITE | Timers.VALUE:
            return None, TimerSource.VALUE_OF_WAITING, 0
        case Timers.TUNED | Timers.NAIVE:
            found = tuned_timer(
                waits, demand=demand, level=level, loss=knobs.wait_max, now=now, rules=rules
            )
    if found is None:
        return None, TimerSource.VALUE_OF_WAITING, 0
    is_own = found.demand == demand
    source = TimerSource.LEARNED if is_own else TimerSource.SMALLER_DEMAND
    return min(found.timer, knobs.wait_max), source, found.demand


def _possible(
    demands: set[int], levels: Sequence[Level], nodes: Sequence[Node]
) -> Iterator[tuple[int, LevelName]]:
    """Demands and levels of which one topology domain has so many GPUs."""
    for place, name in enumerate(_names(levels)):
        gpus: dict[tuple[str, ...], int] = {}
        for node in nodes:
            whole = (*node.path, node.name)
            domain = whole[: len(whole) - place]
            gpus[domain] = gpus.get(domain, 0) + node.gpus
        most = max(gpus.values(), default=0)
        # A bucket is the demand rounded up: gangs of little more than half of it are in it as well.
        yield from ((demand, name) for demand in demands if demand // 2 < most)


def _names(levels: Sequence[Level]) -> tuple[LevelName, ...]:
    """Levels that have a timer, closest first: all but the whole cluster."""
    return (NODE_LEVEL, *(level.name for level in levels))
