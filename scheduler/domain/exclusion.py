"""Nodes that are left alone for a while, since they did not take workers or let gangs fail."""

from dataclasses import dataclass

from scheduler.domain.instants import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusion:
    """Why a node gets no new workers for a while; kept in the store until that is over."""

    reason: str
    """A word, e.g. `SuspectNode`."""
    since: Instant
    until: Instant
    is_for_programs: bool = False
    """For errors of programs alone, which may be those of the programs: few nodes at a time."""
    cleared_by: str = ""
    """The admin who has ended it early; empty while nobody has."""
    cleared_at: Instant | None = None

    def holds(self, now: Instant) -> bool:
        """Whether the node is left alone now."""
        return self.cleared_at is None and now < self.until
