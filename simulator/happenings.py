"""What the agenda holds: jobs that arrive, gangs and nodes that change by themselves."""

from dataclasses import dataclass

from scheduler.domain.copying import quickly_made
from scheduler.domain.ids import NodeName
from scheduler.domain.reservation import AttemptKey
from simulator.world import SimulatedJob


@quickly_made
@dataclass(frozen=True, slots=True)
class Arrives:
    """A job is submitted."""

    job: SimulatedJob


@quickly_made
@dataclass(frozen=True, slots=True)
class StartsUp:
    """The containers of a gang are up."""

    attempt: AttemptKey


@quickly_made
@dataclass(frozen=True, slots=True)
class Ends:
    """A gang has done its work, unless its plan has changed since."""

    attempt: AttemptKey
    version: int


@dataclass(frozen=True, slots=True)
class Leaves:
    """A gang that was told to stop is gone."""

    attempt: AttemptKey
    version: int
    killed: bool


@dataclass(frozen=True, slots=True)
class NodeFails:
    """A node stops working."""

    node: NodeName


@dataclass(frozen=True, slots=True)
class NodeReturns:
    """A node works again."""

    node: NodeName


GangHappening = StartsUp | Ends | Leaves
NodeHappening = NodeFails | NodeReturns
Happening = Arrives | GangHappening | NodeHappening
