"""What a simulated world is made of: jobs with their true work, costs of starting and stopping."""

from dataclasses import dataclass

from scheduler.domain.communication import CommunicationProfile
from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import JobId
from scheduler.domain.instants import SECOND, Duration, Instant
from scheduler.domain.job import JobSpec

NOTHING = Duration(0)


@quickly_made
@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedJob:
    """A job as the world knows it. What a policy may see of it stands in its spec alone."""

    id: JobId
    name: str
    arrival: Instant
    work: Duration
    """Time it needs alone at its closest tier on an idle network, without any cost of starting."""
    gpus: int
    spec: JobSpec
    recorded_as: str = ""
    """Its name in the trace."""
    model: str = ""
    """The model its profile is of: one name, one profile. Empty with the network model off."""
    profile: CommunicationProfile | None = None
    """Its true network profile; None with the network model off, or if nobody knows it."""

    def __post_init__(self) -> None:
        assert self.work > 0, self.id


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What starting and stopping a gang costs."""

    start_up: Duration = Duration(10 * SECOND)
    """From the release of a gang until its containers run."""
    restore: Duration = Duration(20 * SECOND)
    """A run that is not the first one loads its checkpoint for so long before it goes on."""
    checkpoint_every: Duration = Duration(600 * SECOND)
    """A running gang saves its progress so often; 0: at every instant."""
    save: Duration = NOTHING
    """What an eviction with notice takes to save progress; then nothing is lost by it."""
    saves_when_told: bool = False
    """Whether an evicted gang saves; else it loses what it did since its last checkpoint."""
    ends_apart: Duration = NOTHING
    """When its work is done rank 0 ends so much later than the others, whose GPUs are free then."""

    def __post_init__(self) -> None:
        times = (self.start_up, self.restore, self.checkpoint_every, self.save, self.ends_apart)
        assert all(time >= 0 for time in times), self


NO_COSTS = Costs(
    start_up=NOTHING,
    restore=NOTHING,
    checkpoint_every=NOTHING,
    save=NOTHING,
    saves_when_told=True,
)
