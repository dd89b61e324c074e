"""Which gangs are other ones than last time: asked in each decision, so in few machine words each.

Whatever becomes known of a gang or its job makes another record: it goes, and comes as a new one.
"""

from collections.abc import Sequence
from itertools import compress
from operator import attrgetter, is_, not_

from scheduler.domain.ids import JobId
from scheduler.domain.snapshot import RunningGang

_id_of = attrgetter("job.id")


class KnownGangs:
    """The records of the last snapshot. Mutable: it follows the snapshots it is shown."""

    def __init__(self) -> None:
        self._gangs: dict[JobId, RunningGang] = {}

    def get(self, job_id: JobId) -> RunningGang | None:
        """The record of a gang; None if it is not known."""
        return self._gangs.get(job_id)

    def clear(self) -> None:
        """Nothing is known."""
        self._gangs.clear()

    def take_gone(self, holding: Sequence[RunningGang]) -> list[JobId]:
        """Those that are not among `holding` as they are known; they are known no longer."""
        gangs = self._gangs
        ids = list(map(_id_of, holding))
        gone = list(gangs.keys() - set(ids))
        is_same = map(is_, map(gangs.get, ids), holding)
        gone += [job_id for job_id in compress(ids, map(not_, is_same)) if job_id in gangs]
        for job_id in gone:
            del gangs[job_id]
        return gone

    def take_new(self, holding: Sequence[RunningGang]) -> list[RunningGang]:
        """Those of `holding` that are not known; from now on they are."""
        gangs = self._gangs
        new = [gang for gang in holding if gang.job.id not in gangs]
        for gang in new:
            gangs[gang.job.id] = gang
        return new
