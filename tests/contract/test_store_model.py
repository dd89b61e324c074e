"""After any sequence of units the SQL stores hold what the store in memory holds.

The memory store is the model: it has no encoding, no transactions and no queries to get wrong.
"""

import json
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.errors import HistoryGoneError, SchedulerError
from scheduler.domain.event import Event
from scheduler.domain.ids import (
    AttemptNumber,
    Epoch,
    LevelName,
    ProjectName,
    QueueName,
    Rank,
    Sequence,
)
from scheduler.domain.instants import DAY, Duration, Instant
from scheduler.domain.job import AttemptPhase, JobPhase, Outcome, StopCause, WorkerEnd
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.placement import BehindHead, TooFewGpus
from scheduler.domain.progress import Progress
from scheduler.domain.queue import Project, Queue
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.topology import NODE_LEVEL
from scheduler.domain.waits import JobEnd, WaitObservation
from scheduler.ports.job_store import ChangeCursor, EventQuery, JobQuery
from scheduler.ports.unit import (
    Answer,
    Change,
    ChangeKnobs,
    DeleteJob,
    DeleteProfile,
    Expire,
    FreeReservations,
    InsertJob,
    RecordAudit,
    RecordCycle,
    RecordEnd,
    RecordProgress,
    RecordWaits,
    RememberReply,
    Reserve,
    SaveAnswers,
    SaveAttempt,
    SaveJob,
    SaveKnobs,
    SaveNodes,
    SaveProfile,
    SaveProject,
    SaveQueue,
    SaveStepTimes,
    SaveToken,
    SeedKnobs,
    Unit,
)
from tests.builders import a_job, a_queue
from tests.contract.stores import (
    CLUSTER,
    Store,
    a_profile,
    a_reply,
    a_store,
    a_token,
    an_audit_row,
    an_event,
    gang_of,
    learned,
)
from tests.databases import Databases

NAMES = ("a", "b", "c", "d")
JOBS = {name: a_job(name, workers=3, labels={"l": name}) for name in NAMES}
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4)
INSTANTS = st.integers(0, 20).map(Instant)
LONG_AGO = st.integers(0, 5).map(lambda weeks: Instant(weeks * 7 * DAY))
PROJECTS = st.sampled_from(["default", "p", "none"]).map(ProjectName)
QUEUES = st.sampled_from(["default", "q"]).map(QueueName)

QUEUE_OR_NONE = st.none() | st.sampled_from(["default", "q", "none"]).map(QueueName)
KNOB_TEXTS = st.fixed_dictionaries(
    {}, optional={"policy": TEXTS.map(json.dumps), "ends_min": st.integers(0, 9).map(str)}
)

jobs_of_any_kind = st.builds(
    lambda name, project, queue, phase, submitted_at: replace(
        a_job(name, project=project, queue=queue, phase=phase, workers=3, labels={"l": name}),
        submitted_at=submitted_at,
    ),
    st.sampled_from(NAMES),
    PROJECTS,
    QUEUES,
    st.sampled_from(JobPhase),
    INSTANTS,
)
job_ids = st.sampled_from(NAMES).map(lambda name: JOBS[name].id)
attempt_keys = st.builds(AttemptKey, job_ids, st.integers(0, 1).map(AttemptNumber))
ranks = st.integers(0, 3).map(Rank)


def gangs(name: str, number: int, nodes: int) -> tuple[SaveAttempt, Reserve]:
    """An attempt and what it holds."""
    return gang_of(JOBS[name], number=number, nodes=nodes)


