"""The tuner's timers for those who ask, and when they have moved."""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.control import events
from scheduler.domain.errors import NotFoundError
from scheduler.domain.event import Event
from scheduler.domain.ids import LevelName, QueueName
from scheduler.domain.instants import MINUTE, Duration, Instant, elapsed, in_seconds
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.timers import TimerRow
from scheduler.domain.waits import WaitObservation, demand_bucket
from scheduler.engine.timers import has_timers, retuned, timer_table
from scheduler.ports.event_sink import EventSink
from scheduler.ports.job_store import JobStore

LOOKED_AT_EVERY = Duration(MINUTE)
"""Timers move slowly; so often is it looked whether one has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimersNow:
    """The table, and whether jobs wait by it."""

    rows: tuple[TimerRow, ...]
    in_use: bool


def knobs_in_queue(store: JobStore, queue: QueueName | None) -> PolicyKnobs:
    """The knobs that hold for the cluster or in a queue. Raises NotFoundError."""
    knobs = store.knobs()
    if queue is None:
        return knobs
    for each in store.queues():
        if each.name == queue:
            return each.knobs.over(knobs)
    raise NotFoundError("queue", queue)


def timers_now(store: JobStore, knobs: PolicyKnobs, now: Instant) -> TimersNow:
    """The timers as they would be frozen now, also for demands of live jobs alone."""
    levels, nodes = store.topology()
    rows = timer_table(
        store.past_waits(),
        {demand_bucket(job.spec.gpus) for job in store.live().jobs},
        levels=levels,
        nodes=nodes,
        knobs=knobs,
        now=now,
    )
    return TimersNow(rows=rows, in_use=has_timers(knobs))


class TimerWatch:
    """Notices timers that have moved since they were last told of; owned by the loop."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self.forget()

    def forget(self) -> None:
        """A term begins: what was told before it is not known, and not told again."""
        self._told: dict[tuple[int, LevelName], TimerRow] = {}
        self._looked_at: Instant | None = None
        self._seen: Sequence[WaitObservation] | None = None
        self._rows: tuple[TimerRow, ...] | None = None
        """As last looked at; None before the first time in a term."""

    def news(
        self, waits: Sequence[WaitObservation], knobs: PolicyKnobs, now: Instant
    ) -> tuple[Event, ...]:
        """Events of timers that have moved noticeably."""
        if self._seen is waits or not self._is_due(now):
            return ()
        self._seen, self._looked_at = waits, now
        rows = timer_table(waits, (), levels=(), nodes=(), knobs=knobs, now=now)
        is_first = self._rows is None
        self._tell_values(rows)
        self._rows = rows
        moved = () if is_first else tuple(retuned(self._told.values(), rows))
        told = [events.timer_retuned(self._told.get(row.cell), row, now) for row in moved]
        self._told |= {row.cell: row for row in (rows if is_first else moved)}
        return tuple(told)

    def _tell_values(self, rows: Sequence[TimerRow]) -> None:
        former = {row.cell: row.timer for row in self._rows or ()}
        values = dict.fromkeys(former) | {row.cell: row.timer for row in rows}
        for (demand, level), timer in values.items():
            if timer != former.get((demand, level)):
                timer_s = None if timer is None else in_seconds(timer)
                self._sink.emit("timer", {"demand": demand, "level": level, "timer_s": timer_s})

    def _is_due(self, now: Instant) -> bool:
        return self._looked_at is None or elapsed(self._looked_at, now) >= LOOKED_AT_EVERY
