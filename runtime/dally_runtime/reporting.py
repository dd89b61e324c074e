"""Step reports of rank 0, sent by a thread so that they never hold up the training."""

import atexit
import json
import logging
import math
import os
import threading
import time
import urllib.request
from dataclasses import dataclass

from dally_runtime.contract import speaks_for_the_job, variable

INTERVAL_S = 5.0
TIMEOUT_S = 5.0
LAST_TIMEOUT_S = 2.0
"""For the report that is sent when the process ends."""

_log = logging.getLogger("dally_runtime")
# The service is reached directly: a proxy that is meant for the outside would not know it.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass
class _Report:
    step: int
    step_seconds: float
    """Sum over `calls` calls."""
    calls: int
    loss: float | None
    accuracy: float | None
    steps_total: int | None

    def body(self) -> bytes:
        """As the service reads it; numbers that are none are left out."""
        numbers = {
            "step": self.step,
            "stepSeconds": self.step_seconds / self.calls,
            "loss": self.loss,
            "accuracy": self.accuracy,
            "stepsTotal": self.steps_total,
        }
        finite = {name: n for name, n in numbers.items() if n is not None and math.isfinite(n)}
        return json.dumps(finite).encode()


class Reporter:
    """Keeps the newest report and sends it now and then."""

    def __init__(self, url: str, token: str, *, interval_s: float = INTERVAL_S) -> None:
        self._url = f"{url.rstrip('/')}/api/v1/attempts/progress"
        self._token = token
        self._interval_s = interval_s
        self.owner = os.getpid()
        """A forked child has the object of its parent, but not the thread."""
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._news = threading.Event()
        self._newest: _Report | None = None
        self._has_failed = False
        self._thread = threading.Thread(target=self._run, name="dally-progress", daemon=True)
        self._thread.start()

    def note(self, report: _Report) -> None:
        """Take a report; step times of reports that were never sent count into its mean."""
        with self._lock:
            if self._newest is not None:
                report.step_seconds += self._newest.step_seconds
                report.calls += self._newest.calls
            self._newest = report
        self._news.set()

    def flush(self, timeout_s: float = LAST_TIMEOUT_S) -> None:
        """Send what has not been sent, after what is being sent."""
        if self.owner == os.getpid() and self._sending.acquire(timeout=timeout_s):
            self._sending.release()
            self._send(timeout_s)

    def _run(self) -> None:
        while True:
            self._news.wait()
            self._news.clear()
            self._send(TIMEOUT_S)
            time.sleep(self._interval_s)

    def _send(self, timeout_s: float) -> None:
        with self._sending:
            with self._lock:
                report, self._newest = self._newest, None
            if report is not None:
                self._post(report, timeout_s)

    def _post(self, report: _Report, timeout_s: float) -> None:
        request = urllib.request.Request(  # noqa: S310 - the service's own address
            self._url,
            data=report.body(),
            headers={
                "Authorization": f"Bearer {self._token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with _opener.open(request, timeout=timeout_s):
                self._has_failed = False
        except (OSError, ValueError) as error:  # HTTP errors are OSErrors too
            if not self._has_failed:
                _log.warning("a step report was not taken: %s", error)
            self._has_failed = True


class _Line:
    """The reporter of this process, made by the first report."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._reporter: Reporter | None = None

    def flush(self) -> None:
        """Send what this process has not sent."""
        if self._reporter is not None:
            self._reporter.flush()

    def reporter(self) -> Reporter | None:
        """None in processes that do not speak for the job."""
        if not speaks_for_the_job() or not variable("DALLY_API_URL"):
            return None
        with self._lock:
            if self._reporter is None or self._reporter.owner != os.getpid():
                self._reporter = Reporter(variable("DALLY_API_URL"), variable("DALLY_API_TOKEN"))
                atexit.register(self._reporter.flush)
            return self._reporter


_line = _Line()


def progress(
    step: int,
    step_seconds: float,
    *,
    loss: float | None = None,
    accuracy: float | None = None,
    steps_total: int | None = None,
) -> None:
    """Tell the service that `step` is done and took so long.

    Only rank 0 sends anything, at most every few seconds; the others, and scripts outside a job,
    may call it all the same. Never raises for a service that does not answer, never waits for it.
    """
    reporter = _line.reporter()
    if reporter is not None:
        reporter.note(
            _Report(
                step=int(step),
                step_seconds=float(step_seconds),
                calls=1,
                loss=None if loss is None else float(loss),
                accuracy=None if accuracy is None else float(accuracy),
                steps_total=None if steps_total is None else int(steps_total),
            )
        )


def flush() -> None:
    """Send the last report now; only scripts that leave by `os._exit` need to call it."""
    _line.flush()
