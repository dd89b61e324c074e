"""The clocks of jobs that decline offers: started and stopped when a cycle has done the rest.

declined, GPUs it could use stay idle       its clock runs until the next cycle
declined, others took them                  its clock stands
not offered anything                        its clock stands
"""

from scheduler.domain.instants import Instant
from scheduler.domain.patience import WaitEpisode
from scheduler.domain.placement import Placement
from scheduler.domain.plan import Wait
from scheduler.engine.placing import place_gang
from scheduler.engine.scratch import Scratch
from scheduler.engine.waiting import Waiting
from scheduler.policies.interface import Patience


def keep_clocks(scratch: Scratch, patience: Patience) -> None:
    """Note in the plan which clocks start, stop or are new; and when the first one expires."""
    keeper = _Keeper(scratch, patience)
    for job_id in scratch.declined:
        keeper.declined(scratch.standing.line[job_id])
    noted = scratch.declined.keys() | scratch.waits.keys()
    for job_id in sorted(scratch.standing.ticking - noted - scratch.leaves_line()):
        keeper.not_declined(scratch.standing.line[job_id])


class _Keeper:
    """Of one cycle."""

    def __init__(self, scratch: Scratch, patience: Patience) -> None:
        self._scratch = scratch
        self._patience = patience
        self._now: Instant = scratch.snapshot.now
        self._idle: dict[int, bool] = {}

    def declined(self, waiting: Waiting) -> None:
        """The job could start and does not want to."""
        episode = self._patience.episode(waiting.job)
        runs = self._patience.runs(
            waiting.job, is_declined=True, leaves_idle=self._leaves_idle(waiting)
        )
        self._note(waiting, episode.running(self._now) if runs else episode.standing(self._now))
        if runs:
            at = self._patience.expires_at(waiting.job, self._scratch.declined[waiting.job.id])
            if at is not None:
                self._scratch.wake_at(at)

    def not_declined(self, waiting: Waiting) -> None:
        """Its clock runs, and nothing was offered."""
        episode = waiting.job.waiting
        assert episode is not None
        if not self._patience.runs(waiting.job, is_declined=False, leaves_idle=False):
            self._note(waiting, episode.standing(self._now))

    def _note(self, waiting: Waiting, episode: WaitEpisode) -> None:
        job = waiting.job
        if episode != job.waiting:
            self._scratch.waits[job.id] = Wait(
                job_id=job.id, revision=job.revision, episode=episode
            )

    def _leaves_idle(self, waiting: Waiting) -> bool:
        """Whether the whole gang would still find GPUs after this cycle."""
        if not self._scratch.has_changed:
            return True
        number = waiting.kind.request
        known = self._idle.get(number)
        if known is None:
            answer = place_gang(waiting.request, self._scratch.standing.free)
            known = self._idle[number] = isinstance(answer, Placement)
        return known
