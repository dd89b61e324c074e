"""The same workload in the simulator: the service's nodes, knobs and job files, at its times."""

from collections.abc import Iterable, Mapping
from statistics import median

from api.job_files.schemas import JobFile
from api.job_files.spec_mapping import to_spec
from bench.study.live.record import Life, LiveRun, Record, Replay
from bench.study.live.workload import PacedJob, job_file
from scheduler.domain.ids import JobId
from scheduler.domain.instants import SECOND, Duration, Instant, seconds
from scheduler.domain.job import JobSpec
from scheduler.domain.placement import Placement
from scheduler.domain.queue import DEFAULT_QUEUE
from scheduler.domain.reservation import AttemptKey
from scheduler.engine.ladders import Ladders
from simulator.outcome import JobOutcome
from simulator.replay import Scenario, replay, run_on
from simulator.speeds import Change, Speed
from simulator.world import NOTHING, Costs, SimulatedJob


def recorded(run: LiveRun) -> Record:
    """The run with its replays, which are told more and more of how gangs start and end.

    `nothing`: both are free. `costs`: what they typically took in the real run. `ends`: that rank 0
    typically ends so much later than the others, whose slots are free by then.
    """
    overhead_s = median(run.starting_s) + median(run.ending_s)
    apart_s = min(overhead_s, median(run.apart_s or (0.0,)))
    costs = {
        "nothing": _costs(0.0, 0.0),
        "costs": _costs(overhead_s, 0.0),
        "ends": _costs(overhead_s - apart_s, apart_s),
    }
    replays = [Replay(told=told, lives=_replayed(run, each)) for told, each in costs.items()]
    return Record(run=run, replays=tuple(replays))


def _costs(start_up_s: float, apart_s: float) -> Costs:
    """Workers that are told to stop save the step they are in, and read it at once."""
    return Costs(
        start_up=seconds(start_up_s),
        restore=NOTHING,
        checkpoint_every=NOTHING,
        saves_when_told=True,
        ends_apart=seconds(apart_s),
    )


def _replayed(run: LiveRun, costs: Costs) -> tuple[Life, ...]:
    racks = {str(node.name): node.path[0] for node in run.cluster.nodes}
    jobs = tuple(
        SimulatedJob(
            id=JobId(job_id),
            name=job.name,
            arrival=Instant(round(life.submitted_s * SECOND)),
            work=Duration(round(job.steps * job.best_step_s * SECOND)),
            gpus=job.workers,
            spec=_spec(job, racks),
        )
        for job, job_id, life in zip(run.jobs, run.ids, run.lives, strict=True)
    )
    scenario = Scenario(
        jobs=jobs,
        levels=run.cluster.levels,
        nodes=run.cluster.nodes,
        knobs=run.cluster.knobs,
        costs=costs,
        speeds=lambda: _Paces(run.jobs),
        step_times=Ladders,
    )
    places = {job_id: ran.first_placement for job_id, ran in run_on(scenario).items()}
    return tuple(_life(job, places[job.id]) for job in replay(scenario).jobs)


def _spec(job: PacedJob, racks: Mapping[str, str]) -> JobSpec:
    file = JobFile.model_validate(job_file(job, racks), by_alias=True)
    return to_spec(file.spec, labels={}, default_queue=DEFAULT_QUEUE)


class _Paces:
    """Gangs go as their workers do: by how far apart they are, whoever else is on the links."""

    def __init__(self, jobs: Iterable[PacedJob]) -> None:
        self._jobs = {job.name: job for job in jobs}

    def begin(
        self, attempt: AttemptKey, job: SimulatedJob, placement: Placement
    ) -> Iterable[Change]:
        """See Speeds."""
        paced = self._jobs[job.name]
        step_s = paced.step_s[placement.tier_name]
        exposed = max(0.0, 1.0 - paced.best_step_s / step_s)
        return (Change(attempt, Speed(paced.best_step_s / step_s, exposed, step_s)),)

    def end(self, attempt: AttemptKey) -> Iterable[Change]:
        """See Speeds."""
        return ()


def _life(job: JobOutcome, placement: Placement | None) -> Life:
    assert placement is not None, job.name
    return Life(
        name=job.name,
        submitted_s=job.arrival / SECOND,
        first_start_s=job.first_start / SECOND,
        end_s=job.end / SECOND,
        held_s=job.held / SECOND,
        stepping_s=(job.kept + job.lost) / SECOND,
        attempts=1 + job.preemptions + job.upgrades,
        tiers=(placement.tier_name,),
        nodes=tuple(node for _, node in placement.node_of_ranks()),
    )
