"""What is kept of a real run and its replays: enough to replay it, and no path of a machine."""

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

from bench.study.live.workload import PacedJob
from scheduler.domain.codec import DecodeError, from_json, to_json
from scheduler.domain.snapshot import Snapshot


class BrokenRecordError(Exception):
    """The file is no record of a real run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One job from its submission to its end, in either world. Seconds since the first one came."""

    name: str
    submitted_s: float
    first_start_s: float
    """When it first got slots."""
    end_s: float
    held_s: float
    """All the time it held slots."""
    stepping_s: float
    """The part of it in which it took steps."""
    attempts: int
    tiers: tuple[str, ...]
    """Of each attempt; in a replay of the first one only."""
    nodes: tuple[str, ...]
    """Of the workers of the first attempt, in order."""

    def is_on_nodes_of(self, other: "Life") -> bool:
        """Whether both start with as many workers on each node."""
        return sorted(self.nodes) == sorted(other.nodes)

    @property
    def jct_s(self) -> float:
        """End - submission."""
        return self.end_s - self.submitted_s

    @property
    def wait_s(self) -> float:
        """All the time it was there and held nothing."""
        return self.jct_s - self.held_s

    @property
    def overhead_s(self) -> float:
        """All the time it held slots and took no step."""
        return self.held_s - self.stepping_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """What `dally-sim from-live` said of one job in the middle of the run."""

    name: str
    is_running: bool
    at_s: float
    ends_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRun:
    """One real run."""

    seed: int
    machine: str
    cluster: Snapshot
    """Of the service before the first job came: its nodes, levels, queues and knobs."""
    jobs: tuple[PacedJob, ...]
    """As they were submitted, in that order."""
    ids: tuple[str, ...]
    """Of the same jobs: they break ties."""
    lives: tuple[Life, ...]
    """Of the same jobs, as they were lived."""
    starting_s: tuple[float, ...]
    """Of each attempt, from its slots to its first step."""
    ending_s: tuple[float, ...]
    """Of each attempt, from its last step to the end of its hold."""
    apart_s: tuple[float, ...]
    """Of each attempt of several workers, from the end of the first one to that of the last."""
    foretold: tuple[Foretold, ...]

    @property
    def policy(self) -> str:
        """What decided."""
        return self.cluster.knobs.policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What the simulator makes of a real run."""

    told: str
    """What it is told of starting and ending."""
    lives: tuple[Life, ...]
    """Of the same jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A real run and its replays, as of the code that made it."""

    run: LiveRun
    replays: tuple[Replay, ...]


def read(file: Path) -> Record | None:
    """What the file holds; None if there is none. Raises BrokenRecordError."""
    if not file.exists():
        return None
    try:
        return from_json(Record, file.read_text(encoding="utf-8"))
    except (DecodeError, UnicodeDecodeError) as error:
        raise BrokenRecordError(f"{file} is no record of a real run: {error}") from error


def prepare(file: Path) -> None:
    """See that a record can be kept there, before it has cost minutes to make. Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=file.parent):
        pass


def write(record: Record, file: Path) -> None:
    """Keep it where that was prepared."""
    file.write_text(to_json(record) + "\n", encoding="utf-8")