any_gang = st.builds(gangs, st.sampled_from(NAMES), st.integers(0, 1), st.integers(1, 3))
worker_ends = st.builds(
    WorkerEnd,
    rank=ranks,
    exit_code=st.none() | st.integers(0, 255),
    outcome=st.sampled_from(Outcome),
    message=TEXTS,
    ended_at=INSTANTS,
)
saved_attempts = st.builds(
    lambda gang, phase, cause, outcome, ends: SaveAttempt(
        attempt=replace(
            gang[0].attempt, phase=phase, stop_cause=cause, outcome=outcome, worker_ends=ends
        )
    ),
    any_gang,
    st.sampled_from(AttemptPhase),
    st.none() | st.sampled_from(StopCause),
    st.none() | st.sampled_from(Outcome),
    st.lists(worker_ends, max_size=2).map(tuple),
)
reasons = st.builds(BehindHead, jobs_ahead=st.integers(0, 3)) | st.builds(
    TooFewGpus,
    level=st.just(NODE_LEVEL),
    workers_wanted=st.integers(1, 3),
    workers_fit_max=st.integers(0, 3),
    nodes=st.just(4),
    nodes_by_reason=st.dictionaries(TEXTS, st.integers(0, 4), max_size=2),
)
CHANGES: st.SearchStrategy[Change] = st.one_of(
    jobs_of_any_kind.map(lambda job: InsertJob(job=job, source=job.name)),
    saved_attempts,
    any_gang.map(lambda gang: gang[1]),
    st.builds(
        FreeReservations,
        attempt=attempt_keys,
        ranks=st.none() | st.lists(ranks, max_size=2).map(tuple),
    ),
    st.builds(
        RecordProgress,
        attempt=attempt_keys,
        progress=st.builds(
            Progress,
            step=st.integers(0, 2**62),
            step_seconds=st.floats(0, allow_infinity=False),
            loss=st.none() | st.floats(allow_nan=False),
            reported_at=INSTANTS,
        ),
    ),
    st.builds(
        SaveStepTimes,
        job_id=job_ids,
        times=st.builds(learned, ratio=st.floats(0.1, 9)),
        expected_revision=st.sampled_from([0, 0, 1]),
    ),
    st.builds(SaveProfile, project=PROJECTS, profile=st.builds(a_profile, TEXTS.filter(bool))),
    st.builds(DeleteProfile, project=PROJECTS, name=TEXTS),
    st.lists(
        st.builds(Answer, job_id=job_ids, blocked=reasons, at=INSTANTS, position=st.integers(1, 9)),
        max_size=3,
    ).map(lambda answers: SaveAnswers(answers=tuple(answers))),
    st.lists(
        st.builds(
            WaitObservation,
            job_id=job_ids,
            demand=st.sampled_from([1, 8]),
            level=st.sampled_from(["rack", "block"]).map(LevelName),
            wait=st.integers(0, 9).map(Duration),
            is_censored=st.booleans(),
            at=LONG_AGO,
        ),
        max_size=3,
    ).map(lambda waits: RecordWaits(waits=tuple(waits))),
    st.builds(
        JobEnd,
        job_id=job_ids,
        queue=QUEUES,
        gpus=st.integers(0, 8),
        ran_for=st.integers(0, 9).map(Duration),
        is_complete=st.booleans(),
        at=LONG_AGO,
    ).map(lambda end: RecordEnd(end=end)),
    st.builds(RecordCycle, cycle=st.integers(0, 9), at=INSTANTS),
    st.lists(st.sampled_from(CLUSTER.nodes), unique_by=lambda node: node.name).map(
        lambda nodes: SaveNodes(
            levels=CLUSTER.levels[: len(nodes)], nodes=tuple(nodes), at=Instant(1)
        )
    ),
    st.builds(lambda name: SaveProject(project=Project(name=ProjectName(name))), st.just("p")),
    st.builds(lambda policy: SaveQueue(queue=a_queue("q", policy=policy)), TEXTS),
    st.builds(lambda texts, queue: SeedKnobs(seeded=texts, queue=queue), KNOB_TEXTS, QUEUE_OR_NONE),
    st.builds(
        lambda texts, reset, queue: ChangeKnobs(changed=texts, reset=reset, queue=queue),
        KNOB_TEXTS,
        st.lists(st.sampled_from(["policy", "ends_min"]), max_size=1).map(tuple),
        QUEUE_OR_NONE,
    ),
    st.builds(lambda name: SaveKnobs(knobs=PolicyKnobs(policy=name)), TEXTS),
    st.builds(
        lambda name, secret: SaveToken(token=a_token(name, secret=secret)),
        st.sampled_from(NAMES),
        st.sampled_from(["s1", "s2"]),
    ),
    st.builds(a_reply, st.sampled_from(NAMES), at=st.integers(0, 20)),
    st.builds(
        lambda name, at: RecordAudit(row=an_audit_row(name, at=at)), TEXTS, st.integers(0, 20)
    ),
    st.builds(
        Expire,
        events_before=INSTANTS,
        replies_before=INSTANTS,
        audit_before=INSTANTS,
        rows_max=st.sampled_from([1, 1000]),
    ),
)
# Few enough that many of them are repeats.
EVENTS: st.SearchStrategy[tuple[Event, ...]] = st.lists(
    st.builds(
        an_event,
        st.sampled_from(["R", "S"]),
        at=st.integers(0, 20),
        job_id=st.none() | job_ids,
        project=st.none() | st.just("p"),
    ),
    max_size=2,
).map(tuple)


