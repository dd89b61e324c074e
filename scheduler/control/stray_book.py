"""Which gangs the cluster has that the store does not know, and what an admin says of them.

Where one shows that the store is older than the cluster (it was restored from a backup), nothing is
started or stopped until each such gang has been adopted or released.
"""

from collections.abc import Collection, Iterable, Mapping

from scheduler.control.adopting import Known, adoption
from scheduler.control.cluster_watch import ClusterWatch
from scheduler.control.gang import TERMINAL_STATES
from scheduler.control.live_jobs import LiveJobs
from scheduler.control.outside import Outside
from scheduler.domain.copying import replace
from scheduler.domain.errors import (
    ConflictError,
    NameTakenError,
    NotFoundError,
    UnreadableRowError,
)
from scheduler.domain.event import Event, EventKind
from scheduler.domain.explain import LEFT_SAFE_MODE, explain_safe_mode, explain_stray
from scheduler.domain.ids import Epoch, JobId, RoleName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.domain.placement import StoreOutdated
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.stray import (
    AdoptionProblem,
    Stray,
    StrayOrder,
    StrayReason,
    outdated_by,
)
from scheduler.ports.cluster import WorkerState
from scheduler.ports.unit import SaveStrays, Unit

UNTOLD_ROLE = RoleName("")
"""Of workers whose order is not known yet."""


