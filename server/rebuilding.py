"""`dallyd admin rebuild`: after a total loss of the database, one made of what the cluster runs.

What runs is found by its anchors, which keep each gang's order. Jobs that only waited are lost, and
so are tokens, events and what was learned.
"""

import time
from collections.abc import Iterator

from scheduler.adapters.kubernetes.access import Access
from scheduler.adapters.kubernetes.finding import Findings, FoundGang, find_gangs
from scheduler.adapters.sql.job_store import SqlStore
from scheduler.adapters.sql.observing import NobodyObserves
from scheduler.adapters.system_clock import SystemClock
from scheduler.config_file import Config
from scheduler.control.adopting import Known, adoption
from scheduler.control.gang import TERMINAL_STATES
from scheduler.domain.errors import (
    AlreadyServingError,
    NameTakenError,
    NotFoundError,
    SchedulerError,
)
from scheduler.domain.explain import counted, explain_problem
from scheduler.domain.ids import Epoch
from scheduler.domain.instants import in_seconds
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.stray import AdoptionProblem
from scheduler.settings import Settings
from server import database, kubernetes_home
from server.first_start import apply_config

LOOK_AGAIN_S = 0.2


class NothingToRebuildError(SchedulerError):
    """The database is not one that may be made anew, or the cluster does not say of what."""


def rebuild(settings: Settings, config: Config, *, instance: str) -> Iterator[str]:
    """Do it, and say in lines what was done. Raises SchedulerError. `instance`: whose gangs, where
    the cluster has those of several."""
    access: Access = kubernetes_home.access(settings)
    findings = find_gangs(access, kubernetes_home.namespaces(settings, config))
    with database.open_to_serve(settings, NobodyObserves()) as store:
        chosen = _instance(findings, instance, store)
        apply_config(store, config)
        if store.instance_id() != chosen:
            if store.latest_job_id() is not None:
                raise NothingToRebuildError(
                    f"the database has jobs and is {store.instance_id()}, the gangs belong to "
                    f"{chosen}; rebuild into an empty one"
                )
            store.become(chosen)
        store.raise_epoch(findings.epochs[chosen])
        epoch = _lead(store, settings)
        yield f"installation {chosen}, leadership term {epoch}"
        for gang in findings.gangs:
            if gang.instance == chosen:
                yield _taken_up(gang, findings, store, epoch)
        for name in findings.unreadable:
            yield f"{name}: can not be read, and is left alone"
        store.leave_lease(epoch)


def _instance(findings: Findings, wanted: str, store: SqlStore) -> str:
    """Whose gangs are to be taken up."""
    if not findings.epochs:
        raise NothingToRebuildError("the cluster has nothing that Dally has made")
    known = ", ".join(sorted(findings.epochs))
    if wanted:
        if wanted not in findings.epochs:
            raise NothingToRebuildError(f"nothing belongs to {wanted}; there are: {known}")
        return wanted
    if store.instance_id() in findings.epochs:
        return store.instance_id()
    if len(findings.epochs) > 1:
        raise NothingToRebuildError(f"there are gangs of {known}; say --instance")
    return known


def _lead(store: SqlStore, settings: Settings) -> Epoch:
    """Be the leader: no server may act meanwhile."""
    leadership = database.leadership_on(store, settings)
    end = time.monotonic() + 2 * in_seconds(settings.lease)
    while (epoch := leadership.lead()) is None:
        if time.monotonic() > end:
            raise AlreadyServingError("a server leads on this database; stop it first")
        time.sleep(LOOK_AGAIN_S)
    return epoch


def _taken_up(gang: FoundGang, findings: Findings, store: SqlStore, epoch: Epoch) -> str:
    order = gang.order
    what = f"{order.project}/{order.name}, attempt {order.attempt.number}"
    if not gang.reports:
        return f"{what}: has no pods, and is left alone"
    try:
        job = store.job_by_id(order.attempt.job_id)
    except NotFoundError:
        job = None
    attempts = () if job is None else store.attempts(order.attempt.job_id)
    if any(attempt.number == order.attempt.number for attempt in attempts):
        return f"{what}: is known"
    known = Known(
        projects=store.projects(),
        queues=store.queues(),
        job=job,
        attempts=attempts,
        busy=_busy(gang, findings),
    )
    unit = adoption(order, gang.reports, known, now=SystemClock().now(), epoch=epoch)
    if isinstance(unit, AdoptionProblem):
        return f"{what}: {explain_problem(unit)}"
    try:
        store.write(unit)
    except NameTakenError:
        return f"{what}: {explain_problem(AdoptionProblem.NAME_TAKEN)}"
    alive = sum(report.state not in TERMINAL_STATES for report in gang.reports.values())
    return f"{what}: taken up, {counted(alive, 'worker')} alive"


def _busy(gang: FoundGang, findings: Findings) -> frozenset[AttemptKey]:
    return frozenset(
        each.order.attempt
        for each in findings.gangs
        if each.instance == gang.instance
        and each.order.attempt.job_id == gang.order.attempt.job_id
        and any(report.state not in TERMINAL_STATES for report in each.reports.values())
    )
