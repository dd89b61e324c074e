"""The scratch pad of one decision, and the one question every recipe asks: where does it fit?"""

from collections.abc import Callable, Hashable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from functools import cache, partial

from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Job
from scheduler.domain.placement import Blocked, LevelMissing, NeverFits, Placement, PoolMissing
from scheduler.domain.plan import Promise, Start, Stop, Wait
from scheduler.domain.snapshot import Neighbour, Snapshot
from scheduler.domain.waits import WaitObservation
from scheduler.engine.choosing import RULES, Rules
from scheduler.engine.crowding import Crowd
from scheduler.engine.placing import place_gang
from scheduler.engine.replacing import replace_lost
from scheduler.engine.standing import Standing
from scheduler.engine.waiting import Kind, Waiting, Walk
from scheduler.policies.interface import Offer, Policy

NOBODY: frozenset[JobId] = frozenset()

PLACED_MAX = 10_000
"""Answers are kept until anything is taken or freed; so many at most."""

HOPELESS = (NeverFits, PoolMissing, LevelMissing)
"""A job that waiting can not help does not hold up those behind it."""


@dataclass(slots=True, kw_only=True)
class Scratch:
    """What one decision has come to so far. The free GPUs of `standing` are in a trial."""

    snapshot: Snapshot
    standing: Standing
    policy: Policy
    walk: Walk
    start: list[Start] = field(default_factory=list)
    stop: list[Stop] = field(default_factory=list)
    promise: list[Promise] = field(default_factory=list)
    void: list[Job] = field(default_factory=list)
    """Jobs whose promise can not be kept."""
    waits: dict[JobId, Wait] = field(default_factory=dict)
    observations: list[WaitObservation] = field(default_factory=list)
    declined: dict[JobId, Offer] = field(default_factory=dict)
    """Jobs that could start and do not want to, with the offer."""
    idle: dict[QueueName, int] = field(default_factory=dict)
    """GPUs that jobs of a queue have declined."""
    caps: dict[QueueName, int] = field(default_factory=dict)
    """And may decline; 0: as many as there are."""
    next_wakeup: Instant | None = None
    """When time alone changes something, as far as it is known."""
    blocked: dict[JobId, Blocked] = field(default_factory=dict)
    alike: dict[Kind, Blocked] = field(default_factory=dict)
    stuck: dict[QueueName, JobId] = field(default_factory=dict)
    settled: set[JobId] = field(default_factory=set)
    """Jobs that have had their answer before the walk."""
    has_changed: bool = False
    """Something was taken or let go: the standing's parked answers do not hold here."""
    parked: dict[int, Blocked] = field(default_factory=dict)
    """Equal requests get one answer as long as what is free only shrinks."""
    offers: dict[int, Offer] = field(default_factory=dict)
    """And one offer as long as nothing is taken or let go."""
    leaving: set[JobId] = field(default_factory=set)
    """Running gangs that the decision has given up so far."""
    _crowd: Crowd | None = None
    """Who is on which link; not looked at before a gang would leave a node."""

    @property
    def rules(self) -> Rules:
        """How gangs are placed."""
        return RULES[self.snapshot.knobs.placing]

    def place(self, waiting: Waiting) -> Placement | Blocked:
        """Where the gang fits now, or why nowhere; whether the policy likes it is not asked."""
        answer = self._place_alike(waiting)
        if waiting.job.former is not None and isinstance(answer, Placement):
            again = self._where_it_was(waiting, waiting.job.former)
            if again is not None and again.tier <= answer.tier:
                return again
        return answer

    def accepts(self, waiting: Waiting, placement: Placement) -> bool:
        """Whether the policy takes the offer; if not, its reason is the job's answer."""
        job = waiting.job
        offer = self.offers.get(waiting.kind.request)
        if offer is None or offer.placement is not placement:
            offer = self.offer(placement)
        declined = self.policy.accept(job, offer)
        if self.policy.patience is not None and not self._may_leave_idle(job):
            declined = None
        if declined is not None:
            self.blocked[job.id] = declined
            if self.policy.patience is not None:
                self.declined[job.id] = offer
                self.idle[job.spec.queue] = self.idle.get(job.spec.queue, 0) + job.spec.gpus
        elif self.policy.patience is not None:
            self.observations += self.policy.patience.lessons(job, offer)
        return declined is None

    def offer(self, placement: Placement, *, leaving: AbstractSet[JobId] = NOBODY) -> Offer:
        """The placement, and whom the gang would meet on its links once those leave."""
        if not placement.tier:
            return Offer(placement=placement)
        return Offer(placement=placement, beside=cache(partial(self._beside, placement, leaving)))

    def _beside(self, placement: Placement, leaving: AbstractSet[JobId]) -> tuple[Neighbour, ...]:
        if self._crowd is None:
            self._crowd = self._found_crowd()
        return self._crowd.beside(placement, leaving=self.leaving | leaving)

    def _found_crowd(self) -> Crowd:
        standing = self.standing
        void = {job.id for job in self.void}
        comes = {job_id: place for job_id, place in standing.promises.items() if job_id not in void}
        comes |= {start.job_id: start.placement for start in self.start}
        comes |= {promise.job_id: promise.placement for promise in self.promise}
        crowd = Crowd(standing.traffic, self.snapshot.now)
        crowd.follow(
            self.snapshot,
            moving={job_id: place for job_id, (place, _) in standing.moving.items()},
            coming=[
                (standing.line[job_id].job, place)
                for job_id, place in comes.items()
                if job_id in standing.line
            ],
        )
        return crowd

    def comes(self, job: Job, placement: Placement) -> None:
        """The job runs there next."""
        if self._crowd is not None:
            self._crowd.add(job, placement)

    def _may_leave_idle(self, job: Job) -> bool:
        """Whether its queue may leave so many more GPUs idle by choice."""
        queue = job.spec.queue
        if queue not in self.caps:
            self.caps[queue] = self.snapshot.knobs_of(queue).idle_gpus_max
        cap = self.caps[queue]
        return not cap or self.idle.get(queue, 0) + job.spec.gpus <= cap

    def begin(self, waiting: Waiting, placement: Placement) -> None:
        """The job starts there."""
        job = waiting.job
        self.standing.free.take(placement, waiting.request)
        self.has_changed = True
        self.offers.clear()
        self.start.append(Start(job_id=job.id, revision=job.revision, placement=placement))
        self.comes(job, placement)

    def wake_at(self, at: Instant) -> None:
        """Time alone changes something then."""
        if self.next_wakeup is None or at < self.next_wakeup:
            self.next_wakeup = at

    def takes_back(self, job: Job) -> None:
        """It is promised what it waits for: it leaves nothing idle any more."""
        self.waits.pop(job.id, None)
        if self.declined.pop(job.id, None) is not None:
            self.idle[job.spec.queue] -= job.spec.gpus

    def leaves_line(self) -> set[JobId]:
        """Jobs that start, or will where gangs were stopped for them."""
        promised = {promise.job_id for promise in self.promise}
        return promised | {start.job_id for start in self.start}

    def refuse(self, waiting: Waiting, answer: Blocked) -> None:
        """All jobs of its kind wait, and need not be asked."""
        self.alike[waiting.kind] = answer
        self.walk.shut(waiting.kind)

    def hold_up(self, waiting: Waiting, answer: Placement | Blocked) -> None:
        """The job waits; where its queue is strict, so does whoever stands behind it there."""
        if not isinstance(answer, HOPELESS) and self.policy.blocks_later(waiting.job):
            self.stuck[waiting.kind.queue] = waiting.job.id
            self.walk.shut_queue(waiting.kind.queue)

    def _place_alike(self, waiting: Waiting) -> Placement | Blocked:
        """The answer to all jobs of a kind."""
        number = waiting.kind.request
        offer = self.offers.get(number)
        if offer is not None:
            return offer.placement
        known = self.parked.get(number)
        if known is None and not self.has_changed:
            known = self.standing.parked.get(number)
        if known is None:
            known = self.standing.refusal(waiting.kind, waiting.request)
        if known is None:
            answer = self.found(
                ("fits", number),
                lambda: place_gang(waiting.request, self.standing.free, self.rules),
            )
            if isinstance(answer, Placement):
                self.offers[number] = self.offer(answer)
                return answer
            known = answer
            self.standing.refuse(waiting.kind, waiting.request, answer)
        self.parked[number] = known
        return known

    def found(
        self, question: Hashable, find: Callable[[], Placement | Blocked]
    ) -> Placement | Blocked:
        """An answer that hangs on what is free alone: worked out once while nothing changes that.

        `question`: says what is asked, and is the same for nothing else.
        """
        if self.has_changed:
            return find()
        placed = self.standing.placed
        key = (question, self.snapshot.knobs.placing)
        answer = placed.get(key)
        if answer is None:
            if len(placed) >= PLACED_MAX:
                placed.clear()
            answer = placed[key] = find()
        return answer

    def _where_it_was(self, waiting: Waiting, former: Placement) -> Placement | None:
        """The place it ran at when a node was lost, with that node replaced.

        None if somebody else has come to what was left of it, or if nothing was.
        """
        standing = self.standing
        names = {assignment.node for assignment in former.assignments}
        lost = frozenset(name for name in names if not standing.takes_workers(name))
        if names <= lost:
            return None
        kept = tuple(a for a in former.assignments if a.node not in lost)
        with standing.free.trial():
            standing.free.take(replace(former, assignments=kept), waiting.request)
            if not standing.is_covered(names - lost):
                return None
            answer = replace_lost(waiting.request, former, lost, standing.free, self.rules)
        return answer if isinstance(answer, Placement) else None
