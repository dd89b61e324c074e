"""Lists come page by page, in one order, and miss nothing that stays."""

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from threading import Event as Flag
from threading import Thread

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scheduler.domain.event import Event
from scheduler.domain.ids import JobId, ProjectName, QueueName, Sequence
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job, JobPhase
from scheduler.domain.queue import Project, Queue
from scheduler.ports.job_store import EventQuery, JobQuery
from scheduler.ports.unit import DeleteJob, InsertJob, SaveProject, SaveQueue
from tests.builders import a_job
from tests.contract.stores import Store, a_store, an_event, insert, write
from tests.databases import Databases

PHASES = (JobPhase.PENDING, JobPhase.RUNNING, JobPhase.SUCCEEDED)
PROJECTS = ("default", "p1", "p2")
QUEUES = ("default", "q1")


def several_jobs() -> list[Job]:
    """Jobs of each project, queue and phase, many of them submitted at the same instant."""
    return [
        a_job(
            f"{number:03}",
            submitted_at=Instant(number // 4),
            project=PROJECTS[number % 3],
            queue=QUEUES[number % 2],
            phase=PHASES[number % 5 % 3],
            labels={"team": f"t{number % 2}", "kind": f"k{number % 3}"} if number % 4 else {},
        )
        for number in range(40)
    ]


def fill(store: Store) -> list[Job]:
    """Store several jobs, in an order of their own; returns them in that of lists."""
    for queue in QUEUES:
        write(store, SaveQueue(queue=Queue(name=QueueName(queue))))
    for project in PROJECTS:
        write(store, SaveProject(project=Project(name=ProjectName(project))))
    made = several_jobs()
    write(store, *(InsertJob(job=job) for job in sorted(made, key=lambda job: job.name[::-1])))
    return sorted(made, key=place)


def place(job: Job) -> tuple[Instant, JobId]:
    """Where a job stands in every list."""
    return job.submitted_at, job.id


def pages(store: Store, query: JobQuery) -> Iterator[tuple[Job, ...]]:
    """Every page of the list."""
    while True:
        page = store.jobs(query)
        yield page.jobs
        if not page.remaining:
            return
        last = page.jobs[-1]
        query = replace(query, after=(last.submitted_at, last.id))


QUERIES = st.builds(
    JobQuery,
    projects=st.none()
    | st.lists(st.sampled_from([*PROJECTS, "none"]).map(ProjectName), max_size=3).map(tuple),
    queue=st.none() | st.sampled_from([*QUEUES, "none"]).map(QueueName),
    phases=st.lists(st.sampled_from([*PHASES, JobPhase.HELD]), unique=True, max_size=3).map(tuple),
    labels=st.dictionaries(
        st.sampled_from(["team", "kind", "none"]),
        st.sampled_from(["t0", "t1", "k0", "k2"]),
        max_size=2,
    ).map(lambda labels: tuple(labels.items())),
    limit=st.integers(1, 50),
    is_newest_first=st.booleans(),
    after=st.none()
    | st.tuples(st.integers(-1, 11), st.sampled_from(["", "id-010", "id-02", "z"]).map(JobId)),
)


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_a_list_holds_exactly_what_the_query_says(kind: str, databases: Databases) -> None:
    with a_store(kind, databases) as store:
        every = fill(store)

        @given(QUERIES)
        @settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
        def check(query: JobQuery) -> None:
            wanted = [job for job in every if chosen(job, query)]
            if query.is_newest_first:
                wanted.reverse()
            page = store.jobs(query)
            assert page.jobs == tuple(wanted[: query.limit])
            assert page.remaining == max(0, len(wanted) - query.limit)
            assert page.sequence == store.sequence()
            assert [job for jobs in pages(store, query) for job in jobs] == wanted

        check()


def chosen(job: Job, query: JobQuery) -> bool:
    """Whether the list holds the job, said the plain way."""
    return all(
        [
            query.projects is None or job.project in query.projects,
            query.queue in {None, job.spec.queue},
            job.phase in (query.phases or JobPhase),
            all(job.spec.labels.get(key) == value for key, value in query.labels),
            query.after is None
            or (place(job) < query.after if query.is_newest_first else place(job) > query.after),
        ]
    )


def test_a_page_of_none_still_counts(store: Store) -> None:
    every = fill(store)
    page = store.jobs(JobQuery(limit=0))
    assert (page.jobs, page.remaining) == ((), len(every))


def test_texts_are_ordered_by_their_code_points(store: Store) -> None:
    names = ["a", "B", "b", "A", "-", "_", "z", "é", "\U0001f680"]
    insert(store, *(a_job(name) for name in names))
    assert [job.name for job in store.jobs(JobQuery()).jobs] == sorted(names)


@pytest.mark.parametrize("is_newest_first", [False, True], ids=["oldest", "newest"])
def test_a_walk_sees_each_job_that_stays_exactly_once(
    store: Store, *, is_newest_first: bool
) -> None:
    staying = [a_job(f"stays-{number:03}", submitted_at=Instant(number)) for number in range(60)]
    wanted = sorted((job.id for job in staying), reverse=is_newest_first)
    query = JobQuery(limit=7, is_newest_first=is_newest_first)
    write(store, *(InsertJob(job=job) for job in staying))
    seen: list[JobId] = []
    stop = Flag()
    churner = Thread(target=churn, args=(store, stop))
    churner.start()
    try:
        for _ in range(3):
            walk = [job for page in pages(store, query) for job in page]
            seen = [job.id for job in walk if job.name.startswith("stays")]
            assert seen == wanted
            assert len({job.id for job in walk}) == len(walk)
    finally:
        stop.set()
        churner.join()


def churn(store: Store, stop: Flag) -> None:
    """Insert and delete jobs all over the list until told to stop; it does not grow for ever."""
    number = 0
    staying: deque[Job] = deque()
    while not stop.is_set():
        number += 1
        done = a_job(
            f"comes-{number}",
            submitted_at=Instant(number * 7 % 60),
            phase=JobPhase.SUCCEEDED,
        )
        insert(store, done)
        staying.append(done)
        gone = staying.pop() if number % 2 else staying.popleft() if len(staying) > 50 else None
        if gone is not None:
            write(store, DeleteJob(job_id=gone.id, expected_revision=0, at=Instant(1)))


# Events.


def test_events_come_by_sequence_and_page_by_page(store: Store) -> None:
    for number in range(7):
        write(store, events=(an_event(f"R{number}"), an_event(f"S{number}")))
    told: list[str] = []
    after: Sequence | None = None
    while page := store.events(EventQuery(after=after, limit=4)):
        told += [event.reason for event in page]
        after = page[-1].sequence
    assert told == [f"{letter}{number}" for number in range(7) for letter in "RS"]


def test_events_of_a_job_or_of_projects_are_told_apart(store: Store) -> None:
    write(
        store,
        events=(
            an_event("A", job_id="j1", project="p1"),
            an_event("B", job_id="j2", project="p2"),
            an_event("C", node="n"),
            an_event("D", job_id="j1", project="p1"),
        ),
    )
    p1, p2 = ProjectName("p1"), ProjectName("p2")
    assert reasons(store, EventQuery()) == "ABCD"
    assert reasons(store, EventQuery(job_id=JobId("j1"))) == "AD"
    assert reasons(store, EventQuery(projects=(p1,))) == "AD"
    assert reasons(store, EventQuery(projects=(p2, p1, p2))) == "ABD"
    assert reasons(store, EventQuery(projects=(p2,), job_id=JobId("j1"))) == ""
    assert reasons(store, EventQuery(projects=(p1,), job_id=JobId("j1"))) == "AD"
    assert reasons(store, EventQuery(projects=())) == ""
    assert reasons(store, EventQuery(projects=(), job_id=JobId("j1"))) == ""
    first = store.events(EventQuery())[0].sequence
    assert reasons(store, EventQuery(projects=(p1, p2), after=first, limit=1)) == "B"


def reasons(store: Store, query: EventQuery) -> str:
    return "".join(event.reason for event in store.events(query))


def test_a_repeat_is_folded_into_one_event_that_moves_to_the_end(store: Store) -> None:
    first = an_event("Waits", job_id="j", at=5)
    write(store, events=(first, an_event("Other", job_id="j", at=6)))
    last = write(store, events=(replace(first, at=Instant(9), actor="ada"),))
    other, folded = store.events(EventQuery())
    assert other.reason == "Other"
    assert folded == replace(
        first, at=Instant(9), actor="ada", count=2, first_at=Instant(5), sequence=folded.sequence
    )
    assert folded.sequence is not None
    assert folded.sequence < last
    write(store, events=(replace(first, at=Instant(12)),) * 2)
    folded = store.events(EventQuery())[-1]
    assert (folded.count, folded.first_at, folded.at) == (4, 5, 12)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(an_event(job_id="k"), id="job"),
        pytest.param(an_event(job_id="j", message="else"), id="message"),
        pytest.param(an_event("Else", job_id="j"), id="reason"),
        pytest.param(an_event(job_id="j", attempt=1), id="attempt"),
        pytest.param(an_event(job_id="j", node="n"), id="node"),
        pytest.param(an_event(job_id="j", project="p1"), id="project"),
    ],
)
def test_what_differs_in_its_subject_is_no_repeat(store: Store, other: Event) -> None:
    write(store, events=(an_event(job_id="j"), other))
    assert [event.count for event in store.events(EventQuery())] == [1, 1]
