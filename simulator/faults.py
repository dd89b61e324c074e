"""Node failures, repairs and slow nodes, drawn from the run's one seed.

Every node has its own stream of chance, named by the seed and the node, so that another policy or
another number of jobs meets the same failures at the same instants.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

from scheduler.domain.ids import NodeName
from scheduler.domain.instants import HOUR, Duration, Instant
from scheduler.domain.placement import Placement
from scheduler.domain.reservation import AttemptKey
from simulator.agenda import Agenda, Kind
from simulator.happenings import Happening, NodeFails, NodeReturns
from simulator.speeds import Change, Speed, Speeds
from simulator.world import SimulatedJob


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions:
    """What may go wrong with nodes."""

    node_mtbf: Duration | None = None
    """Mean working time of one node between failures (exponential); None: nodes do not fail."""
    repair_mean: Duration = Duration(4 * HOUR)
    """Mean time a failed node is away (exponential)."""
    slow_share: float = 0.0
    """Chance of a node to be slow for the whole run."""
    slow_factor: float = 1.5
    """Step time on a slow node / step time on another one, without communication."""

    def __post_init__(self) -> None:
        assert self.node_mtbf is None or self.node_mtbf > 0
        assert self.repair_mean > 0
        assert 0 <= self.slow_share <= 1
        assert self.slow_factor >= 1


NO_FAULTS = FaultOptions()


class Failures:
    """Puts failures and repairs on the agenda, one ahead for each node."""

    def __init__(self, options: FaultOptions, *, seed: int) -> None:
        self._options = options
        self._seed = seed
        self._rngs: dict[NodeName, Random] = {}

    def begin(self, nodes: Iterable[NodeName], agenda: "Agenda[Happening]", *, at: Instant) -> None:
        """The first failure of each node."""
        for node in sorted(nodes):
            self._rngs[node] = Random(f"{self._seed}/fault/{node}")
            self._put_failure(node, agenda, at)

    def follow(self, happening: Happening, agenda: "Agenda[Happening]", *, at: Instant) -> None:
        """What a failure or a return brings about later."""
        match happening:
            case NodeFails(node):
                away = self._rngs[node].expovariate(1 / self._options.repair_mean)
                agenda.put(Instant(at + 1 + round(away)), Kind.NODE, NodeReturns(node))
            case NodeReturns(node):
                self._put_failure(node, agenda, at)
            case _:
                return

    def _put_failure(self, node: NodeName, agenda: "Agenda[Happening]", at: Instant) -> None:
        if self._options.node_mtbf is not None:
            works = self._rngs[node].expovariate(1 / self._options.node_mtbf)
            agenda.put(Instant(at + 1 + round(works)), Kind.NODE, NodeFails(node))


def slow_nodes(
    nodes: Iterable[NodeName], options: FaultOptions, *, seed: int
) -> Mapping[NodeName, float]:
    """The slow nodes and how much longer a step takes there."""
    return {
        node: options.slow_factor
        for node in sorted(nodes)
        if Random(f"{seed}/slow/{node}").random() < options.slow_share
    }


class WithSlowNodes:
    """Speeds on a cluster with slow nodes: a gang's compute is as slow as its slowest node."""

    def __init__(self, speeds: Speeds, factors: Mapping[NodeName, float]) -> None:
        self._speeds = speeds
        self._factors = factors
        self._slowed: dict[AttemptKey, float] = {}

    def begin(
        self, attempt: AttemptKey, job: SimulatedJob, placement: Placement
    ) -> Iterable[Change]:
        """See Speeds."""
        factor = max(self._factors.get(each.node, 1.0) for each in placement.assignments)
        if factor > 1:
            self._slowed[attempt] = factor
        return self._adjusted(self._speeds.begin(attempt, job, placement))

    def end(self, attempt: AttemptKey) -> Iterable[Change]:
        """See Speeds."""
        self._slowed.pop(attempt, None)
        return self._adjusted(self._speeds.end(attempt))

    def _adjusted(self, changes: Iterable[Change]) -> list[Change]:
        return [
            replace(change, speed=slowed(change.speed, self._slowed[change.attempt]))
            if change.attempt in self._slowed
            else change
            for change in changes
        ]


def slowed(speed: Speed, factor: float) -> Speed:
    """The speed of a gang whose compute takes `factor` times as long; communication stays."""
    step = 1 + (factor - 1) * (1 - speed.exposed)
    return Speed(speed.progress / step, speed.exposed / step, speed.step_s * step)
