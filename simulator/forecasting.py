"""What would happen next in a live cluster: its snapshot, run on by the service's own loop.

Jobs that run now go on where they are; those that wait are started as the policy would. How long a
job still runs is what anybody can know of it (`scheduler.policies.remaining`): the iterations it
declares, less the steps it has reported (or, if it reports none, those that the network model says
it has taken since it runs), else what jobs like it took. So a forecast is as good as these guesses,
and says where each of them comes from. Steps take what the network model says of where a gang
stands and of who shares its links meanwhile. A gang that is being stopped holds its GPUs until its
grace ends; then its job is over, or waits again with what it has done saved: as the service would
have it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.forecast import (
    NOTHING_ELSE,
    Forecast,
    ForecastQuestion,
    LengthFrom,
    Prediction,
    WhatIf,
)
from scheduler.domain.ids import JobId, NodeName
from scheduler.domain.instants import Duration, Instant, after, elapsed, in_seconds
from scheduler.domain.job import Attempt, AttemptPhase, Job, JobPhase
from scheduler.domain.ladder import Ladder
from scheduler.domain.links import FabricPlan
from scheduler.domain.placement import Placement
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.snapshot import RunningGang, Snapshot
from scheduler.domain.topology import Node, topology_tree
from scheduler.engine.ladders import Ladders
from scheduler.network.cluster_fabric import fabric_of_cluster, main_gpu_model
from scheduler.policies.remaining import learned_remaining, remaining_time
from simulator.network_speeds import Network, NetworkSpeeds, network_of
from simulator.replay import Scenario, run_on
from simulator.speeds import FULL_SPEED, Change
from simulator.world import NO_COSTS, SimulatedJob


def forecast(
    snapshot: Snapshot,
    *,
    what_if: WhatIf = NOTHING_ELSE,
    links: FabricPlan | None = None,
    until: JobId | None = None,
) -> tuple[Prediction, ...]:
    """Starts and ends of all live jobs, running ones first, then by submission.

    `links`: as the configuration names them now; None: as the snapshot has them.
    With `until` it ends when that job does: what would happen later is not told.
    """
    plan = snapshot.links if links is None else links
    maker = partial(Ladders, fabric_maker=partial(fabric_of_cluster, plan=plan))
    holding = tuple(_going_on(gang, snapshot.now) for gang in snapshot.holding)
    pending = tuple(replace(job, promised=None) for job in snapshot.pending)
    knobs = what_if.knobs or snapshot.knobs
    knobs = replace(knobs, policy=what_if.policy or knobs.policy)
    tree = snapshot.tree or topology_tree(snapshot.levels, snapshot.nodes)
    ladders = maker(tree, snapshot.nodes)
    steps = _StepsDone(snapshot, ladders)
    holding = tuple(replace(gang, job=_less(gang.job, steps.of_gang(gang))) for gang in holding)
    pending = tuple(_less(job, steps.reported(job)) for job in pending)
    snapshot = replace(snapshot, holding=holding, pending=pending, knobs=knobs, steps_done={})
    known = _Lengths(snapshot, ladders)
    jobs = [known.job(gang.job, gang) for gang in holding]
    jobs += [known.job(job) for job in sorted(pending, key=lambda j: (j.submitted_at, j.id))]
    nodes = (*snapshot.nodes, *_copies(snapshot.nodes, what_if.nodes_more))
    fabric = fabric_of_cluster(snapshot.levels, nodes, plan)
    network = network_of(fabric, fabric, nodes, main_gpu_model(nodes))
    scenario = Scenario(
        jobs=tuple(jobs),
        levels=snapshot.levels,
        nodes=nodes,
        knobs=knobs,
        costs=NO_COSTS,
        speeds=lambda: LiveSpeeds(network),
        step_times=maker,
        begins_with=snapshot,
    )
    ran = run_on(scenario, until=until)
    running = {gang.job.id for gang in holding if not gang.is_stopping}
    return tuple(
        Prediction(
            job_id=job.id,
            name=job.name,
            gpus=job.gpus,
            is_running=job.id in running,
            starts_at=ran[job.id].first_start,
            ends_at=ran[job.id].end,
            placement=ran[job.id].first_placement,
            remaining=job.work,
            length_from=known.source(job),
        )
        for job in jobs
    )


class LiveSpeeds:
    """Speeds of live gangs: as the network says, but for those that distance can not slow."""

    def __init__(self, network: Network) -> None:
        self._speeds = NetworkSpeeds(network)
        self._known = network.paths.keys()

    def begin(
        self, attempt: AttemptKey, job: SimulatedJob, placement: Placement
    ) -> Iterable[Change]:
        """See Speeds."""
        is_known = all(each.node in self._known for each in placement.assignments)
        if not job.gpus or not is_known:
            return (Change(attempt, FULL_SPEED),)
        return self._speeds.begin(attempt, job, placement)

    def end(self, attempt: AttemptKey) -> Iterable[Change]:
        """See Speeds."""
        return self._speeds.end(attempt)


class _StepsDone:
    """How far jobs have come with the iterations that they declare."""

    def __init__(self, snapshot: Snapshot, ladders: Ladders) -> None:
        self._snapshot = snapshot
        self._ladders = ladders
        self._known = {node.name for node in snapshot.nodes}

    def reported(self, job: Job) -> int:
        """What it has said itself."""
        return self._snapshot.steps_done.get(job.id, 0)

    def of_gang(self, gang: RunningGang) -> int:
        """What it has said itself; else what it should have come to in this attempt."""
        since, placement = gang.attempt.running_since, gang.attempt.placement
        reported = self.reported(gang.job)
        is_predicted = all(each.node in self._known for each in placement.assignments)
        if reported or since is None or gang.is_stopping or not is_predicted:
            return reported
        step_s = self._ladders.step_s(gang.job, placement)
        return int(in_seconds(elapsed(since, self._snapshot.now)) / step_s) if step_s else 0


def _less(job: Job, steps: int) -> Job:
    """The job with what is left of the iterations it declares."""
    if job.spec.iterations is None or not steps:
        return job
    return replace(job, spec=replace(job.spec, iterations=max(0, job.spec.iterations - steps)))


class _Lengths:
    """Jobs with what anybody can know of their length."""

    def __init__(self, snapshot: Snapshot, ladders: Ladders) -> None:
        self._snapshot = snapshot
        self._ladders = ladders
        self._models: dict[CommunicationProfile | None, str] = {}
        self._sources: dict[JobId, LengthFrom] = {}

    def job(self, job: Job, gang: RunningGang | None = None) -> SimulatedJob:
        """The job as the simulated world knows it."""
        now, so_far = self._snapshot.now, None
        if gang is not None and gang.attempt.running_since is not None:
            so_far = Duration(job.ran_for + elapsed(gang.attempt.running_since, now))
        ladder = self._ladders.ladder(job)
        left = remaining_time(job, ladder, self._snapshot, so_far=so_far)
        source = self._guessed_from(job, ladder, job.ran_for if so_far is None else so_far)
        limit = job.spec.run_time_max
        if limit is not None and gang is not None and not gang.is_stopping:
            # Each attempt has its own, and this one has used up some of it.
            limit = Duration(after(gang.attempt.created_at, limit) - now)
        if limit is not None and limit < left:
            left, source = limit, LengthFrom.RUN_TIME_MAX
        self._sources[job.id] = source
        return SimulatedJob(
            id=job.id,
            name=job.name,
            arrival=min(job.submitted_at, now),
            work=Duration(max(1, left)),
            gpus=job.spec.gpus,
            spec=job.spec,
            model=self._model(job.spec.communication),
            profile=job.spec.communication,
        )

    def _model(self, profile: CommunicationProfile | None) -> str:
        """A name for it: gangs of one name and shape are taken to step alike."""
        return self._models.setdefault(profile, f"profile-{len(self._models)}")

    def _guessed_from(self, job: Job, ladder: Ladder, ran_for: Duration) -> LengthFrom:
        if job.spec.iterations is not None and ladder.rungs:
            return LengthFrom.ITERATIONS
        learned = learned_remaining(job, self._snapshot, ran_for)
        return LengthFrom.PAST_JOBS if learned else LengthFrom.DEFAULT

    def source(self, job: SimulatedJob) -> LengthFrom:
        """Where the guess of its length comes from."""
        return self._sources[job.id]


def answered(question: ForecastQuestion) -> Forecast:
    """What becomes of one job, and among how many."""
    found = forecast(
        question.snapshot,
        what_if=question.what_if,
        links=question.links,
        until=question.about,
    )
    others = [each for each in found if each.job_id != question.about]
    return Forecast(
        prediction=next(each for each in found if each.job_id == question.about),
        jobs_running=sum(each.is_running for each in others),
        jobs_waiting=sum(not each.is_running for each in others),
    )


def _going_on(gang: RunningGang, now: Instant) -> RunningGang:
    """The gang with records as if it ran, whatever it is on the way to; or as it is stopped."""
    job, attempt = gang.job, gang.attempt
    if gang.is_stopping:
        return replace(gang, job=replace(job, promised=None))
    running_job = Job(
        id=job.id,
        project=job.project,
        name=job.name,
        spec=job.spec,
        priority=job.priority,
        submitted_at=job.submitted_at,
        phase=JobPhase.RUNNING,
        phase_since=job.phase_since,
        attempts=job.attempts,
        ran_for=job.ran_for,
        first_started_at=job.first_started_at,
        last_placed_at=job.last_placed_at,
        start_number=job.start_number,
        revision=job.revision,
    )
    running = Attempt(
        job_id=job.id,
        number=attempt.number,
        phase=AttemptPhase.RUNNING,
        phase_since=attempt.phase_since,
        epoch=attempt.epoch,
        placement=attempt.placement,
        created_at=attempt.created_at,
        running_since=now if attempt.running_since is None else attempt.running_since,
    )
    return replace(gang, attempt=running, job=running_job)


def _copies(nodes: Sequence[Node], count: int) -> Iterator[Node]:
    """So many nodes like the last one, beside it, and in order whatever is the matter with it."""
    taken = {node.name for node in nodes}
    number = 0
    while count and nodes:
        number += 1
        name = NodeName(f"more-{number}")
        if name not in taken:
            count -= 1
            yield replace(
                nodes[-1],
                name=name,
                is_ready=True,
                is_cordoned=False,
                unready_reason="",
                taints=(),
                exclusion=None,
            )
