"""Why each job waits, as told to the store: only what has changed, a bounded number a cycle.

A job's place in its queue and the numbers of its reason move whenever anything ahead of it moves.
Told at once are a reason of another kind and everything about the first jobs of each queue; the
numbers of the others follow in the next cycles, those that stand further ahead first.
"""

from collections.abc import Iterator, Mapping

from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.domain.placement import Blocked
from scheduler.ports.unit import Answer

ANSWERS_MAX = 2_000
"""Answers told in one cycle."""

EXACT_PLACES = 100
"""Places of each queue whose numbers are always the latest."""


class AnswerBook:
    """The answers the store has; owned by the loop."""

    def __init__(self) -> None:
        self._told: dict[JobId, Answer] = {}
        self.is_behind = False
        """Some numbers are still to be told."""

    def forget(self) -> None:
        """Know nothing of what was told: everything is told again."""
        self._told.clear()

    def news(
        self, blocked: Mapping[JobId, Blocked], jobs: Mapping[JobId, Job], now: Instant
    ) -> tuple[Answer, ...]:
        """What to tell now. `blocked` is in the policy's order; it is noted as told."""
        for job_id in [job_id for job_id in self._told if job_id not in blocked]:
            del self._told[job_id]
        urgent: list[Answer] = []
        later: list[Answer] = []
        for job_id, reason, place in _in_places(blocked, jobs):
            told = self._told.get(job_id)
            if told is not None and told.position == place and _is_same(told.blocked, reason):
                continue
            is_new = told is None or type(told.blocked) is not type(reason)
            # A reason is dated from when one of its kind was first given.
            since = now if told is None or is_new else told.at
            answer = Answer(job_id=job_id, blocked=reason, at=since, position=place)
            (urgent if is_new or place <= EXACT_PLACES else later).append(answer)
        told_now = (urgent + later)[:ANSWERS_MAX]
        self.is_behind = len(told_now) < len(urgent) + len(later)
        self._told.update((answer.job_id, answer) for answer in told_now)
        return tuple(told_now)


def _in_places(
    blocked: Mapping[JobId, Blocked], jobs: Mapping[JobId, Job]
) -> Iterator[tuple[JobId, Blocked, int]]:
    """Each job with its reason and its place in its queue, counted from 1."""
    places: dict[QueueName, int] = {}
    for job_id, reason in blocked.items():
        queue = jobs[job_id].spec.queue
        places[queue] = places.get(queue, 0) + 1
        yield job_id, reason, places[queue]


def _is_same(told: Blocked, reason: Blocked) -> bool:
    return told is reason or told == reason