OVER = JobQuery(phases=(JobPhase.FAILED, JobPhase.SUCCEEDED, JobPhase.CANCELLED))


class Twins(RuleBasedStateMachine):
    """The model and a SQL store, given the same units."""

    def __init__(self, open_store: Callable[[ExitStack], Store]) -> None:
        super().__init__()
        self.at_end = ExitStack()
        self.model = MemoryStore()
        self.store = open_store(self.at_end)
        self.remembered = Sequence(0)

    def teardown(self) -> None:
        """Close the store."""
        self.at_end.close()

    @initialize()
    def begin(self) -> None:
        """Some jobs, a gang that runs, a project and a queue."""
        starting = gangs("a", 0, 2)
        self.write_to_both(
            Unit(
                changes=(
                    SaveQueue(queue=Queue(name=QueueName("q"))),
                    SaveProject(project=Project(name=ProjectName("p"))),
                    *(InsertJob(job=JOBS[name]) for name in NAMES[:3]),
                    *starting,
                )
            )
        )

    @rule(changes=st.lists(CHANGES, max_size=3).map(tuple), events=EVENTS)
    def write(self, changes: tuple[Change, ...], events: tuple[Event, ...]) -> None:
        """Any changes together."""
        self.write_to_both(Unit(changes=changes, events=events))

    @rule(gang=any_gang, events=EVENTS)
    def start(self, gang: tuple[SaveAttempt, Reserve], events: tuple[Event, ...]) -> None:
        """An attempt with what it holds."""
        self.write_to_both(Unit(changes=gang, events=events))

    @precondition(lambda self: self.model.reservations())
    @rule(data=st.data(), is_all=st.booleans())
    def free(self, data: st.DataObject, *, is_all: bool) -> None:
        """Free something that is held."""
        held = data.draw(st.sampled_from(self.model.reservations()))
        only = None if is_all else (held.rank,)
        freeing = FreeReservations(attempt=held.attempt, ranks=only)
        self.write_to_both(Unit(changes=(freeing,)))

    @precondition(lambda self: self.model.jobs(JobQuery()).jobs)
    @rule(
        data=st.data(),
        phase=st.sampled_from([JobPhase.RUNNING, JobPhase.FAILED, JobPhase.SUCCEEDED]),
        then=st.lists(CHANGES, max_size=1),
    )
    def save(self, data: st.DataObject, phase: JobPhase, then: list[Change]) -> None:
        """Save a job that is there, at its revision."""
        stored = data.draw(st.sampled_from(self.model.jobs(JobQuery()).jobs))
        moved = replace(stored, phase=phase, message=f"now {phase}", priority=stored.priority + 1)
        saving = SaveJob(job=moved, expected_revision=stored.revision)
        self.write_to_both(Unit(changes=(saving, *then)))

    @precondition(lambda self: self.model.jobs(OVER).jobs)
    @rule(
        data=st.data(),
        off_by=st.sampled_from([0, 0, 0, 1]),
        then=st.lists(CHANGES, max_size=1),
        events=EVENTS,
    )
    def delete(
        self, data: st.DataObject, off_by: int, then: list[Change], events: tuple[Event, ...]
    ) -> None:
        """Delete a job that is over, mostly at its revision."""
        over = data.draw(st.sampled_from(self.model.jobs(OVER).jobs))
        deleting = DeleteJob(
            job_id=over.id, expected_revision=over.revision + off_by, at=Instant(10)
        )
        self.write_to_both(Unit(changes=(deleting, *then), events=events))

    @rule(epoch=st.integers(0, 2))
    def lead(self, epoch: int) -> None:
        """Take the lease, and write with some epoch."""
        for store in (self.model, self.store):
            store.take_lease(seen=store.lease(), holder="h")
        self.write_to_both(
            Unit(changes=(RecordCycle(cycle=epoch, at=Instant(0)),), epoch=Epoch(epoch))
        )

    @rule()
    def remember(self) -> None:
        """From now on, ask for changes since here."""
        self.remembered = self.model.sequence()

    def write_to_both(self, unit: Unit) -> None:
        """The same outcome from both."""
        assert outcome(self.store, unit) == outcome(self.model, unit)

    @invariant()
    def hold_the_same(self) -> None:
        """Whatever is asked, both answer the same."""
        for ask in QUESTIONS:
            assert ask(self.store, self.remembered) == ask(self.model, self.remembered)


