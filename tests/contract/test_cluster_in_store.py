"""What a store promises of the cluster, its configuration and hints."""

from dataclasses import replace
from threading import Event as Flag

import pytest

from scheduler.domain.cordon import Cordon
from scheduler.domain.errors import NotFoundError
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import (
    AttemptNumber,
    Epoch,
    JobId,
    JobName,
    NodeName,
    ProjectName,
    QueueName,
)
from scheduler.domain.instants import Duration, Instant
from scheduler.domain.job import JobPhase
from scheduler.domain.knob_sheet import KnobSheet
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.queue import DEFAULT_PROJECT, DEFAULT_QUEUE, Project, Queue
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.stray import AdoptionProblem, Stray, StrayOrder, StrayReason
from scheduler.ports.job_store import JobQuery
from scheduler.ports.unit import (
    Change,
    ChangeCordon,
    ChangeExclusion,
    ChangeKnobs,
    DeleteJob,
    InsertJob,
    OrderStray,
    RecordAudit,
    RecordCycle,
    RecordProgress,
    SaveKnobs,
    SaveNodes,
    SaveProject,
    SaveQueue,
    SaveStrays,
    SeedKnobs,
    Unit,
    asks_for_a_decision,
)
from tests.builders import a_node, a_queue
from tests.contract.stores import (
    CLUSTER,
    JOB,
    KEY,
    REPORT,
    Store,
    a_store,
    an_audit_row,
    insert,
    write,
)
from tests.databases import Databases


def test_a_new_store_has_the_default_project_and_queue_and_nothing_else(store: Store) -> None:
    assert store.projects() == (Project(name=DEFAULT_PROJECT),)
    assert store.queues() == (Queue(name=DEFAULT_QUEUE),)
    assert store.knobs() == PolicyKnobs()
    assert store.last_cycle() is None
    assert store.topology() == ((), ())
    assert store.jobs(JobQuery()).jobs == ()
    assert store.live().jobs == ()
    assert (store.sequence(), store.horizon()) == (0, 0)
    assert store.stuck_rows() == ()
    store.check()


def test_nodes_are_as_last_observed(store: Store) -> None:
    write(store, SaveNodes(levels=CLUSTER.levels, nodes=CLUSTER.nodes[::-1], at=Instant(1)))
    assert store.topology() == (CLUSTER.levels, CLUSTER.nodes)
    fewer = (a_node("new", labels={"zone": "é"}, is_ready=False), replace(CLUSTER.nodes[0], gpus=4))
    write(store, SaveNodes(levels=CLUSTER.levels[:1], nodes=fewer, at=Instant(2)))
    assert store.topology() == (CLUSTER.levels[:1], fewer)


def test_cordons_are_kept_by_node_until_they_are_taken_back(store: Store) -> None:
    first = Cordon(node=NodeName("n1"), by="root", reason="é", at=Instant(1))
    second = Cordon(node=NodeName("n0"), by="root", is_drain=True, at=Instant(2))
    for cordon in (first, second):
        write(store, ChangeCordon(node=cordon.node, cordon=cordon))
    assert store.cordons() == (second, first)
    drained = replace(first, is_drain=True)
    write(store, ChangeCordon(node=first.node, cordon=drained))
    write(store, ChangeCordon(node=second.node, cordon=None))
    write(store, ChangeCordon(node=second.node, cordon=None))
    assert store.cordons() == (drained,)


def test_exclusions_are_kept_by_node_until_they_are_forgotten(store: Store) -> None:
    first, second = NodeName("n1"), NodeName("n0")
    one = Exclusion(reason="SuspectNode", since=Instant(1), until=Instant(9), is_for_programs=True)
    other = Exclusion(reason="é", since=Instant(2), until=Instant(3))
    write(store, ChangeExclusion(node=first, exclusion=one))
    write(store, ChangeExclusion(node=second, exclusion=other))
    assert list(store.exclusions().items()) == [(second, other), (first, one)]
    cleared = replace(one, cleared_by="root", cleared_at=Instant(4))
    write(store, ChangeExclusion(node=first, exclusion=cleared))
    write(store, ChangeExclusion(node=second, exclusion=None))
    write(store, ChangeExclusion(node=second, exclusion=None))
    assert store.exclusions() == {first: cleared}


def test_configuration_is_replaced(store: Store) -> None:
    queue = a_queue("q", policy="fifo", restarts_infra_max=3)
    project = Project(name=ProjectName("p"), queues=(QueueName("q"), DEFAULT_QUEUE))
    knobs = PolicyKnobs(policy="dally", restarts_infra_max=3)
    write(store, SaveQueue(queue=queue), SaveProject(project=project), SaveKnobs(knobs=knobs))
    write(store, SaveQueue(queue=queue), SaveProject(project=replace(project, queues=())))
    assert store.queues() == (Queue(name=DEFAULT_QUEUE), queue)
    assert store.projects() == (Project(name=DEFAULT_PROJECT), replace(project, queues=()))
    assert store.knobs() == knobs


def test_what_is_set_live_wins_over_the_file_until_it_is_reset(store: Store) -> None:
    write(store, SeedKnobs(seeded={"restarts_infra_max": "3", "policy": '"dally"'}))
    write(store, ChangeKnobs(changed={"restarts_infra_max": "5"}))
    write(store, SeedKnobs(seeded={"restarts_infra_max": "4"}))
    assert store.knobs() == PolicyKnobs(restarts_infra_max=5)
    write(store, ChangeKnobs(changed={"policy": '"las"'}, reset=("restarts_infra_max",)))
    assert store.knobs() == PolicyKnobs(restarts_infra_max=4, policy="las")
    assert store.knob_sheet() == KnobSheet(
        seeded={"restarts_infra_max": "4"}, changed={"policy": '"las"'}
    )


