"""What a store promises of jobs, attempts and reservations, whichever store it is."""

from dataclasses import replace

import pytest

from scheduler.domain.codec import to_json
from scheduler.domain.errors import (
    ConflictError,
    InvalidTransitionError,
    NameTakenError,
    NotFoundError,
    SchedulerError,
)
from scheduler.domain.ids import (
    JobId,
    JobName,
    LevelName,
    PoolName,
    ProjectName,
    Sequence,
)
from scheduler.domain.instants import Duration, Instant
from scheduler.domain.job import (
    FailurePolicy,
    FailureRule,
    Job,
    JobPhase,
    StopCause,
    TopologyRequest,
)
from scheduler.domain.patience import Evictions, HeldDomain, TierTimer, WaitEpisode
from scheduler.domain.queue import DEFAULT_PROJECT, Project
from scheduler.domain.resources import Resources
from scheduler.ports.job_store import EventQuery, JobQuery
from scheduler.ports.unit import (
    Change,
    DeleteJob,
    FreeReservations,
    InsertJob,
    RecordAudit,
    RecordProgress,
    Reserve,
    SaveAnswers,
    SaveJob,
    SaveProject,
    Unit,
)
from tests.builders import a_job, a_placement, a_role
from tests.contract.stores import (
    CLUSTER,
    DONE,
    HOLD,
    JOB,
    KEY,
    REPORT,
    RUNNING,
    START,
    Store,
    an_answer,
    an_audit_row,
    an_event,
    gang_of,
    insert,
    move,
    write,
)

FULL_JOB = Job(
    id=JobId("id-full"),
    project=DEFAULT_PROJECT,
    name=JobName("full"),
    spec=replace(
        a_job(
            "full",
            roles=(
                a_role("ps", resources=Resources(cpu_milli=5, extended=(("ib", 1),))),
                a_role("w", workers=3, gpus=0),
            ),
            labels={"team": "vïsion", "x": ""},
            pool=PoolName("fast"),
            topology=TopologyRequest(required=LevelName("rack")),
            run_time_max=Duration(7),
            failure_policy=FailurePolicy(
                restarts_max=3, rules=(FailureRule(exit_codes=(1, 3), action="Restart"),)
            ),
        ).spec,
    ),
    priority=-7,
    submitted_at=Instant(1_900_000_000_000_001),
    submitted_by="ada",
    phase=JobPhase.STOPPING,
    phase_since=Instant(5),
    reason="Preempt",
    message="made way for\n'ünicode' \U0001f680",
    not_before=Instant(6),
    stop_requested=StopCause.CANCEL,
    stop_now=True,
    attempts=4,
    restarts_user=3,
    restarts_infra=2,
    failures_in_row=1,
    former=a_placement(CLUSTER, JOB, {CLUSTER.nodes[0].name: 2}),
    waiting=WaitEpisode(
        began_at=Instant(3),
        timers=(TierTimer(level=LevelName("rack"), timer=None, samples=4),),
        clock=Duration(7),
        runs_since=Instant(5),
        held=HeldDomain(level=LevelName("rack"), path=("r1",), since=Instant(4)),
    ),
    evictions=Evictions(recent=(Instant(2), Instant(4)), lost=Duration(9)),
    first_started_at=Instant(8),
    ended_at=Instant(9),
    revision=11,
)


def test_a_job_comes_back_as_it_went_in(store: Store) -> None:
    write(store, InsertJob(job=FULL_JOB, source='{"kind":"Job"}'))
    assert store.job(DEFAULT_PROJECT, JobName("full")) == FULL_JOB
    assert store.job_by_id(FULL_JOB.id) == FULL_JOB
    assert store.job_source(FULL_JOB.id) == '{"kind":"Job"}'
    assert store.jobs(JobQuery()).jobs == (FULL_JOB,)
    assert store.live().jobs == (FULL_JOB,)


def test_a_saved_job_comes_back_as_it_was_saved(store: Store) -> None:
    plain = replace(a_job("full"), spec=FULL_JOB.spec)
    insert(store, plain)
    changed = replace(FULL_JOB, submitted_at=plain.submitted_at, submitted_by=plain.submitted_by)
    write(store, SaveJob(job=changed, expected_revision=0))
    assert store.job_by_id(plain.id) == replace(changed, revision=1)


