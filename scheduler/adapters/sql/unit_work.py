"""One unit while it is written: its connection, its sequence numbers, the jobs it touches."""

from dataclasses import dataclass, field

from sqlalchemy import Connection

from scheduler.domain.ids import JobId, Sequence


@dataclass(slots=True)
class UnitWork:
    """A unit inside its savepoint."""

    connection: Connection
    sequence: Sequence
    """The last number given to a row of this unit."""
    last: Sequence
    """The number of the unit itself: the last of its numbers, known from the start."""
    touched: set[JobId] = field(default_factory=set)
    """Jobs whose rows still have to be marked as changed by this unit."""

    def next_sequence(self) -> Sequence:
        """The number of one more row."""
        self.sequence = Sequence(self.sequence + 1)
        return self.sequence
