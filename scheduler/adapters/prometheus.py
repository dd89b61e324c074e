"""What the loop, the API and the store tell, as metrics by name; docs/reference/metrics.md is made
of them. No job, user, node or pod is ever a label: a label's values are few and known.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

Facts = Mapping[str, str | int | float | bool | None]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_WAITS_S: Final = (1.0, 10.0, 60.0, 300.0, 1_800.0, 3_600.0, 14_400.0, 86_400.0, 604_800.0)
_SIZE_CLASSES: Final = ((0, "0"), (1, "1"), (8, "2-8"), (64, "9-64"), (512, "65-512"))

_TROUBLES: Final = (
    *("store_unavailable", "store_restored"),
    *("cluster_unavailable", "deposed", "lease_lapsed"),
)


class Metrics:
    """All metrics of one process; an EventSink, and what counts requests and writes."""

    def __init__(self, *, version: str) -> None:
        self.registry = CollectorRegistry()
        self._make_state()
        self._make_decisions()
        self._make_waiting()
        self._make_process()
        self._make_kubernetes()
        self._gauge("dally_build_info", "The version that runs; always 1.", "version").labels(
            version
        ).set(1)
        self._takers: Mapping[str, Callable[[Facts], None]] = {
            "counted": self._counted,
            "leadership": self._leadership,
            "cycle_decided": self._cycle_decided,
            "fragmented": lambda facts: self._fragmentation.set(_number(facts, "ratio")),
            "gang_placed": self._gang_placed,
            "gang_moved": self._gang_moved,
            "gang_evicted": lambda facts: self._evictions.labels(facts["cause"]).inc(),
            "strays": self._stray_gangs,
            "holding_out": self._holding_out,
            "idled": lambda facts: self._idled.labels(facts["queue"]).inc(_number(facts, "gpu_s")),
            "wait_paid": lambda facts: self._paid.labels(facts["queue"]).inc(
                _number(facts, "gpu_s")
            ),
            "timer": self._timer,
            "kubernetes_answer": self._kubernetes_answer,
            "kubernetes_state": self._kubernetes_state,
            **{name: self._trouble(name) for name in _TROUBLES},
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

    def observe_write(self, *, seconds: float, failure: str) -> None:
        """One write of the store has ended; `failure` is the code of its error, or empty."""
        self._write_seconds.observe(seconds)
        if failure:
            self._write_failures.labels(failure).inc()

    def observe_retry(self) -> None:
        """A transaction of the store is run again."""
        self._retries.inc()

    def observe_audit(self, rows: int) -> None:
        """So many audit rows were written."""
        self._audited.inc(rows)

    def count_streams(self, count: Callable[[], int]) -> None:
        """How many streams are open is asked of `count` from now on."""
        self._streams.set_function(count)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)

    def _make_state(self) -> None:
        self._jobs = self._gauge(
            "dally_jobs", "Live jobs by queue and phase. Leader only.", "queue", "state"
        )
        self._pending = self._gauge(
            "dally_pending_reason", "Waiting jobs by why they wait. Leader only.", "reason"
        )
        self._gpus = self._gauge(
            "dally_gpus",
            "GPUs by state (`total`, `allocated`, `idle`, `unhealthy`) and model. Leader only.",
            "state",
            "product",
        )
        self._strays = self._gauge(
            "dally_stray_gangs",
            "Gangs on the cluster that the database does not know. Leader only.",
        )
        self._safe_mode = self._gauge(
            "dally_safe_mode",
            "Whether nothing is started or stopped, for the database is older than the cluster. "
            "Leader only.",
        )
        self._fragmentation = self._gauge(
            "dally_fragmentation_ratio",
            "Share of the usable GPUs that are free though the smallest waiting job asks for no "
            "more than so many: they lie too far apart for it, or are kept free. Leader only.",
        )
        self._leader = self._gauge("dally_leader", "Whether this process leads.")
        self._epoch = self._gauge("dally_leader_epoch", "Its leadership term.")

    def _make_decisions(self) -> None:
        self._rounds = self._histogram(
            "dally_scheduling_round_seconds", "Time of one decision.", buckets=_SECONDS
        )
        self._decisions = self._counter(
            "dally_decisions",
            "What decisions came to: gangs to `start` or `stop`, places promised (`promise`), jobs "
            "that begin to hold out for closer GPUs (`decline`).",
            "kind",
        )
        self._waits = self._histogram(
            "dally_job_queue_seconds",
            "Time in the queue until placed, by queue and gang size.",
            "queue",
            "gpus",
            buckets=_WAITS_S,
        )
        self._ends = self._counter("dally_attempts", "Ended attempts by outcome.", "outcome")
        self._failures = self._counter(
            "dally_attempt_failures", "Attempts that ended in failure.", "reason"
        )
        self._evictions = self._counter(
            "dally_evictions",
            "Gangs that decisions have stopped, by cause: `Preempt` for another gang, `Upgrade` "
            "for closer GPUs of their own.",
            "cause",
        )
        self._preemptions = self._counter(
            "dally_preemptions", "Evicted gangs that have left, by outcome.", "reason"
        )
        self._errors = self._counter(
            "dally_loop_troubles", "Ticks that were cut short, by why.", "reason"
        )

    def _make_waiting(self) -> None:
        self._holding_gpus = self._gauge(
            "dally_idle_by_choice_gpus",
            "Free GPUs that jobs of a queue have declined and nobody else takes. Leader only.",
            "queue",
        )
        self._holding_saves = self._gauge(
            "dally_waits_expected_gpu_seconds",
            "GPU time that the waits of now are predicted to save if they get what they wait for. "
            "Leader only.",
            "queue",
        )
        self._idled = self._counter(
            "dally_idle_by_choice_gpu_seconds",
            "GPU time left idle by declined offers.",
            "queue",
        )
        self._paid = self._counter(
            "dally_waits_saved_gpu_seconds",
            "GPU time that ended waits were predicted to save, of those that got closer GPUs.",
            "queue",
        )
        self._timers = self._gauge(
            "dally_timer_seconds",
            "The tuner's timer by demand (GPUs, rounded up to a power of two) and level; absent "
            "where nothing is learned yet. Leader only.",
            "demand",
            "level",
        )

    def _make_process(self) -> None:
        self._requests = self._counter(
            "dally_http_requests", "Requests by template of the route.", "route", "method", "code"
        )
        self._request_seconds = self._histogram(
            "dally_http_request_seconds", "Time of a request.", "route", buckets=_SECONDS
        )
        self._write_seconds = self._histogram(
            "dally_db_transaction_seconds",
            "Time of one write, from asking to on disk.",
            buckets=_SECONDS,
        )
        self._write_failures = self._counter(
            "dally_db_failures", "Writes that were refused or failed, by code.", "reason"
        )
        self._retries = self._counter(
            "dally_db_retries",
            "Transactions that got in another's way and were run again.",
        )
        self._audited = self._counter("dally_audit_events", "Audit rows written by this process.")
        self._streams = self._gauge(
            "dally_sse_clients", "Open streams: watches of jobs and events, followed logs."
        )

    def _make_kubernetes(self) -> None:
        self._api_answers = self._counter(
            "dally_kubernetes_requests",
            "Requests to the API server by method and outcome (`Done`, or what went wrong).",
            "method",
            "outcome",
        )
        self._api_lists = self._gauge(
            "dally_kubernetes_lists",
            "Complete lists so far, of nodes and pods: many say that watches break off.",
        )
        self._api_watches = self._gauge(
            "dally_kubernetes_watches_in_line", "Watches whose view is in line with the API server."
        )
        self._api_waited = self._gauge(
            "dally_kubernetes_throttled_seconds",
            "Time that requests have waited for the budget (`kubernetesRequestsPerSecond`).",
        )
        self._api_held_back = self._gauge(
            "dally_kubernetes_held_back",
            "Whether requests are held back because the API server fails again and again.",
        )

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self.registry)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str, buckets: Iterable[float]) -> Histogram:
        return Histogram(name, text, labels, buckets=tuple(buckets), registry=self.registry)

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
        # A term begins with a look at the cluster, which tells of strays if there are any.
        self._strays.set(0)
        self._safe_mode.set(0)
        if not facts["leads"]:
            # What only a leader knows is not true of this process any more.
            for gauge in (
                self._jobs,
                self._pending,
                self._gpus,
                self._holding_gpus,
                self._holding_saves,
                self._timers,
            ):
                gauge.clear()
            self._fragmentation.set(0)

    def _stray_gangs(self, facts: Facts) -> None:
        self._strays.set(_number(facts, "gangs"))
        self._safe_mode.set(1 if facts["is_safe_mode"] else 0)

    def _cycle_decided(self, facts: Facts) -> None:
        self._rounds.observe(_number(facts, "decision_s"))
        for kind, name in (
            ("start", "started"),
            ("stop", "stopped"),
            ("promise", "promised"),
            ("decline", "declined"),
        ):
            self._decisions.labels(kind).inc(_number(facts, name))

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

    def _holding_out(self, facts: Facts) -> None:
        self._holding_gpus.labels(facts["queue"]).set(_number(facts, "gpus"))
        self._holding_saves.labels(facts["queue"]).set(_number(facts, "saves_gpu_s"))

    def _timer(self, facts: Facts) -> None:
        labels = (str(facts["demand"]), str(facts["level"]))
        if facts["timer_s"] is None:
            with suppress(KeyError):
                self._timers.remove(*labels)
        else:
            self._timers.labels(*labels).set(_number(facts, "timer_s"))

    def _kubernetes_answer(self, facts: Facts) -> None:
        self._api_answers.labels(facts["method"], facts["outcome"]).inc()

    def _kubernetes_state(self, facts: Facts) -> None:
        self._api_held_back.set(1 if facts["is_held_back"] else 0)
        self._api_waited.set(_number(facts, "waited_s"))
        self._api_lists.set(_number(facts, "lists"))
        self._api_watches.set(_number(facts, "in_line"))

    def _trouble(self, name: str) -> Callable[[Facts], None]:
        return lambda _: self._errors.labels(name).inc()


def _number(facts: Facts, name: str) -> float:
    value = facts[name]
    return 0.0 if value is None else float(value)


def _size_class(gpus: int) -> str:
    return next((name for most, name in _SIZE_CLASSES if gpus <= most), "513-")