def test_a_queue_has_knobs_of_its_own(store: Store) -> None:
    own = ChangeKnobs(changed={"restarts_infra_max": "5"}, queue=DEFAULT_QUEUE)
    write(store, own, SeedKnobs(seeded={"policy": '"las"'}, queue=DEFAULT_QUEUE))
    (queue,) = store.queues()
    assert store.knobs() == PolicyKnobs()
    assert queue.knobs.over(PolicyKnobs(healthy_after=Duration(1))) == PolicyKnobs(
        restarts_infra_max=5, policy="las", healthy_after=Duration(1)
    )
    assert queue.policy == "las"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(SeedKnobs(seeded={}, queue=QueueName("none")), id="seed"),
        pytest.param(ChangeKnobs(queue=QueueName("none")), id="change"),
    ],
)
def test_a_queue_that_does_not_exist_has_no_knobs(store: Store, change: Change) -> None:
    with pytest.raises(NotFoundError):
        write(store, SaveKnobs(knobs=PolicyKnobs(restarts_infra_max=9)), change)
    assert store.knobs() == PolicyKnobs()


def test_the_last_cycle_replaces_the_one_before(store: Store) -> None:
    write(store, RecordCycle(cycle=1, at=Instant(5)))
    write(store, RecordCycle(cycle=2, at=Instant(6)))
    assert store.last_cycle() == RecordCycle(cycle=2, at=Instant(6))


# Hints.


def test_a_unit_is_followed_by_a_hint_until_that_is_ended(store: Store) -> None:
    every, requests = Flag(), Flag()
    end = store.on_change(every.set)
    write(store, RecordAudit(row=an_audit_row()))
    assert every.wait(10)
    store.on_change(requests.set, requests_only=True)
    end()
    insert(store, JOB)
    assert requests.wait(10)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_bookkeeping_wakes_nobody_who_waits_for_requests(kind: str, databases: Databases) -> None:
    every, requests = Flag(), Flag()
    with a_store(kind, databases) as store:
        store.on_change(requests.set, requests_only=True)
        store.on_change(every.set)
        write(store, RecordAudit(row=an_audit_row()))
        assert every.wait(10)
    assert not requests.is_set()


@pytest.mark.parametrize(
    ("unit", "asks"),
    [
        pytest.param(Unit(changes=(InsertJob(job=JOB),)), True, id="a submit"),
        pytest.param(
            Unit(changes=(RecordAudit(row=an_audit_row()), InsertJob(job=JOB))),
            True,
            id="and audit",
        ),
        pytest.param(Unit(changes=(InsertJob(job=JOB),), epoch=Epoch(1)), False, id="the leader's"),
        pytest.param(Unit(changes=(RecordAudit(row=an_audit_row()),)), False, id="audit alone"),
        pytest.param(
            Unit(changes=(RecordProgress(attempt=KEY, progress=REPORT),)), False, id="progress"
        ),
        pytest.param(Unit(changes=(ChangeKnobs(),)), True, id="knobs"),
    ],
)
def test_what_asks_for_a_decision(unit: Unit, *, asks: bool) -> None:
    assert asks_for_a_decision(unit) is asks


def a_stray(job: str = "stray", *, number: int = 0, alive: int = 1) -> Stray:
    return Stray(
        attempt=AttemptKey(JobId(job), AttemptNumber(number)),
        epoch=Epoch(3),
        reason=StrayReason.NEWER_TERM,
        project=ProjectName("vision"),
        workers=2,
        workers_alive=alive,
        nodes=(NodeName("n0"),),
        since=Instant(5),
    )


def test_strays_are_kept_as_told_and_those_not_named_are_forgotten(store: Store) -> None:
    assert store.strays() == ()
    write(store, SaveStrays(strays=(a_stray("b"), a_stray("a"))))
    assert store.strays() == (a_stray("a"), a_stray("b"))
    write(store, SaveStrays(strays=(a_stray("b", alive=0),)))
    assert store.strays() == (a_stray("b", alive=0),)


def test_the_order_for_a_stray_outlasts_what_the_leader_tells_of_it(store: Store) -> None:
    told = replace(a_stray("a"), problem=AdoptionProblem.NAME_TAKEN)
    write(store, SaveStrays(strays=(told,)))
    write(store, OrderStray(attempt=told.attempt, order=StrayOrder.RELEASE))
    assert store.strays() == (replace(a_stray("a"), order=StrayOrder.RELEASE),)
    write(store, SaveStrays(strays=(a_stray("a", alive=0),)))
    assert store.strays() == (replace(a_stray("a", alive=0), order=StrayOrder.RELEASE),)


def test_nothing_is_ordered_for_a_stray_that_is_not_there(store: Store) -> None:
    with pytest.raises(NotFoundError):
        write(store, OrderStray(attempt=a_stray().attempt, order=StrayOrder.ADOPT))


def test_the_latest_job_is_the_one_with_the_largest_id(store: Store) -> None:
    assert store.latest_job_id() is None
    insert(store, replace(JOB, id=JobId("id-b"), name=JobName("b")))
    insert(store, replace(JOB, id=JobId("id-a"), name=JobName("a")))
    assert store.latest_job_id() == "id-b"
    ended = replace(JOB, id=JobId("id-c"), name=JobName("c"), phase=JobPhase.CANCELLED)
    insert(store, ended)
    write(store, DeleteJob(job_id=ended.id, expected_revision=0, at=Instant(1)))
    assert store.latest_job_id() == "id-c", "it was there"
