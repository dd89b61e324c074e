"""The jobs a killed server is in the middle of, and what must have become of each in the end."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.ports.kill_points import KillPoint

STARTED = 'echo "$DALLY_JOB_NAME $DALLY_ATTEMPT $DALLY_RANK $$" >> "$LEDGER"'
"""What every worker does first: a line of a few bytes is appended whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """One job: what it does, and how it ends however often its server is killed."""

    script: str
    """Run by each worker, after it has written itself into the ledger."""
    phase: str
    attempts: int
    """Besides those that are stopped for others."""
    losses: int = 0
    """Attempts among them that the story itself loses to the cluster."""
    spec: Mapping[str, object] = field(default_factory=dict)
    is_cancelled: bool = False
    """The client cancels it once it runs, then once more with `now`."""
    comes_after: str = ""
    """Submitted once a job of that story runs, which it then takes the GPUs from."""


STORIES: Mapping[str, Story] = {
    "runs": Story(script="sleep 0.2", phase="Succeeded", attempts=1, spec={"workers": 2}),
    "fails": Story(
        script="sleep 0.1; [ $DALLY_RANK = 0 ] || sleep 60; exit 1",
        phase="Failed",
        attempts=2,
        spec={"workers": 2, "failurePolicy": {"maxRestarts": 1}},
    ),
    "ends-apart": Story(
        # Further than what the loop waits for the ends of the others.
        script="sleep $((2 * (1 - DALLY_RANK))).3",
        phase="Succeeded",
        attempts=1,
        spec={"workers": 2},
    ),
    "stays": Story(
        script="trap '' TERM; while :; do sleep 0.1; done",
        phase="Cancelled",
        attempts=1,
        spec={"checkpoint": {"grace": "1h"}},
        is_cancelled=True,
    ),
    "gives-way": Story(
        script="sleep 1.5",
        phase="Succeeded",
        attempts=1,
        spec={"workers": 2, "gpusPerWorker": 32},
    ),
    "barges-in": Story(script="sleep 0.2", phase="Succeeded", attempts=1, comes_after="gives-way"),
    "loses-supervisor": Story(
        script="[ $DALLY_ATTEMPT = 0 ] || exit 0; kill -9 $PPID; sleep 60",
        phase="Succeeded",
        attempts=2,
        losses=1,
    ),
}

BY_STORY: Mapping[str, tuple[str, ...]] = {
    "submit": ("runs",),
    "store": ("runs",),
    "launch": ("runs",),
    "run": ("runs", "fails", "ends-apart"),
    "cancel": ("stays",),
    "local": ("runs", "stays"),
    "kubernetes": ("fails", "stays"),
}
"""Jobs by which the points of a story are reached."""


def jobs_for(point: KillPoint) -> tuple[str, ...]:
    """The jobs that lead a server to that point."""
    if point in {KillPoint.RUN_BEFORE_PREEMPT, KillPoint.RUN_AFTER_PREEMPT}:
        return ("gives-way", "barges-in")
    if point in {KillPoint.LOCAL_BEFORE_LOST, KillPoint.LOCAL_AFTER_LOST}:
        return ("loses-supervisor",)
    return BY_STORY[point.partition(".")[0]]


def times_of(point: KillPoint) -> int:
    """At which visit to die: a server commits a few times before it takes any request."""
    return 8 if point in {KillPoint.STORE_BEFORE_COMMIT, KillPoint.STORE_AFTER_COMMIT} else 1


def points() -> Iterator[KillPoint]:
    """Every point a server with the local executor comes to."""
    yield from (point for point in KillPoint if not point.startswith("kubernetes."))


def points_in_pods() -> Iterator[KillPoint]:
    """Every point of the launch and stop protocols that a server over Kubernetes comes to."""
    stops = {"worker_end", "stopping", "restart", "end", "forget"}
    for point in KillPoint:
        story, step, _ = point.split(".")
        if story in {"launch", "cancel", "kubernetes"} or (story == "run" and step in stops):
            yield point