def outcome(store: Store, unit: Unit) -> object:
    """What comes of writing the unit."""
    try:
        return store.write(unit)
    except SchedulerError as error:
        return type(error), str(error), vars(error)


def changes_since(store: Store, remembered: Sequence) -> object:
    """All job changes since then, or that they are gone."""
    try:
        return store.job_changes(ChangeCursor(Sequence(remembered + 1)), limit=3)
    except HistoryGoneError as error:
        return str(error)


QUESTIONS: tuple[Callable[[Store, Sequence], object], ...] = (
    lambda store, _: store.jobs(JobQuery(limit=2)),
    lambda store, _: store.jobs(JobQuery(labels=(("l", "b"),))),
    lambda store, _: store.live(),
    lambda store, remembered: store.live(remembered),
    changes_since,
    lambda store, _: [store.attempts(job.id) for job in JOBS.values()],
    lambda store, _: [store.progress(job.id) for job in JOBS.values()],
    lambda store, _: [store.answer(job.id) for job in JOBS.values()],
    lambda store, _: store.step_times([job.id for job in JOBS.values()]),
    lambda store, remembered: (store.live_step_times(), store.live_step_times(remembered)),
    lambda store, _: [store.profiles(ProjectName(name)) for name in ("default", "p")],
    lambda store, _: store.reservations(),
    lambda store, remembered: (store.past_waits(), store.past_waits(remembered)),
    lambda store, remembered: (store.ended_jobs(), store.ended_jobs(remembered)),
    lambda store, _: store.events(EventQuery()),
    lambda store, remembered: store.events(EventQuery(after=remembered, limit=2)),
    lambda store, _: store.events(EventQuery(projects=(ProjectName("p"),))),
    lambda store, _: (store.last_cycle(), store.topology(), store.knobs(), store.knob_sheet()),
    lambda store, _: (store.projects(), store.queues(), store.tokens()),
    lambda store, _: (store.sequence(), store.horizon(), store.lease(), store.audit(limit=5)),
    lambda store, _: [found(store, a_reply(name)) for name in NAMES],
)


def found(store: Store, like: RememberReply) -> RememberReply | None:
    """The reply under the same key."""
    return store.reply(principal=like.principal, route=like.route, key=like.key)


@pytest.mark.parametrize(("kind", "examples"), [("sqlite", 20), ("postgres", 10)])
def test_sql_and_memory_agree_after_any_units(
    kind: str, examples: int, databases: Databases
) -> None:
    class TwinsOfKind(Twins):
        def __init__(self) -> None:
            super().__init__(lambda at_end: at_end.enter_context(a_store(kind, databases)))

    run_state_machine_as_test(
        TwinsOfKind,
        settings=settings(
            max_examples=examples,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
