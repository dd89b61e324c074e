"""GPU time left idle by choice is charged once, and what a wait saved is told when it has paid."""

from scheduler.control.idle_time import IdleByChoice
from scheduler.control.live_jobs import LiveJobs
from scheduler.domain.ids import LevelName, Sequence
from scheduler.domain.instants import HOUR, Duration
from scheduler.domain.job import Job
from scheduler.domain.placement import WaitingForCloserTier
from scheduler.domain.plan import Plan, Start
from scheduler.domain.topology import topology_tree
from scheduler.engine.decision import Decision
from scheduler.engine.standing import Standing
from tests.builders import a_cluster, a_job, a_placement, a_running_gang, at
from tests.worlds import ListSink

CLUSTER = a_cluster("r1: 8 8\nr2: 8 8")
SENSITIVE = a_job("s", workers=2)
OTHER = a_job("o", queue="q", workers=3)


def declined(*, saves_h: float = 2.0) -> WaitingForCloserTier:
    """An offer across racks was declined for one rack."""
    return WaitingForCloserTier(
        level=LevelName("rack"),
        until=at(3600),
        timer=Duration(HOUR),
        timer_samples=0,
        offered_level=LevelName("cluster"),
        gpus_free_at_offer=16,
        domains_at_offer=2,
        step_slowdown=2.0,
        saves=Duration(round(saves_h * HOUR)),
    )


class Bench:
    """The counter with what it looks at: four free nodes, and jobs that wait."""

    def __init__(self, *jobs: Job) -> None:
        self.sink = ListSink()
        self.standing = Standing(topology_tree(CLUSTER.levels, CLUSTER.nodes), CLUSTER.nodes)
        self.live = LiveJobs(self.standing)
        for job in jobs:
            self.live.put(job, None)
        self.idle = IdleByChoice(self.sink)
        self.idle.pass_time(at(0))

    def decide(self, *starts: Start, **blocked: WaitingForCloserTier) -> None:
        """A decision was made and applied."""
        by_id = {job.id: blocked[job.name] for job in self._waiting() if job.name in blocked}
        decision = Decision(plan=Plan(made_on=Sequence(1), start=starts), blocked={**by_id})
        self.idle.look_at(decision, self.live, self.standing)

    def _waiting(self) -> list[Job]:
        return sorted(self.live.pending.values(), key=lambda job: job.id, reverse=True)

    def told(self, name: str) -> list[tuple[object, ...]]:
        """Values of facts of one name."""
        return [tuple(facts.values()) for said, facts in self.sink.facts if said == name]


def test_time_is_charged_to_the_queue_whose_job_declined() -> None:
    bench = Bench(SENSITIVE)
    bench.decide(s=declined())
    bench.idle.pass_time(at(10))
    bench.idle.pass_time(at(15))
    assert bench.told("idled") == [("default", 160.0), ("default", 80.0)]
    assert bench.told("holding_out") == [("default", 16, 16 * 7200.0)]


def test_free_gpus_are_charged_to_the_first_who_declined_them() -> None:
    bench = Bench(SENSITIVE, OTHER)
    bench.decide(s=declined(), o=declined())
    bench.idle.pass_time(at(1))
    # Of 32 free GPUs the first takes 16, and the other one would take 24.
    assert bench.told("idled") == [("default", 16.0), ("q", 16.0)]


def test_nothing_is_idle_by_choice_once_nobody_declines() -> None:
    bench = Bench(SENSITIVE)
    bench.decide(s=declined())
    bench.decide()
    bench.idle.pass_time(at(10))
    assert bench.told("idled") == []
    assert bench.told("holding_out")[-1] == ("default", 0, 0.0)


def a_start(job: Job, spots: dict[str, int]) -> Start:
    """A start of the job there."""
    placement = a_placement(CLUSTER, job, spots)
    return Start(job_id=job.id, revision=0, placement=placement)


def test_a_wait_has_paid_when_its_job_starts_closer() -> None:
    bench = Bench(SENSITIVE)
    bench.decide(s=declined())
    spots = {"r1-n0": 1, "r1-n1": 1}
    bench.live.put(SENSITIVE, a_running_gang(CLUSTER, SENSITIVE, spots))
    bench.decide(a_start(SENSITIVE, spots))
    assert bench.told("wait_paid") == [("default", 16 * 7200.0)]


def test_a_wait_in_vain_has_not_paid() -> None:
    bench = Bench(SENSITIVE)
    bench.decide(s=declined())
    spots = {"r1-n0": 1, "r2-n0": 1}
    bench.live.put(SENSITIVE, a_running_gang(CLUSTER, SENSITIVE, spots))
    bench.decide(a_start(SENSITIVE, spots))
    assert bench.told("wait_paid") == []


def test_a_claim_that_was_lost_has_not_paid() -> None:
    bench = Bench(SENSITIVE)
    bench.decide(s=declined())
    bench.decide(a_start(SENSITIVE, {"r1-n0": 1, "r1-n1": 1}))
    assert bench.told("wait_paid") == []


def test_the_same_decision_counts_once_and_a_new_term_from_nothing() -> None:
    bench = Bench(SENSITIVE)
    bench.decide(s=declined())
    bench.idle.forget()
    bench.idle.pass_time(at(100))
    assert bench.told("idled") == []
