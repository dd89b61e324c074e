"""Hypothesis plays a cluster under Dally: jobs come and end, nodes are lost, knobs change.

After every step: GPUs are counted exactly, nobody is stopped too often, and no job waits for GPUs
that are free and that it would accept.
"""

from collections import Counter
from dataclasses import replace
from functools import partial

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    rule,
)

from scheduler.adapters.memory.workers import WorkerScript
from scheduler.domain.gang import gang_request
from scheduler.domain.ids import JobId, NodeName
from scheduler.domain.instants import after, seconds
from scheduler.domain.job import CheckpointRequest, JobPhase
from scheduler.domain.knobs import JobOrder, NetworkMoves, Timers, WaitClock
from scheduler.domain.placement import Placement, TooFewGpus, WaitingForCloserTier
from scheduler.domain.topology import topology_tree
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.ladders import Ladders
from scheduler.engine.placing import place_gang
from scheduler.ports.unit import SaveKnobs, Unit
from tests.builders import a_cluster, a_job
from tests.proof import times
from tests.simulation.sensitive_world import (
    COMPUTES,
    SOON,
    TALKS,
    VARIANTS,
    DrawnLosses,
    evicted_too_often,
    narrow_fabric,
)
from tests.worlds import Script, World

PICTURE = a_cluster("r1: 4 4\nr2: 4 4\nr3: 4 4")
NODES = {node.name: node for node in PICTURE.nodes}
SETTLED_AFTER = 25
"""Ticks within which everything that is due at one instant has been done."""


