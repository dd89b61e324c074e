"""`gandiva`, after W. Xiao et al., OSDI 2018: GPUs are shared by time, in turns.

A gang runs undisturbed for a slice (`time_slice`) at least. When the slice ends that began while it
ran, it stands behind everybody who has come before, and goes if one of them fits where it runs.
Gangs move when closer GPUs are free. Of GPUs nothing is shared by two jobs at once (no packing),
and the nodes are chosen as for all policies: where a gang fits tightest, which keeps gangs of one
size together.
"""

from collections.abc import Hashable

from scheduler.domain.instants import Duration, Instant, after
from scheduler.domain.job import Job
from scheduler.domain.snapshot import RunningGang
from scheduler.policies.interface import Key, Moves, Ranks
from scheduler.policies.las import RUNNING, WAITING
from scheduler.policies.moves import Moves as NetworkMoves
from scheduler.policies.reranked import Reranked
from scheduler.policies.sensitive_order import SensitiveOrder


class Gandiva(Reranked):
    """`gandiva`."""

    @property
    def order_version(self) -> Hashable:
        """A waiting job keeps its turn."""
        return "gandiva"

    @property
    def ranks(self) -> Ranks:
        """This policy."""
        return self

    @property
    def moves(self) -> Moves:
        """Gangs move when closer GPUs are free."""
        return NetworkMoves(self.snapshot, SensitiveOrder(self.snapshot))

    def key(self, job: Job) -> Key:
        """See Orders: who has waited longest since its last slice goes first."""
        turn = job.submitted_at if job.last_placed_at is None else job.phase_since
        return (-job.priority, turn, WAITING, job.submitted_at, job.id)

    def rank(self, gang: RunningGang) -> Key:
        """See Ranks: as if it had come when its last slice ended."""
        job = gang.job
        turn = self._slice_began_at if self.may_stop(gang) else _began_at(gang)
        return (-job.priority, turn, RUNNING, job.submitted_at, job.id)

    def may_stop(self, gang: RunningGang) -> bool:
        """When it has run for a whole slice at least."""
        if gang.attempt.running_since is None:
            return False
        return self._slice_began_at - _began_at(gang) >= self._slice

    def next_decision_at(self) -> Instant | None:
        """When the present slice ends, if anybody waits."""
        if not self.snapshot.pending:
            return None
        return after(self._slice_began_at, self._slice)

    @property
    def _slice(self) -> Duration:
        return Duration(max(1, self.snapshot.knobs.time_slice))

    @property
    def _slice_began_at(self) -> Instant:
        """Slices of all gangs begin and end together."""
        return Instant(self.snapshot.now // self._slice * self._slice)


def _began_at(gang: RunningGang) -> Instant:
    return gang.attempt.running_since or gang.attempt.created_at
