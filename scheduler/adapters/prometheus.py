"""What the loop and the API tell, as metrics by name. No job, user or pod is ever a label."""

from collections.abc import Callable, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

Facts = Mapping[str, str | int | float | bool | None]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_WAITS_S: Final = (1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0)
_SIZE_CLASSES: Final = ((0, "0"), (1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"))


class Metrics:
    """All metrics of one process; an EventSink, and what counts requests."""

    def __init__(self, *, version: str) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._jobs = Gauge("dally_jobs", "Live jobs", ["queue", "state"], registry=registry)
        self._pending = Gauge("dally_pending_reason", "Waiting jobs", ["reason"], registry=registry)
        self._gpus = Gauge("dally_gpus", "GPUs", ["state", "product"], registry=registry)
        self._leader = Gauge("dally_leader", "Whether this process leads", registry=registry)
        self._epoch = Gauge("dally_leader_epoch", "Its leadership term", registry=registry)
        self._waits = Histogram(
            "dally_job_queue_seconds",
            "Time in the queue until placed",
            ["queue", "gpus"],
            buckets=_WAITS_S,
            registry=registry,
        )
        self._rounds = Histogram(
            "dally_scheduling_round_seconds",
            "Time of one decision",
            buckets=_SECONDS,
            registry=registry,
        )
        self._ends = Counter("dally_attempts", "Ended attempts", ["outcome"], registry=registry)
        self._failures = Counter(
            "dally_attempt_failures",
            "Attempts that ended in failure",
            ["reason"],
            registry=registry,
        )
        self._preemptions = Counter(
            "dally_preemptions", "Evicted gangs", ["reason"], registry=registry
        )
        self._errors = Counter(
            "dally_loop_troubles", "Ticks cut short", ["reason"], registry=registry
        )
        self._requests = Counter(
            "dally_http_requests", "Requests", ["route", "method", "code"], registry=registry
        )
        self._request_seconds = Histogram(
            "dally_http_request_seconds",
            "Time of a request",
            ["route"],
            buckets=_SECONDS,
            registry=registry,
        )
        Gauge("dally_build_info", "What runs", ["version"], registry=registry).labels(version).set(
            1
        )
        self._takers: Mapping[str, Callable[[Facts], None]] = {
            "counted": self._counted,
            "leadership": self._leadership,
            "cycle_decided": self._cycle_decided,
            "gang_placed": self._gang_placed,
            "gang_moved": self._gang_moved,
            "store_unavailable": lambda _: self._errors.labels("store_unavailable").inc(),
            "cluster_unavailable": lambda _: self._errors.labels("cluster_unavailable").inc(),
            "deposed": lambda _: self._errors.labels("deposed").inc(),
            "lease_lapsed": lambda _: self._errors.labels("lease_lapsed").inc(),
        }

    def emit(self, name: str, facts: Facts) -> None:
        """Count it, if it is counted."""
        taker = self._takers.get(name)
        if taker is not None:
            taker(facts)

    def observe_request(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """One request has been answered."""
        self._requests.labels(route, method, str(status)).inc()
        self._request_seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _counted(self, facts: Facts) -> None:
        number = _number(facts, "n")
        match facts["what"]:
            case "jobs":
                self._jobs.labels(facts["of"], facts["is"]).set(number)
            case "pending":
                self._pending.labels(facts["is"]).set(number)
            case "gpus":
                self._gpus.labels(facts["is"], facts["of"]).set(number)
            case other:
                raise AssertionError(f"nobody counts {other}")

    def _leadership(self, facts: Facts) -> None:
        self._leader.set(1 if facts["leads"] else 0)
        self._epoch.set(_number(facts, "epoch"))
        if not facts["leads"]:
            # What only a leader knows is not true of this process any more.
            for gauge in (self._jobs, self._pending, self._gpus):
                gauge.clear()

    def _cycle_decided(self, facts: Facts) -> None:
        self._rounds.observe(_number(facts, "decision_s"))

    def _gang_placed(self, facts: Facts) -> None:
        size = _size_class(int(_number(facts, "gpus")))
        self._waits.labels(facts["queue"], size).observe(_number(facts, "waited_s"))

    def _gang_moved(self, facts: Facts) -> None:
        outcome = facts.get("outcome")
        if outcome is None:
            return
        self._ends.labels(outcome).inc()
        if facts["is_failure"]:
            self._failures.labels(outcome).inc()
        if facts["is_eviction"]:
            self._preemptions.labels(outcome).inc()


def _number(facts: Facts, name: str) -> float:
    value = facts[name]
    return 0.0 if value is None else float(value)


def _size_class(gpus: int) -> str:
    return next((name for most, name in _SIZE_CLASSES if gpus <= most), "513-")