class ClusterUnderDally(RuleBasedStateMachine):
    """One world; its loop ticks until it rests after every step."""

    names: Bundle[str] = Bundle("names")

    def __init__(self) -> None:
        super().__init__()
        self.made = 0
        self.bound = SOON.evictions_per_hour

    @initialize(policy=st.sampled_from(VARIANTS))
    def begin(self, policy: str) -> None:
        """An empty cluster; workers run until they are told to end or to stop."""
        self.world = World(
            PICTURE,
            knobs=replace(SOON, policy=policy),
            script=Script(WorkerScript()),
            step_times=partial(Ladders, fabric_maker=narrow_fabric),
            measured=DrawnLosses(),
            poll=seconds(60),
        )
        self.rest()

    @rule(
        target=names,
        workers=st.integers(1, 7),
        gpus=st.sampled_from([0, 1, 2, 4]),
        profile=st.sampled_from([TALKS, COMPUTES, None]),
        saves=st.booleans(),
        priority=st.sampled_from([0, 0, 0, 10]),
    )
    def arrives(self, **said: object) -> str:
        """A job is submitted."""
        self.made += 1
        checkpoint = CheckpointRequest(
            path="/ckpt",
            every=seconds(5),
            restart_cost=seconds(1),
            grace=seconds(1),
            is_declared=bool(said["saves"]),
        )
        job = a_job(
            f"j{self.made}",
            workers=int(str(said["workers"])),
            gpus=int(str(said["gpus"])),
            communication=said["profile"],  # type: ignore[arg-type]  # drawn from profiles
            checkpoint=checkpoint,
            priority=int(str(said["priority"])),
        )
        self.world.submit(job)
        self.rest()
        return job.name

    @rule(name=names, exit_code=st.sampled_from([0, 0, 1]))
    def ends(self, name: str, exit_code: int) -> None:
        """All workers of a running gang end by themselves."""
        if self.world.phase(name) is not JobPhase.RUNNING:
            return
        attempt = self.world.attempts(name)[-1]
        job = self.world.job(name)
        for held in self.world.store.reservations():
            if held.attempt.job_id == job.id and held.attempt.number == attempt.number:
                self.world.cluster.end_worker(held.attempt, held.rank, exit_code=exit_code)
        self.rest()

    @rule(name=consumes(names))
    def is_cancelled(self, name: str) -> None:
        """Its user has had enough."""
        if not self.world.phase(name).is_terminal:
            self.world.cancel(name, at_once=True)
            self.rest()

    @rule(passed_s=st.sampled_from([1, 20, 31, 300, 4_000]))
    def time_passes(self, passed_s: int) -> None:
        """The loop is called whenever it asks for it."""
        self.world.run(seconds(passed_s))
        self.rest()

    @rule(name=st.sampled_from(sorted(NODES)))
    def node_is_lost(self, name: NodeName) -> None:
        """A node goes with its workers, and is given up."""
        self.world.cluster.lose_node(name)
        self.rest()

    @rule(name=st.sampled_from(sorted(NODES)), is_cordoned=st.booleans())
    def node_is_there(self, name: NodeName, *, is_cordoned: bool) -> None:
        """A node is back, or takes no new workers."""
        self.world.cluster.set_node(replace(NODES[name], is_cordoned=is_cordoned))
        self.rest()

    @rule(
        policy=st.sampled_from(VARIANTS),
        order=st.sampled_from(JobOrder),
        timers=st.sampled_from([Timers.TUNED, Timers.VALUE, Timers.FIXED, Timers.ZERO]),
        clock=st.sampled_from(WaitClock),
        moves=st.sampled_from(NetworkMoves),
    )
    def knobs_change(
        self,
        policy: str,
        order: JobOrder,
        timers: Timers,
        clock: WaitClock,
        moves: NetworkMoves,
    ) -> None:
        """Somebody changes his mind; the numbers that bound evictions stay."""
        knobs = replace(
            SOON,
            policy=policy,
            order=order,
            timers=timers,
            clock=clock,
            preemption=moves,
            upgrades=moves,
        )
        self.world.store.write(Unit(changes=(SaveKnobs(knobs=knobs),)))
        self.rest()

    def rest(self) -> None:
        """Tick, and let the cluster carry out what was asked, until nothing happens at once."""
        world = self.world
        for _ in range(SETTLED_AFTER):
            now = world.clock.now()
            wake_at = world.tick()
            change_at = world.cluster.next_change()
            if change_at is not None and change_at <= after(now, seconds(2)):
                world.clock.advance_to(max(now, change_at))
            elif wake_at > now:
                return
        raise AssertionError("the loop does not come to rest")

    # What holds after each step.

    @invariant()
    def gpus_are_counted_exactly(self) -> None:
        """No GPU is held twice; who runs holds just what its job asks for, the others nothing."""
        held: Counter[NodeName] = Counter()
        by_job: Counter[JobId] = Counter()
        for each in self.world.store.reservations():
            held[each.node] += each.gpus
            by_job[each.attempt.job_id] += each.gpus
        assert all(gpus <= NODES[name].gpus for name, gpus in held.items())
        for job in self.world.jobs():
            if job.phase in {JobPhase.RUNNING, JobPhase.STARTING}:
                assert by_job[job.id] == job.spec.gpus, job.name
            elif job.phase in {JobPhase.PENDING, JobPhase.HELD}:
                assert job.id not in by_job, job.name

    @invariant()
    def evictions_are_bounded(self) -> None:
        """So many an hour, and a bounded share of the run time, for each job."""
        for job in self.world.jobs():
            assert not evicted_too_often(job, self.bound), job.evictions

    @invariant()
    def nobody_waits_for_what_is_free_and_good_enough(self) -> None:
        """A job that is told that GPUs are missing has no room; one that holds out does so for a
        reason that ends."""
        world = self.world
        free = self.free()
        for job in world.jobs():
            if job.phase is not JobPhase.PENDING:
                continue
            answer = world.store.answer(job.id)
            assert answer is not None, job.name
            if isinstance(answer.blocked, TooFewGpus):
                found = place_gang(gang_request(job.spec), free)
                assert not isinstance(found, Placement), (job.name, found)
            elif isinstance(answer.blocked, WaitingForCloserTier):
                assert answer.blocked.until is not None
                assert answer.blocked.until > world.clock.now(), job.name

    def free(self) -> FreeGpus:
        """What is neither held by anybody nor promised, worked out from the store alone."""
        _, nodes = self.world.store.topology()
        free = FreeGpus(topology_tree(PICTURE.levels, nodes), nodes)
        free.hold(self.world.store.reservations())
        for job in self.world.jobs():
            if job.promised is not None and job.phase in {JobPhase.PENDING, JobPhase.STOPPING}:
                free.take(job.promised, gang_request(job.spec))
        return free


TestClusterUnderDally = ClusterUnderDally.TestCase
TestClusterUnderDally.settings = settings(
    max_examples=times(ci=15, proof=400),
    stateful_step_count=20,
    deadline=None,
)
