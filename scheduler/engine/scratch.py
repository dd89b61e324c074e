"""The scratch pad of one decision, and the one question every recipe asks: where does it fit?"""

from dataclasses import dataclass, field

from scheduler.domain.ids import JobId, QueueName
from scheduler.domain.job import Job
from scheduler.domain.placement import Blocked, Placement
from scheduler.domain.plan import Promise, Start, Stop
from scheduler.domain.snapshot import Snapshot
from scheduler.engine.choosing import DEFAULT_RULES, FIRST_FIT, Rules
from scheduler.engine.placing import place_gang
from scheduler.engine.standing import Standing
from scheduler.engine.waiting import Kind, Waiting, Walk
from scheduler.policies.interface import Offer, Policy


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
    blocked: dict[JobId, Blocked] = field(default_factory=dict)
    alike: dict[Kind, Blocked] = field(default_factory=dict)
    stuck: dict[QueueName, JobId] = field(default_factory=dict)
    settled: set[JobId] = field(default_factory=set)
    """Jobs that have had their answer before the walk."""
    has_changed: bool = False
    """Something was taken or let go: the standing's parked answers do not hold here."""
    parked: dict[int, Blocked] = field(default_factory=dict)
    """Equal requests get one answer as long as what is free only shrinks."""

    @property
    def rules(self) -> Rules:
        """How gangs are placed."""
        return FIRST_FIT if self.snapshot.knobs.first_fit else DEFAULT_RULES

    def place(self, waiting: Waiting) -> Placement | Blocked:
        """Where the gang fits now, or why nowhere; whether the policy likes it is not asked."""
        number = waiting.kind.request
        known = self.parked.get(number)
        if known is None and not self.has_changed:
            known = self.standing.parked.get(number)
        if known is None:
            answer = place_gang(waiting.request, self.standing.free, self.rules)
            if isinstance(answer, Placement):
                return answer
            known = answer
        self.parked[number] = known
        return known

    def accepts(self, waiting: Waiting, placement: Placement) -> bool:
        """Whether the policy takes the offer; if not, its reason is the job's answer."""
        declined = self.policy.accept(waiting.job, Offer(placement=placement))
        if declined is not None:
            self.blocked[waiting.job.id] = declined
        return declined is None

    def begin(self, waiting: Waiting, placement: Placement) -> None:
        """The job starts there."""
        job = waiting.job
        self.standing.free.take(placement, waiting.request)
        self.has_changed = True
        self.start.append(Start(job_id=job.id, revision=job.revision, placement=placement))

    def refuse(self, waiting: Waiting, answer: Blocked) -> None:
        """All jobs of its kind wait, and need not be asked."""
        self.alike[waiting.kind] = answer
        self.walk.shut(waiting.kind)
