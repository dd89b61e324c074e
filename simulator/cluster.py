"""SimulatedCluster: the Cluster port over gangs that make progress at the network model's rate.

It has no thread and no time of its own: the driver takes what is due from the agenda and hands it
back to `happen`. A view after the first holds only the gangs that have changed.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace

from scheduler.domain.copying import maker_of
from scheduler.domain.ids import JobId, NodeName
from scheduler.domain.instants import Duration, Instant
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.snapshot import Measured
from scheduler.domain.topology import Level, Node
from scheduler.ports.clock import Clock
from scheduler.ports.cluster import ClusterView, GangOrder, WorkerReport, WorkerState
from simulator.agenda import Agenda, Kind
from simulator.crowd import Crowd
from simulator.gang import Account, SimulatedGang
from simulator.happenings import (
    Ends,
    GangHappening,
    Happening,
    Leaves,
    NodeFails,
    NodeHappening,
    NodeReturns,
    StartsUp,
)
from simulator.speeds import Change, Speeds
from simulator.world import Costs, SimulatedJob

_cluster_view = maker_of(ClusterView)


class SimulatedCluster:
    """Where gangs run in a simulation. See Cluster for the port's methods."""

    def __init__(
        self,
        levels: Iterable[Level],
        nodes: Iterable[Node],
        *,
        clock: Clock,
        agenda: "Agenda[Happening]",
        crowd: Crowd,
        speeds: Speeds,
        costs: Costs,
    ) -> None:
        self._levels = tuple(levels)
        self._nodes = tuple(nodes)
        self._clock = clock
        self._agenda = agenda
        self._crowd = crowd
        self._speeds = speeds
        self._costs = costs
        self._gangs: dict[AttemptKey, SimulatedGang] = {}
        self._gangs_by_node: dict[NodeName, dict[AttemptKey, None]] = {}
        self._changed: dict[AttemptKey, None] = {}
        self._sequence = 0
        self.accounts: dict[JobId, Account] = {}
        """Of every job that was ever submitted."""
        self.on_start: Callable[[SimulatedGang], None] | None = None
        """Told of each gang that begins to run."""
        self.has_news = True
        """Something has changed since the last view."""

    def expect(self, job: SimulatedJob) -> None:
        """Know the true work of a job before it is submitted."""
        self.accounts[job.id] = Account(job)

    def remaining(self, job_id: JobId) -> Duration | None:
        """See Lengths: work left, as of now, at full speed."""
        account = self._settled(job_id)
        return Duration(math.ceil(account.job.work - account.done))

    def of(self, job_id: JobId) -> Measured | None:
        """See Measurements: the steps a job has reported up to now."""
        return self._settled(job_id).measured()

    def _settled(self, job_id: JobId) -> Account:
        account = self.accounts[job_id]
        key = account.running
        gang = None if key is None else self._gangs.get(key)
        if gang is not None and gang.is_progressing:
            gang.settle(self._clock.now())
        return account

    # The port.

    def observe(self, after: int | None = None) -> ClusterView:
        """See Cluster."""
        gangs = self._gangs
        is_whole = after is None or after != self._sequence
        workers: list[WorkerReport] = []
        for key in gangs if is_whole else self._changed:
            if key in gangs:
                workers += gangs[key].reports()
        self._changed = {}
        self._sequence += 1
        self.has_news = False
        return _cluster_view(
            levels=self._levels,
            nodes=self._nodes,
            workers=tuple(workers),
            is_complete=is_whole,
            sequence=self._sequence,
        )

    def prepare(self, order: GangOrder) -> None:
        """See Cluster: every worker is made at once."""
        if order.attempt in self._gangs:
            return
        now = self._clock.now()
        account = self.accounts[order.attempt.job_id]
        if account.first_start is None:
            account.first_start = now
            account.first_placement = order.placement
        self._crowd.holds(account.job.gpus)
        gang = SimulatedGang(order=order, account=account, costs=self._costs, prepared_at=now)
        self._gangs[order.attempt] = gang
        account.running = order.attempt
        for held in order.reservations:
            self._gangs_by_node.setdefault(held.node, {})[order.attempt] = None
        self._note(gang)

    def adopt(self, order: GangOrder, *, leaves_at: Instant | None = None) -> None:
        """A gang has been running already when the run begins; or it is being stopped till then."""
        self.prepare(order)
        gang = self._gangs[order.attempt]
        gang.is_released = True
        if leaves_at is None:
            self._start(gang)
            return
        # Its job's next start is the one that counts.
        gang.account.first_start = gang.account.first_placement = None
        gang.leave(self._clock.now())
        at = max(leaves_at, self._clock.now())
        self._agenda.put(at, Kind.END, Leaves(gang.key, gang.version, killed=False))

    def release(self, attempt: AttemptKey) -> None:
        """See Cluster."""
        gang = self._gangs.get(attempt)
        if gang is None or gang.is_released or gang.state is not WorkerState.MADE:
            return
        gang.is_released = True
        if self._costs.start_up:
            at = Instant(self._clock.now() + self._costs.start_up)
            self._agenda.put(at, Kind.START, StartsUp(attempt))
        else:
            self._start(gang)

    def stop(self, attempt: AttemptKey, *, kill_at: Instant) -> None:
        """See Cluster."""
        gang = self._gangs.get(attempt)
        if gang is None or gang.ended_at is not None or gang.is_leaving:
            return
        now = self._clock.now()
        was_running = gang.state is WorkerState.RUNNING
        gang.stand_still(now)
        gang.version += 1
        saved_at = Instant(now + self._save_time(gang))
        leaves_at = min(saved_at, max(now, kill_at))
        if leaves_at > now:
            happening = Leaves(attempt, gang.version, killed=leaves_at < saved_at)
            self._agenda.put(leaves_at, Kind.END, happening)
        else:
            gang.evict(now, saves=self._saves(gang))
            self._over(gang, was_running=was_running)

    def forget(self, attempt: AttemptKey) -> None:
        """See Cluster."""
        gang = self._gangs.get(attempt)
        if gang is not None and gang.ended_at is not None:
            self._drop(gang)

    def order_of(self, attempt: AttemptKey) -> GangOrder | None:
        """See Cluster. Nothing is restored from a backup here, so nobody asks."""
        return None

    def disown(self, attempt: AttemptKey) -> None:
        """See Cluster. Nobody asks."""
        raise NotImplementedError

    # What the agenda brings.

    def happen(self, happening: GangHappening | NodeHappening) -> None:
        """Something is due now."""
        if isinstance(happening, NodeFails):
            self._fail(happening.node)
        elif isinstance(happening, NodeReturns):
            self._set_ready(happening.node, is_ready=True)
        else:
            gang = self._gangs.get(happening.attempt)
            if gang is not None:
                self._happen_to(gang, happening)

    def _happen_to(self, gang: SimulatedGang, happening: GangHappening) -> None:
        match happening:
            case StartsUp():
                if gang.state is WorkerState.MADE and not gang.is_still:
                    self._start(gang)
            case Ends(version=version) if gang.version == version:
                if self._costs.ends_apart and gang.done_at is None:
                    self._end_others(gang)
                else:
                    gang.finish(self._clock.now())
                    self._over(gang, was_running=True)
            case Leaves(version=version, killed=killed) if gang.version == version:
                gang.evict(self._clock.now(), saves=self._saves(gang) and not killed, killed=killed)
                self._over(gang, was_running=not gang.is_leaving)
            case Ends() | Leaves():
                # Another plan was made since.
                return

    # How gangs and nodes change.

    def _start(self, gang: SimulatedGang) -> None:
        now = self._clock.now()
        key = gang.order.attempt
        changes = self._speeds.begin(key, gang.account.job, gang.order.placement)
        own = next(change.speed for change in changes if change.attempt == key)
        gang.start(now, own)
        self._plan_end(gang)
        self._change_others(changes, key)
        self._note(gang)
        if self.on_start is not None:
            self.on_start(gang)

    def _saves(self, gang: SimulatedGang) -> bool:
        """Whether it saves its progress when it is told to stop."""
        return self._costs.saves_when_told and not gang.gone_ranks

    def _save_time(self, gang: SimulatedGang) -> Duration:
        return self._costs.save if gang.has_progressed and self._saves(gang) else Duration(0)

    def _end_others(self, gang: SimulatedGang) -> None:
        """All ranks but the first have ended, which is still busy with what comes after work."""
        now = self._clock.now()
        gang.end_others(now)
        gang.version += 1
        self._crowd.gpus_held -= gang.gpus_freed
        at = Instant(now + self._costs.ends_apart)
        self._agenda.put(at, Kind.END, Ends(gang.key, gang.version))
        self._note(gang)

    def _over(self, gang: SimulatedGang, *, was_running: bool) -> None:
        """The gang has ended."""
        gang.version += 1
        self._crowd.gpus_held += gang.gpus_freed
        self._crowd.frees(gang.account.job.gpus)
        self._note(gang)
        if was_running and not gang.gone_ranks:
            self._change_others(self._speeds.end(gang.key), gang.key)

    def _change_others(self, changes: Iterable[Change], own: AttemptKey) -> None:
        for change in changes:
            gang = self._gangs.get(change.attempt)
            if gang is None or change.attempt == own or not gang.is_progressing:
                continue
            gang.settle(self._clock.now())
            gang.go_at(change.speed)
            self._plan_end(gang)

    def _plan_end(self, gang: SimulatedGang) -> None:
        gang.version += 1
        self._agenda.put(gang.ends_at(), Kind.END, Ends(gang.order.attempt, gang.version))

    def _fail(self, name: NodeName) -> None:
        """The node is down: its workers are gone, and the gangs they belong to stand still."""
        self._set_ready(name, is_ready=False)
        now = self._clock.now()
        for key in list(self._gangs_by_node.get(name, ())):
            gang = self._gangs[key]
            reservations = gang.order.reservations
            gone = {held.rank for held in reservations if held.node == name} - gang.done_ranks
            if gang.ended_at is not None or not gone:
                continue
            if not gang.gone_ranks:
                gang.account.failures += 1
                gang.stand_still(now)
                gang.version += 1
                if gang.state is WorkerState.RUNNING:
                    self._change_others(self._speeds.end(key), key)
            gang.gone_ranks |= gone
            if len(gang.gone_ranks) + len(gang.done_ranks) == len(reservations):
                gang.evict(now, saves=False)
                self._crowd.gpus_held += gang.gpus_freed
                self._crowd.frees(gang.account.job.gpus)
            self._note(gang)

    def _set_ready(self, name: NodeName, *, is_ready: bool) -> None:
        reason = "" if is_ready else "it has failed"
        self._nodes = tuple(
            replace(node, is_ready=is_ready, unready_reason=reason) if node.name == name else node
            for node in self._nodes
        )
        self.has_news = True

    def _note(self, gang: SimulatedGang) -> None:
        self._changed[gang.order.attempt] = None
        self.has_news = True

    def _drop(self, gang: SimulatedGang) -> None:
        del self._gangs[gang.key]
        self._changed.pop(gang.key, None)
        for held in gang.order.reservations:
            on_node = self._gangs_by_node[held.node]
            on_node.pop(gang.key, None)