def test_what_does_not_exist_is_not_found(store: Store) -> None:
    for look in (
        lambda: store.job(DEFAULT_PROJECT, JobName("none")),
        lambda: store.job_by_id(JobId("none")),
        lambda: store.job_source(JobId("none")),
    ):
        with pytest.raises(NotFoundError, match="none"):
            look()
    assert store.attempts(JobId("none")) == ()
    assert store.progress(JobId("none")) == ()
    assert store.answer(JobId("none")) is None


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        pytest.param([InsertJob(job=replace(JOB, id=JobId("x")))], NameTakenError, id="name"),
        pytest.param([InsertJob(job=replace(JOB, name=JobName("b")))], ConflictError, id="id"),
        pytest.param(
            [InsertJob(job=a_job("b", project="none"))], NotFoundError, id="no such project"
        ),
        pytest.param([InsertJob(job=a_job("b", queue="none"))], NotFoundError, id="no such queue"),
        pytest.param([SaveJob(job=RUNNING, expected_revision=1)], ConflictError, id="revision"),
        pytest.param(
            [SaveJob(job=RUNNING, expected_revision=0), SaveJob(job=RUNNING, expected_revision=0)],
            ConflictError,
            id="a revision counts inside a unit too",
        ),
        pytest.param(
            [SaveJob(job=a_job("none"), expected_revision=0)], NotFoundError, id="no job to save"
        ),
        pytest.param(
            [SaveJob(job=replace(DONE, phase=JobPhase.PENDING), expected_revision=0)],
            InvalidTransitionError,
            id="terminal is for ever",
        ),
        pytest.param(
            [DeleteJob(job_id=JOB.id, expected_revision=0, at=Instant(1))],
            InvalidTransitionError,
            id="a live job is not deleted",
        ),
        pytest.param(
            [DeleteJob(job_id=DONE.id, expected_revision=3, at=Instant(1))],
            ConflictError,
            id="deleted at another revision",
        ),
        pytest.param(
            [DeleteJob(job_id=JobId("none"), expected_revision=0, at=Instant(1))],
            NotFoundError,
            id="no job to delete",
        ),
        pytest.param([gang_of(a_job("none"))[0]], NotFoundError, id="an attempt of no job"),
        pytest.param([HOLD], NotFoundError, id="a reservation of no attempt"),
        pytest.param([START, HOLD, HOLD], ConflictError, id="a rank holds twice"),
        pytest.param(
            [START, Reserve(reservations=HOLD.reservations[:1] * 2)],
            ConflictError,
            id="a rank holds twice in one change",
        ),
        pytest.param(
            [RecordProgress(attempt=KEY, progress=REPORT)], NotFoundError, id="progress of none"
        ),
    ],
)
def test_a_unit_that_fails_writes_nothing(
    store: Store, changes: list[Change], error: type[SchedulerError]
) -> None:
    insert(store, JOB, DONE)
    before = to_json(store.live()), store.sequence()
    with pytest.raises(error):
        store.write(
            Unit(
                changes=(
                    RecordAudit(row=an_audit_row()),
                    InsertJob(job=a_job("written-first")),
                    *changes,
                ),
                events=(an_event(),),
            )
        )
    assert (to_json(store.live()), store.sequence()) == before
    assert store.audit(limit=10) == ()


def test_a_conflict_names_both_revisions(store: Store) -> None:
    insert(store, JOB)
    with pytest.raises(ConflictError) as caught:
        write(store, SaveJob(job=RUNNING, expected_revision=4))
    assert (caught.value.kind, caught.value.name) == ("job", JOB.name)
    assert (caught.value.expected, caught.value.found) == (4, 0)


def test_the_store_counts_revisions_itself(store: Store) -> None:
    insert(store, JOB)
    write(store, SaveJob(job=replace(RUNNING, revision=77), expected_revision=0))
    assert store.job_by_id(JOB.id).revision == 1


def test_a_terminal_job_may_still_get_another_message(store: Store) -> None:
    insert(store, DONE)
    write(store, SaveJob(job=replace(DONE, message="well done"), expected_revision=0))
    assert store.job_by_id(DONE.id).message == "well done"


def test_the_same_name_lives_in_two_projects(store: Store) -> None:
    write(store, SaveProject(project=Project(name=ProjectName("other"))))
    elsewhere = replace(a_job("a", project="other"), id=JobId("id-elsewhere"))
    insert(store, JOB, elsewhere)
    assert store.job(ProjectName("other"), JOB.name) == elsewhere
    assert store.job(DEFAULT_PROJECT, JOB.name) == JOB


def test_a_deleted_job_takes_along_all_that_was_its_own_and_frees_its_name(store: Store) -> None:
    insert(store, JOB)
    write(
        store,
        START,
        RecordProgress(attempt=KEY, progress=REPORT),
        SaveAnswers(answers=(an_answer(JOB),)),
        events=(an_event(job_id=JOB.id), an_event(job_id="id-of-another")),
    )
    done = move(store, JOB, JobPhase.FAILED)
    deleting = DeleteJob(job_id=JOB.id, expected_revision=done.revision, at=Instant(9))
    last = write(store, deleting, events=(an_event("Deleted", job_id=JOB.id),))
    with pytest.raises(NotFoundError):
        store.job_by_id(JOB.id)
    assert store.attempts(JOB.id) == ()
    assert store.progress(JOB.id) == ()
    assert store.answer(JOB.id) is None
    told = store.events(EventQuery())
    assert [(e.reason, e.job_id) for e in told] == [
        ("Happened", "id-of-another"),
        ("Deleted", JOB.id),
    ]
    insert(store, replace(JOB, id=JobId("id-second")))
    assert store.live(Sequence(last - 1)).deleted == (JOB.id,)
    assert store.live(last).deleted == ()


def test_the_id_of_a_deleted_job_is_not_used_again(store: Store) -> None:
    insert(store, DONE)
    write(store, DeleteJob(job_id=DONE.id, expected_revision=0, at=Instant(1)))
    with pytest.raises(ConflictError):
        insert(store, DONE)


def test_a_job_that_holds_gpus_is_not_deleted(store: Store) -> None:
    insert(store, JOB)
    write(store, START, HOLD)
    done = move(store, JOB, JobPhase.FAILED)
    deleting = DeleteJob(job_id=JOB.id, expected_revision=done.revision, at=Instant(9))
    with pytest.raises(InvalidTransitionError):
        write(store, deleting)
    write(store, FreeReservations(attempt=KEY), deleting)
