"""How long the executor keeps what gangs leave behind: logs, working folders, checkpoints."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from scheduler.adapters.local import folders
from scheduler.adapters.local.folders import GangFolder, Layout
from scheduler.domain.instants import DAY, Duration, Instant
from scheduler.ports.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """What may stay, and for how long."""

    attempts_for: Duration = Duration(7 * DAY)
    """Logs and working folder of an attempt that is over."""
    attempts_bytes_max: int = 4 << 30
    """All of them together; the oldest go first. Attempts that are not over do not count."""
    checkpoints_for: Duration = Duration(30 * DAY)
    """Checkpoints in the job's own folder, after the last attempt of the job was removed."""


class Retention:
    """Removes what has been kept long enough or takes too much room. Only forgotten attempts go."""

    def __init__(self, layout: Layout, limits: RetentionLimits, clock: Clock) -> None:
        self._layout = layout
        self._limits = limits
        self._clock = clock
        self._sizes: dict[Path, int] = {}
        """Bytes in the folders of attempts that are over and so do not grow any more."""

    def sweep(self) -> None:
        """Remove what may not stay."""
        present = self._clock.now()
        kept_bytes = 0
        for gang, forgotten_at in self._newest_first():
            kept_bytes += self._size(gang.path)
            is_old = forgotten_at < present - self._limits.attempts_for
            if is_old or kept_bytes > self._limits.attempts_bytes_max:
                kept_bytes -= self._sizes.pop(gang.path)
                shutil.rmtree(gang.path, ignore_errors=True)
        self._sweep_jobs(present)

    def _sweep_jobs(self, present: Instant) -> None:
        used = {gang.attempt.job_id for gang in self._layout.gangs()}
        for job in self._layout.jobs.iterdir():
            if job.name in used:
                continue
            changed_at = max(_changed_at(path) for path in (job, *job.rglob("*")))
            if changed_at < present - self._limits.checkpoints_for:
                shutil.rmtree(job, ignore_errors=True)

    def _newest_first(self) -> list[tuple[GangFolder, int]]:
        forgotten = [
            (gang, _changed_at(gang.path / folders.FORGOTTEN))
            for gang in self._layout.gangs()
            if gang.is_forgotten()
        ]
        return sorted(forgotten, key=lambda found: (-found[1], found[0].attempt))

    def _size(self, path: Path) -> int:
        if path not in self._sizes:
            files = (file for file in path.rglob("*") if not file.is_symlink() and file.is_file())
            self._sizes[path] = sum(file.stat().st_size for file in files)
        return self._sizes[path]


def _changed_at(path: Path) -> int:
    return path.lstat().st_mtime_ns // 1000
