"""What a store promises of learned step times and of projects' own model profiles."""

import pytest

from scheduler.adapters.sql.job_store import open_store
from scheduler.domain.errors import ConflictError, NotFoundError
from scheduler.domain.ids import JobId, ProjectName
from scheduler.domain.instants import Instant
from scheduler.domain.queue import DEFAULT_PROJECT, Project
from scheduler.ports.job_store import StoredStepTimes
from scheduler.ports.unit import (
    DeleteJob,
    DeleteProfile,
    InsertJob,
    RecordProgress,
    SaveProfile,
    SaveProject,
    SaveStepTimes,
    Unit,
    asks_for_a_decision,
)
from tests.builders import a_job
from tests.contract.stores import (
    DONE,
    JOB,
    KEY,
    REPORT,
    START,
    Store,
    a_profile,
    insert,
    learned,
    write,
)
from tests.databases import Databases

OTHER = a_job("other")
P = ProjectName("p")


def save(times_of: JobId, *, expected: int, ratio: float = 1.25) -> SaveStepTimes:
    """What was learned of a job."""
    return SaveStepTimes(job_id=times_of, times=learned(ratio=ratio), expected_revision=expected)


def test_what_was_learned_comes_back_by_job(store: Store) -> None:
    insert(store, JOB, OTHER, DONE)
    write(store, save(JOB.id, expected=0), save(OTHER.id, expected=0, ratio=0.5))
    write(store, save(OTHER.id, expected=1, ratio=0.75))
    assert store.step_times([JOB.id, OTHER.id, DONE.id, JobId("none")]) == {
        JOB.id: StoredStepTimes(times=learned(), revision=1),
        OTHER.id: StoredStepTimes(times=learned(ratio=0.75), revision=2),
    }
    assert store.step_times([]) == {}


def test_what_was_learned_of_live_jobs_comes_whole_or_as_far_as_it_is_news(store: Store) -> None:
    insert(store, JOB, OTHER, DONE)
    first = write(store, save(JOB.id, expected=0), save(DONE.id, expected=0))
    second = write(store, save(OTHER.id, expected=0, ratio=0.5))
    third = write(store, save(JOB.id, expected=1, ratio=0.75))
    both = {JOB.id: learned(ratio=0.75), OTHER.id: learned(ratio=0.5)}
    assert store.live_step_times() == both
    assert store.live_step_times(first) == both
    assert store.live_step_times(second) == {JOB.id: learned(ratio=0.75)}
    assert store.live_step_times(third) == {}


def test_of_two_who_learn_at_once_one_is_told(store: Store) -> None:
    insert(store, JOB)
    write(store, save(JOB.id, expected=0))
    with pytest.raises(ConflictError) as told:
        write(store, START, RecordProgress(attempt=KEY, progress=REPORT), save(JOB.id, expected=0))
    assert (told.value.kind, told.value.expected, told.value.found) == ("step times", 0, 1)
    assert store.attempts(JOB.id) == ()
    with pytest.raises(ConflictError):
        write(store, save(JOB.id, expected=3))


def test_nothing_is_learned_of_a_job_that_is_gone(store: Store) -> None:
    with pytest.raises(NotFoundError):
        write(store, save(JOB.id, expected=0))
    insert(store, DONE)
    write(store, save(DONE.id, expected=0))
    write(store, DeleteJob(job_id=DONE.id, expected_revision=0, at=Instant(1)))
    assert store.step_times([DONE.id]) == {}


def test_profiles_belong_to_their_project_and_come_by_name(store: Store) -> None:
    write(
        store,
        SaveProject(project=Project(name=P)),
        SaveProfile(project=DEFAULT_PROJECT, profile=a_profile("b")),
        SaveProfile(project=DEFAULT_PROJECT, profile=a_profile("a")),
        SaveProfile(project=P, profile=a_profile("b", parameters=5)),
    )
    write(store, SaveProfile(project=DEFAULT_PROJECT, profile=a_profile("a", parameters=9)))
    assert store.profiles(DEFAULT_PROJECT) == (a_profile("a", parameters=9), a_profile("b"))
    assert store.profiles(P) == (a_profile("b", parameters=5),)
    write(store, DeleteProfile(project=DEFAULT_PROJECT, name="b"))
    assert store.profiles(DEFAULT_PROJECT) == (a_profile("a", parameters=9),)
    assert store.profiles(P) == (a_profile("b", parameters=5),)


def test_a_profile_needs_its_project_and_deleting_needs_the_profile(store: Store) -> None:
    with pytest.raises(NotFoundError, match="project"):
        write(store, SaveProfile(project=P, profile=a_profile()))
    with pytest.raises(NotFoundError, match="profile"):
        write(store, DeleteProfile(project=DEFAULT_PROJECT, name="net"))


def test_learning_asks_for_no_decision() -> None:
    changes = (
        save(JOB.id, expected=0),
        SaveProfile(project=P, profile=a_profile()),
        DeleteProfile(project=P, name="net"),
    )
    assert not asks_for_a_decision(Unit(changes=changes))
    assert asks_for_a_decision(Unit(changes=(*changes, InsertJob(job=JOB))))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_what_was_learned_outlives_the_server(kind: str, databases: Databases) -> None:
    with databases.lent(kind) as url:
        with open_store(url) as store:
            insert(store, JOB)
            write(
                store,
                save(JOB.id, expected=0),
                SaveProfile(project=DEFAULT_PROJECT, profile=a_profile()),
            )
        with open_store(url) as store:
            assert store.step_times([JOB.id])[JOB.id].times == learned()
            assert store.profiles(DEFAULT_PROJECT) == (a_profile(),)