class StrayBook:
    """Finds strays, tells them and carries out what is ordered for them; owned by the loop."""

    def __init__(self, outside: Outside, live: LiveJobs, watch: ClusterWatch) -> None:
        self._outside = outside
        self._live = live
        self._watch = watch
        self._told: dict[AttemptKey, Stray] = {}
        """As the store has them."""
        self._settled: set[AttemptKey] = set()
        """Attempts that were looked up and are no strays."""
        self._not_running: set[AttemptKey] = set()
        """Unknown ones that only wait so far: what they are shows when they run, or are swept."""
        self._disowned: set[AttemptKey] = set()
        self._has_looked = False
        self._looks_at_all = True
        """The next look is at every attempt, not only at those that have arrived."""

    def forget(self) -> None:
        """Know nothing: a new term begins."""
        self._told.clear()
        self._settled.clear()
        self._not_running.clear()
        self._disowned.clear()
        self._has_looked = False
        self._looks_at_all = True

    @property
    def outdated(self) -> StoreOutdated | None:
        """That the store is older than the cluster; None while nothing shows it."""
        return outdated_by(self._told.values()) if self._told else None

    def look(self, epoch: Epoch, now: Instant) -> None:
        """Compare the cluster with the store; `epoch` is the term of this leader."""
        if not self._watch.is_reachable:
            return
        self._looks_at_all |= bool(self._told or self._live.stuck)
        if not (self._looks_at_all or self._watch.arrived or self._not_running):
            return  # Who was no stray is none now.
        if self._finds_none():
            self._watch.arrived.clear()
            return
        fresh = self._watch.arrived | self._not_running
        keys = self._watch.reports.keys() if self._looks_at_all else fresh
        if not self._has_looked or self._told:
            # What an admin has ordered stands in the store.
            self._told = {stray.attempt: stray for stray in self._outside.store.strays()}
        found = self._found(keys, epoch, now)
        is_first, self._has_looked = not self._has_looked, True
        for _, stray in sorted(found.items()):
            if stray.order is not None:
                self._carry_out(stray, found, now, epoch)
        # These sets are short; the reports are of every gang that runs.
        reports = self._watch.reports
        self._settled = {key for key in self._settled if key in reports}
        self._not_running = {
            key
            for key in self._not_running
            if key in reports and key not in self._settled and key not in found
        }
        # Who only waits so far may begin to run at any moment: it holds what it was made with.
        self._live.note_strays(self._held(found.keys() | self._not_running))
        self._tell(found, now, epoch, is_first=is_first)
        self._looks_at_all = bool(self._told or self._live.stuck)
        self._watch.arrived.clear()

    # Finding

    def _finds_none(self) -> bool:
        """Whether all that has arrived is cared for, and nothing else is to be looked at: so it is
        nearly always."""
        if self._looks_at_all or self._not_running or self._settled or not self._has_looked:
            return False
        # Whatever is held by strays is let go of when a look finds none.
        return not self._live.held_by_strays and all(map(self._is_cared_for, self._watch.arrived))

    def _found(
        self, keys: Collection[AttemptKey], epoch: Epoch, now: Instant
    ) -> dict[AttemptKey, Stray]:
        found: dict[AttemptKey, Stray] = {}
        for key in keys:
            if key not in self._watch.reports:
                continue  # It came and went since the last look.
            if key in self._settled or self._is_cared_for(key):
                continue
            reason = self._reason(key, epoch)
            if reason is None:
                if key not in self._told and key not in self._not_running:
                    self._settled.add(key)
                continue
            found[key] = self._stray(key, reason, now)
        return found

    def _is_cared_for(self, key: AttemptKey) -> bool:
        live = self._live.attempts.get(key.job_id)
        if live is not None and live.attempt.number == key.number:
            return True
        return key.job_id in self._live.stuck

    def _reason(self, key: AttemptKey, term: Epoch) -> StrayReason | None:
        """What it says of the store; None for one the store knows, or that is swept."""
        told = self._told.get(key)
        if told is not None and told.shows_an_older_store:
            return None if self._is_in_store(key) else told.reason
        self._not_running.discard(key)
        reports = self._watch.reports_of(key).values()
        made_in = max((report.epoch for report in reports), default=Epoch(0))
        if not made_in or self._is_in_store(key):
            return None
        # At the first look of a term nothing has been made in it; unless the term goes on after the
        # store was away: then a job may have been deleted whose gang is only still reported.
        is_down = all(report.state in TERMINAL_STATES for report in reports)
        is_newer = made_in == term and not self._has_looked
        if made_in > term or (is_newer and not is_down):
            return StrayReason.NEWER_TERM
        if is_newer:
            reason = self._reason_of_older(key)
            return None if reason is StrayReason.UNKNOWN else reason
        if all(report.state is not WorkerState.RUNNING for report in reports):
            self._not_running.add(key)
            return None
        return self._reason_of_older(key)

    def _reason_of_older(self, key: AttemptKey) -> StrayReason:
        job = self._job(key.job_id)
        if job is not None:
            is_newer = key.number >= job.attempts
            return StrayReason.NEWER_ATTEMPT if is_newer else StrayReason.UNKNOWN
        latest = self._outside.store.latest_job_id()
        is_newer = latest is None or key.job_id > latest
        return StrayReason.NEWER_JOB if is_newer else StrayReason.UNKNOWN

    def _is_in_store(self, key: AttemptKey) -> bool:
        try:
            attempts = self._outside.store.attempts(key.job_id)
        except NotFoundError:
            return False
        except UnreadableRowError:
            return True  # Nobody can say: it is left alone.
        return any(attempt.number == key.number for attempt in attempts)

    def _job(self, job_id: JobId) -> Job | None:
        try:
            return self._outside.store.job_by_id(job_id)
        except NotFoundError:
            return None

    def _held(self, keys: Iterable[AttemptKey]) -> tuple[Reservation, ...]:
        """What they hold: nobody else gets that."""
        return tuple(
            held for key in sorted(keys) for held in self._made_with(key) if self._is_alive(held)
        )

    def _made_with(self, key: AttemptKey) -> tuple[Reservation, ...]:
        """As their order says; until that is told, the GPUs that they say themselves."""
        order = self._outside.cluster.order_of(key)
        if order is not None:
            return order.reservations
        return tuple(
            Reservation(
                attempt=key, role=UNTOLD_ROLE, rank=rank, node=report.node, gpus=report.gpus
            )
            for rank, report in sorted(self._watch.reports_of(key).items())
        )

    def _is_alive(self, held: Reservation) -> bool:
        report = self._watch.reports_of(held.attempt).get(held.rank)
        return report is None or report.state not in TERMINAL_STATES

    def _stray(self, key: AttemptKey, reason: StrayReason, now: Instant) -> Stray:
        reports = self._watch.reports_of(key)
        told = self._told.get(key)
        order = self._outside.cluster.order_of(key)
        workers = len(reports) if order is None else len(order.reservations)
        alive = sum(report.state not in TERMINAL_STATES for report in reports.values())
        return Stray(
            attempt=key,
            epoch=max(report.epoch for report in reports.values()),
            reason=reason,
            project=None if order is None else order.project,
            name=None if order is None else order.name,
            workers=workers,
            workers_alive=alive,
            nodes=tuple(sorted({report.node for report in reports.values()})),
            since=now if told is None else told.since,
            order=None if told is None else told.order,
            problem=None if told is None else told.problem,
        )

    # Carrying out

    def _carry_out(
        self, stray: Stray, found: dict[AttemptKey, Stray], now: Instant, epoch: Epoch
    ) -> None:
        key = stray.attempt
        if stray.order is StrayOrder.RELEASE:
            if key not in self._disowned:
                self._outside.acting_cluster().disown(key)
                self._disowned.add(key)
            self._watch.look_whole()  # Only a whole list says that it is not reported any more.
            return
        problem = self._adopt(key, now, epoch)
        if problem is None:
            del found[key]
            self._settled.add(key)
        else:
            found[key] = replace(stray, problem=problem)

    def _adopt(self, key: AttemptKey, now: Instant, epoch: Epoch) -> AdoptionProblem | None:
        store = self._outside.store
        order = self._outside.cluster.order_of(key)
        if order is None:
            return AdoptionProblem.NOT_DESCRIBED
        job = self._job(key.job_id)
        known = Known(
            projects=store.projects(),
            queues=store.queues(),
            job=job,
            attempts=() if job is None else store.attempts(key.job_id),
            busy=self._busy(key.job_id),
        )
        unit = adoption(order, self._watch.reports_of(key), known, now=now, epoch=epoch)
        if isinstance(unit, AdoptionProblem):
            return unit
        try:
            store.write(unit)
        except NameTakenError:
            return AdoptionProblem.NAME_TAKEN
        except ConflictError:
            return AdoptionProblem.ANOTHER_RUNS  # It has just changed: looked at again.
        self._outside.sink.emit("gang_adopted", {"job": key.job_id, "attempt": key.number})
        return None

    def _busy(self, job_id: JobId) -> frozenset[AttemptKey]:
        return frozenset(
            key
            for key, reports in self._watch.reports.items()
            if key.job_id == job_id
            and any(report.state not in TERMINAL_STATES for report in reports.values())
        )

    # Telling

    def _tell(
        self, found: Mapping[AttemptKey, Stray], now: Instant, epoch: Epoch, *, is_first: bool
    ) -> None:
        if found == self._told and not is_first:
            return
        is_news = found != self._told
        before, known = self.outdated, self._told
        self._told = dict(found)
        events = [_found_event(stray, now) for key, stray in found.items() if key not in known]
        if self.outdated is not None and before is None:
            events.append(_event("SafeModeEntered", explain_safe_mode(self.outdated), now))
        if self.outdated is None and before is not None:
            events.append(_event("SafeModeLeft", LEFT_SAFE_MODE, now, kind=EventKind.NORMAL))
        change = SaveStrays(strays=tuple(stray for _, stray in sorted(found.items())))
        if is_news:
            self._outside.store.write(Unit(changes=(change,), events=tuple(events), epoch=epoch))
        if is_news or found:
            facts = {"gangs": len(found), "is_safe_mode": self.outdated is not None}
            self._outside.sink.emit("strays", facts)


def _event(
    reason: str, message: str, now: Instant, *, kind: EventKind = EventKind.WARNING
) -> Event:
    return Event(reason=reason, message=message, at=now, kind=kind)


def _found_event(stray: Stray, now: Instant) -> Event:
    return Event(
        reason="StrayFound",
        message=explain_stray(stray),
        at=now,
        kind=EventKind.WARNING,
        project=stray.project,
        job_id=stray.attempt.job_id,
        job_name=stray.name,
        attempt=stray.attempt.number,
    )
