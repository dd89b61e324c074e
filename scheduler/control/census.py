"""How many jobs, reasons and GPUs there are of each kind: numbers for operators, told on change."""

from collections import Counter
from collections.abc import Mapping

from scheduler.control.cluster_watch import ClusterWatch
from scheduler.control.live_jobs import LiveJobs
from scheduler.domain.explain import verdict
from scheduler.domain.ids import JobId
from scheduler.domain.placement import Blocked
from scheduler.ports.event_sink import EventSink


class Census:
    """Counts and tells; a count that falls to zero is told once more."""

    def __init__(self, sink: EventSink) -> None:
        self._sink = sink
        self._told: dict[tuple[str, str, str], int] = {}
        self._fragmentation_told: float | None = None

    def take(self, live: LiveJobs, watch: ClusterWatch, blocked: Mapping[JobId, Blocked]) -> None:
        """Tell every count that has changed."""
        counts: Counter[tuple[str, str, str]] = Counter()
        for job in live.pending.values():
            counts["jobs", job.spec.queue, job.phase] += 1
        for held in live.attempts.values():
            counts["jobs", held.job.spec.queue, held.job.phase] += 1
        for reason in blocked.values():
            counts["pending", verdict(reason), type(reason).__name__] += 1
        self._count_gpus(counts, live, watch)
        for key in sorted(set(self._told) | set(counts)):
            if self._told.get(key, 0) != counts[key]:
                kind, one, other = key
                self._sink.emit("counted", {"what": kind, "of": one, "is": other, "n": counts[key]})
        self._told = {key: count for key, count in counts.items() if count}
        ratio = _fragmentation(counts, live)
        if ratio != self._fragmentation_told:
            self._sink.emit("fragmented", {"ratio": ratio})
            self._fragmentation_told = ratio

    def _count_gpus(
        self, counts: Counter[tuple[str, str, str]], live: LiveJobs, watch: ClusterWatch
    ) -> None:
        held: Counter[str] = Counter()
        for attempt in live.attempts.values():
            for reservation in attempt.reservations:
                held[reservation.node] += reservation.gpus
        for node in watch.nodes:
            in_use = held[node.name]
            counts["gpus", node.gpu_model, "total"] += node.gpus
            counts["gpus", node.gpu_model, "allocated"] += in_use
            is_usable = node.is_ready and not node.is_cordoned
            rest = max(0, node.gpus - in_use)
            counts["gpus", node.gpu_model, "idle" if is_usable else "unhealthy"] += rest


def _fragmentation(counts: Mapping[tuple[str, str, str], int], live: LiveJobs) -> float:
    """Share of the usable GPUs that are free though the smallest waiting job asks for no more."""
    state = Counter[str]()
    for (what, _, name), count in counts.items():
        if what == "gpus":
            state[name] += count
    usable = state["idle"] + state["allocated"]
    smallest = min((job.spec.gpus for job in live.pending.values() if job.spec.gpus), default=0)
    return state["idle"] / usable if 0 < smallest <= state["idle"] else 0.0
