"""The lease of the leader: when to renew it, when a challenger may take it, when to stop acting.

Nobody compares wall clocks: a challenger takes over once it has seen the same row for `ttl_s` on
its own monotonic clock. The lease only decides who tries; the epoch in every unit decides who may.
"""

from dataclasses import dataclass

from scheduler.domain.ids import Epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRow:
    """The stored lease."""

    holder: str
    """Empty while nobody holds it."""
    epoch: Epoch
    renewals: int


NOBODY = LeaseRow(holder="", epoch=Epoch(0), renewals=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTimes:
    """Lengths of a lease on the monotonic clock of each process, in seconds."""

    ttl_s: float = 15.0
    """A challenger takes over a lease that it has seen unchanged for so long."""
    act_s: float = 10.0
    """A leader stops acting so long after its last renewal."""
    renew_s: float = 2.0
    """A leader renews when its last renewal is so old."""

    def __post_init__(self) -> None:
        assert 0 <= self.renew_s < self.act_s < self.ttl_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """A lease as a challenger saw it, and since when it has looked like that."""

    row: LeaseRow
    since_s: float

    def updated(self, row: LeaseRow, *, now_s: float) -> "Sighting":
        """This sighting after looking again."""
        return self if row == self.row else Sighting(row=row, since_s=now_s)

    def may_take(self, times: LeaseTimes, *, now_s: float) -> bool:
        """Whether the lease is free or its holder has failed to renew it."""
        return self.row.holder == "" or now_s - self.since_s >= times.ttl_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """What a leader knows of its own lease."""

    epoch: Epoch
    renewed_s: float
    """When it last asked for the renewal that it got."""
    renewals: int = 0
    """How many it knows of."""
