"""Rows to domain values and back: `to_job` reads a row, `job_row` makes the values of one.

Reading raises UnreadableRowError when a row is broken or newer than this version.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import NamedTuple

from scheduler.adapters.sql.rows import AnyRow, Values, reading
from scheduler.domain.codec import dump, from_json, to_json
from scheduler.domain.event import Event, EventKind
from scheduler.domain.job import (
    Attempt,
    AttemptPhase,
    Job,
    JobPhase,
    JobSpec,
    Outcome,
    StopCause,
    WorkerEnd,
)
from scheduler.domain.patience import NO_EVICTIONS, Evictions, WaitEpisode
from scheduler.domain.placement import Assignment, Blocked, Placement
from scheduler.domain.progress import Progress
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.resources import Resources
from scheduler.ports.unit import Answer

# JSON columns that hold a part of a value: a dataclass around each gives the codec its type.


@dataclass(frozen=True, slots=True, kw_only=True)
class _WorkerEnds:
    items: tuple[WorkerEnd, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extended:
    items: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _GpuIndices:
    items: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reason:
    blocked: Blocked


# Jobs.


def job_row(job: Job) -> Values:
    """Everything of a job that changes."""
    return {
        "priority": job.priority,
        "phase": job.phase.value,
        "phase_since": job.phase_since,
        "reason": job.reason,
        "message": job.message,
        "not_before": job.not_before,
        "stop_requested": _value(job.stop_requested),
        "stop_now": job.stop_now,
        "attempts": job.attempts,
        "restarts_user": job.restarts_user,
        "restarts_infra": job.restarts_infra,
        "failures_in_row": job.failures_in_row,
        "ran_for": job.ran_for,
        "promised": None if job.promised is None else to_json(job.promised),
        "former": None if job.former is None else to_json(job.former),
        "waiting": None if job.waiting is None else to_json(job.waiting),
        "evictions": None if job.evictions == NO_EVICTIONS else to_json(job.evictions),
        "first_started_at": job.first_started_at,
        "last_placed_at": job.last_placed_at,
        "start_number": job.start_number,
        "ended_at": job.ended_at,
        "revision": job.revision,
    }


def new_job_row(job: Job, *, source: str) -> Values:
    """Everything of a job."""
    return job_row(job) | {
        "id": job.id,
        "project": job.project,
        "name": job.name,
        "queue": job.spec.queue,
        "submitted_at": job.submitted_at,
        "submitted_by": job.submitted_by,
        "spec": to_json(job.spec),
        "source": source,
    }


def to_job(row: AnyRow) -> Job:
    """A row of `jobs`."""
    return reading("jobs", row.id, _read_job, row)


def _read_job(row: AnyRow) -> Job:
    stop_requested = row.stop_requested
    return Job(
        id=row.id,
        project=row.project,
        name=row.name,
        spec=from_json(JobSpec, row.spec),
        priority=row.priority,
        submitted_at=row.submitted_at,
        submitted_by=row.submitted_by,
        phase=JobPhase(row.phase),
        phase_since=row.phase_since,
        reason=row.reason,
        message=row.message,
        not_before=row.not_before,
        stop_requested=None if stop_requested is None else StopCause(stop_requested),
        stop_now=row.stop_now,
        attempts=row.attempts,
        restarts_user=row.restarts_user,
        restarts_infra=row.restarts_infra,
        failures_in_row=row.failures_in_row,
        ran_for=row.ran_for,
        promised=None if row.promised is None else from_json(Placement, row.promised),
        former=None if row.former is None else from_json(Placement, row.former),
        waiting=None if row.waiting is None else from_json(WaitEpisode, row.waiting),
        evictions=(NO_EVICTIONS if row.evictions is None else from_json(Evictions, row.evictions)),
        first_started_at=row.first_started_at,
        last_placed_at=row.last_placed_at,
        start_number=row.start_number,
        ended_at=row.ended_at,
        revision=row.revision,
    )


# Attempts with their placements.


def attempt_row(attempt: Attempt) -> Values:
    """Everything of an attempt but the assignments of its placement."""
    return {
        "job_id": attempt.job_id,
        "number": attempt.number,
        "phase": attempt.phase.value,
        "phase_since": attempt.phase_since,
        "epoch": attempt.epoch,
        "created_at": attempt.created_at,
        "running_since": attempt.running_since,
        "stop_cause": _value(attempt.stop_cause),
        "kill_at": attempt.kill_at,
        "outcome": _value(attempt.outcome),
        "message": attempt.message,
        "worker_ends": to_json(_WorkerEnds(items=attempt.worker_ends)),
        "ended_at": attempt.ended_at,
        "tier": attempt.placement.tier,
        "tier_name": attempt.placement.tier_name,
        "placement_digest": _digest(to_json(attempt.placement)),
    }


def placement_rows(attempt: Attempt) -> list[Values]:
    """The assignments of an attempt, in rank order."""
    return [
        {
            "job_id": attempt.job_id,
            "attempt": attempt.number,
            "position": position,
            "role": assignment.role,
            "node": assignment.node,
            "workers": assignment.workers,
        }
        for position, assignment in enumerate(attempt.placement.assignments)
    ]


def to_attempt(row: AnyRow, placement_rows: Iterable[AnyRow]) -> Attempt:
    """A row of `attempts` with its rows of `placements`, in their order."""
    key = AttemptKey(row.job_id, row.number)
    return reading("attempts", str(key), lambda r: _read_attempt(r, placement_rows), row)


def _read_attempt(row: AnyRow, placement_rows: Iterable[AnyRow]) -> Attempt:
    return Attempt(
        job_id=row.job_id,
        number=row.number,
        phase=AttemptPhase(row.phase),
        phase_since=row.phase_since,
        epoch=row.epoch,
        placement=Placement(
            assignments=tuple(
                Assignment(role=p.role, node=p.node, workers=p.workers) for p in placement_rows
            ),
            tier=row.tier,
            tier_name=row.tier_name,
        ),
        created_at=row.created_at,
        running_since=row.running_since,
        stop_cause=None if row.stop_cause is None else StopCause(row.stop_cause),
        kill_at=row.kill_at,
        outcome=None if row.outcome is None else Outcome(row.outcome),
        message=row.message,
        worker_ends=from_json(_WorkerEnds, row.worker_ends).items,
        ended_at=row.ended_at,
    )


def reservation_row(reservation: Reservation) -> Values:
    """A reservation."""
    indices = reservation.gpu_indices
    return {
        "job_id": reservation.attempt.job_id,
        "attempt": reservation.attempt.number,
        "rank": reservation.rank,
        "role": reservation.role,
        "node": reservation.node,
        "gpus": reservation.gpus,
        "cpu_milli": reservation.resources.cpu_milli,
        "memory_bytes": reservation.resources.memory_bytes,
        "extended": to_json(_Extended(items=reservation.resources.extended)),
        "gpu_indices": None if indices is None else to_json(_GpuIndices(items=indices)),
    }


def to_reservation(row: AnyRow) -> Reservation:
    """A row of `reservations`."""
    key = f"{AttemptKey(row.job_id, row.attempt)} rank {row.rank}"
    return reading("reservations", key, _read_reservation, row)


def to_reservation_of_stuck(row: AnyRow) -> Reservation:
    """What can be read of a broken reservation for certain: how much of which node is not free."""
    return Reservation(
        attempt=AttemptKey(row.job_id, row.attempt),
        role=row.role,
        rank=row.rank,
        node=row.node,
        gpus=row.gpus,
        resources=Resources(cpu_milli=row.cpu_milli, memory_bytes=row.memory_bytes),
    )


def _read_reservation(row: AnyRow) -> Reservation:
    indices = row.gpu_indices
    return replace(
        to_reservation_of_stuck(row),
        resources=Resources(
            cpu_milli=row.cpu_milli,
            memory_bytes=row.memory_bytes,
            extended=from_json(_Extended, row.extended).items,
        ),
        gpu_indices=None if indices is None else from_json(_GpuIndices, indices).items,
    )


class ProgressOf(NamedTuple):
    """A report and the attempt that it is of."""

    attempt: AttemptKey
    progress: Progress


def progress_row(key: AttemptKey, progress: Progress) -> Values:
    """A report."""
    return {"job_id": key.job_id, "attempt": key.number, "report": to_json(progress)}


def to_progress(row: AnyRow) -> ProgressOf:
    """A row of `progress`."""
    key = AttemptKey(row.job_id, row.attempt)
    report = reading("progress", str(key), lambda r: from_json(Progress, r.report), row)
    return ProgressOf(key, report)


# Events and answers.


def event_row(event: Event) -> Values:
    """An event that is told for the first time."""
    return {
        "fold_digest": _digest(dump([*event.fold_key])),
        "reason": event.reason,
        "message": event.message,
        "at": event.at,
        "kind": event.kind.value,
        "actor": event.actor,
        "project": event.project,
        "job_id": event.job_id,
        "job_name": event.job_name,
        "attempt": event.attempt,
        "node": event.node,
        "times": event.count,
        "first_at": event.first_at,
    }


def to_event(row: AnyRow) -> Event:
    """A row of `events`."""
    return reading("events", str(row.sequence), _read_event, row)


def _read_event(row: AnyRow) -> Event:
    return Event(
        reason=row.reason,
        message=row.message,
        at=row.at,
        kind=EventKind(row.kind),
        actor=row.actor,
        project=row.project,
        job_id=row.job_id,
        job_name=row.job_name,
        attempt=row.attempt,
        node=row.node,
        count=row.times,
        first_at=row.first_at,
        sequence=row.sequence,
    )


def answer_row(answer: Answer) -> Values:
    """An answer."""
    return {
        "job_id": answer.job_id,
        "blocked": to_json(_Reason(blocked=answer.blocked)),
        "at": answer.at,
        "position": answer.position,
    }


def to_answer(row: AnyRow) -> Answer:
    """A row of `answers`."""
    reason = reading("answers", row.job_id, lambda r: from_json(_Reason, r.blocked), row)
    return Answer(job_id=row.job_id, blocked=reason.blocked, at=row.at, position=row.position)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _value(member: StrEnum | None) -> str | None:
    return None if member is None else member.value
