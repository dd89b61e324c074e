"""What the loop needs of the outside, in one hand."""

from dataclasses import dataclass

from scheduler.domain.errors import LeaseLapsedError
from scheduler.domain.snapshot import Lengths, Measurements
from scheduler.engine.ladders import Ladders, StepTimesMaker
from scheduler.ports.clock import Clock
from scheduler.ports.cluster import Cluster
from scheduler.ports.event_sink import EventSink
from scheduler.ports.job_store import JobStore
from scheduler.ports.leadership import Leadership


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """The ports of the loop."""

    store: JobStore
    cluster: Cluster
    leadership: Leadership
    clock: Clock
    sink: EventSink
    is_listened_to: bool = True
    """Whether the sink has listeners; else the facts of each move need not be gathered."""
    lengths: Lengths | None = None
    """Told to policies in each snapshot."""
    measured: Measurements | None = None
    """As well; None: what jobs report, as the store has it."""
    step_times: StepTimesMaker = Ladders
    """What distance costs on the cluster."""

    def acting_cluster(self) -> Cluster:
        """The cluster, to ask something of it. Raises LeaseLapsedError unless this is the leader.

        The store guards itself by the epoch of each write; the cluster can not.
        """
        if not self.leadership.is_leader():
            raise LeaseLapsedError
        return self.cluster
