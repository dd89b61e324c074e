"""Who meets in a cell: every policy as it is, and ours with one part off."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from bench.study.conditions import Cell
from scheduler.domain.instants import HOUR, SECOND, Duration
from scheduler.domain.knobs import JobOrder, NetworkMoves, Timers, WaitClock
from scheduler.policies.registry import POLICIES
from simulator.fabric import NetworkOptions
from simulator.profiles import ProfileView
from simulator.staging import KNOW_LENGTHS, RunOptions
from simulator.world import Costs

OURS = "dally"
LEARNS = "gittins"
"""In the name of a rival that learns lengths as ours does."""
PAST_KNOWN = "[past known]"
"""Ends the name of a variant on a cluster that has run the other jobs of the trace before."""
JITTER = 0.05

STUDY_KNOBS: Mapping[str, object] = {
    "preemption": NetworkMoves.ON,
    "upgrades": NetworkMoves.ON,
    "order_stops": True,
}
"""Live defaults are gentler: moves for the network's sake inside a queue only."""

SUSPENDING = frozenset({"gandiva", "themis", "tiresias", "tiresias-gittins"})
"""They stop gangs every few minutes, and by their papers save what a gang has done as they do. With
what is lost since a checkpoint that is up to ten minutes old, their gangs would never end."""

SAVES_AS_IT_STOPS = Costs(saves_when_told=True, save=Duration(5 * SECOND))


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A policy with what it is told and what differs in its world."""

    name: str
    policy: str
    view: ProfileView = ProfileView.NOISY
    costs: Costs = Costs()  # noqa: RUF009 - frozen
    knobs: Mapping[str, object] = field(default_factory=dict)
    is_ablation: bool = False
    knows_past: bool = False
    """Whether the cluster has run the other jobs of the trace before, and knows their lengths."""

    @property
    def knows_lengths(self) -> bool:
        """Whether it is told how long jobs run: a bound, not a rival."""
        return self.policy in KNOW_LENGTHS

    def options(self, cell: Cell, seed: int) -> RunOptions:
        """Of one run."""
        return RunOptions(
            policy=self.policy,
            seed=seed,
            network=NetworkOptions(congestion=cell.congestion, jitter=JITTER),
            view=self.view,
            costs=self.costs,
            faults=cell.faults(),
            knobs={**STUDY_KNOBS, **self.knobs},
        )


def variants() -> tuple[Variant, ...]:
    """Every policy as it is."""
    return tuple(
        Variant(
            name=name,
            policy=name,
            costs=SAVES_AS_IT_STOPS if name in SUSPENDING else Costs(),
        )
        for name in sorted(POLICIES)
    )


PARTS: Mapping[str, Mapping[str, object]] = {
    # What the paper's claim rests on: gangs wait, each by its own number.
    "nobody waits": {"timers": Timers.ZERO},
    "everybody waits": {"timers": Timers.INFINITE},
    "timers by value alone": {"timers": Timers.VALUE},
    "naive tuner": {"timers": Timers.NAIVE},
    "clock declined": {"clock": WaitClock.DECLINED},
    "clock pending": {"clock": WaitClock.PENDING},
    "moves do not cap timers": {"moves_cap_timers": False},
    "links count as free": {"crowding_weight": 0.0},
    "nobody stopped for the order": {"order_stops": False},
    "order las": {"order": JobOrder.LAS},
    "order n1": {"order": JobOrder.N1},
    "preemption off": {"preemption": NetworkMoves.OFF},
    "upgrades off": {"upgrades": NetworkMoves.OFF},
    "no large-gang hold": {"hold_after": Duration(0)},
    # Numbers at half and double.
    "timer quantile 0.45": {"timer_quantile": 0.45},
    "crowding halved": {"crowding_weight": 0.5},
    "crowding doubled": {"crowding_weight": 2.0},
    "margin doubled": {"preemption_margin": 0.2},
    "benefit halved": {"benefit_min": 1.0},
    "benefit doubled": {"benefit_min": 4.0},
    "hold after halved": {"hold_after": Duration(12 * HOUR)},
    "hold after doubled": {"hold_after": Duration(48 * HOUR)},
    "residual halved": {"residual_default": Duration(3 * HOUR)},
    "residual doubled": {"residual_default": Duration(12 * HOUR)},
}
"""Parts of ours that are off or another, by name."""


def ablations() -> tuple[Variant, ...]:
    """Ours with one part off, one thing less known, one number changed."""
    ours = Variant(name=OURS, policy=OURS, is_ablation=True)
    made = [
        replace(ours, name=f"{OURS}[profiles={view}]", view=view)
        for view in ProfileView
        if view is not ProfileView.NOISY
    ]
    made += [replace(ours, name=f"{OURS}[{name}]", knobs=knobs) for name, knobs in PARTS.items()]
    for cost_s in (0, 30, 250):
        costs = Costs(restore=Duration(cost_s * SECOND))
        for each in (ours, Variant(name="las", policy="las", is_ablation=True)):
            made.append(replace(each, name=f"{each.policy}[restore={cost_s}s]", costs=costs))
    return tuple(made)


def knowing_variants() -> tuple[Variant, ...]:
    """Ours, and the rival that learns lengths as ours does, on a cluster that has run for long."""
    return tuple(
        Variant(name=f"{name}{PAST_KNOWN}", policy=name, is_ablation=True, knows_past=True)
        for name in (OURS, "gittins-consolidated")
    )
