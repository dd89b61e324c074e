"""Plays the kubelets of all nodes: runs bound pods as processes of this machine.

A pod that kube-scheduler has bound is started (its main container's command, with its variables,
without a container around it), its status is written as a kubelet would, its output is served over
HTTPS where the API server looks for logs. Deleting a pod is SIGTERM, the grace, SIGKILL, then the
last status, then the object's removal.
"""

import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2

from tests.cluster.api_objects import ApiError, ApiObjects, Object
from tests.cluster.log_server import Line, LogServer, LogView
from tests.cluster.nodes import condition, timestamp

INSTANT = ("true",)
"""A command that is not run: the pod succeeds at once, which is how thousands of pods end fast."""

START_ERROR_EXIT_CODE = 128

_NOT_THAT_POD = (httpx2.codes.NOT_FOUND, httpx2.codes.CONFLICT)
"""It is gone, or another of its name is there."""

OUTPUT_S_MAX = 2.0
"""A process that outlives the main one may keep the output open; it is not waited for longer."""


@dataclass(eq=False)
class _Pod:
    """One pod that this kubelet runs."""

    namespace: str
    name: str
    uid: str
    container: str
    process: subprocess.Popen[bytes] | None = None
    collector: threading.Thread | None = None
    """Reads its output."""
    lines: list[Line] = field(default_factory=list)
    started_at: str = ""
    kill_at: float | None = None
    status: Object = field(default_factory=dict)
    """What is to be written, or was."""
    is_written: bool = True
    is_last: bool = False
    """Nothing follows that status."""
    is_over: bool = False
    """Its last status has been written."""

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.name}"


class Kubelet:
    """Runs the pods of some namespaces, in threads of its own."""

    def __init__(self, objects: ApiObjects, folder: Path) -> None:
        self._objects = objects
        self._pods: dict[str, _Pod] = {}
        self._lock = threading.Lock()
        self._is_stopping = threading.Event()
        self._is_frozen = threading.Event()
        self._refusals: dict[str, str] = {}
        self._logs = LogServer(folder, self._lines_of)
        self.removes_containers = False
        """Whether the log of a pod can not be asked for any more once it has ended."""
        self._thread = threading.Thread(target=self._run, name="kubelet", daemon=True)

    @property
    def port(self) -> int:
        """Where logs are served; nodes name it."""
        return self._logs.port

    def __enter__(self) -> Self:
        """Begin."""
        self._logs.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill what runs."""
        self._is_stopping.set()
        self._thread.join()
        self._logs.stop()
        for pod in self._pods.values():
            if pod.process is not None and pod.process.poll() is None:
                os.killpg(pod.process.pid, signal.SIGKILL)
                pod.process.wait()

    def freeze(self) -> None:
        """As a kubelet whose machine is cut off: pods run on, nothing is reported or ended."""
        self._is_frozen.set()

    def thaw(self) -> None:
        """Be there again."""
        self._is_frozen.clear()

    def refuse(self, node: str, reason: str) -> None:
        """Refuse every pod that comes to a node from now on; empty to take them again."""
        self._refusals[node] = reason

    def _run(self) -> None:
        took = 0.0
        # Half of the time it rests: with thousands of pods a look takes long.
        while not self._is_stopping.wait(max(0.02, took)):
            began = time.monotonic()
            if not self._is_frozen.is_set():
                with suppress(httpx2.HTTPError, ApiError):
                    self._sync()
            took = time.monotonic() - began

    def _sync(self) -> None:
        """One look at all bound pods, and what follows from it."""
        selector = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
        present: set[str] = set()
        for seen in self._objects.items("/api/v1/pods", fieldSelector=selector):
            uid = seen["metadata"]["uid"]
            present.add(uid)
            pod = self._pods.get(uid)
            if pod is None:
                self._take(seen)
            elif not pod.is_over:
                self._look_after(pod, seen)
        for uid, pod in list(self._pods.items()):
            if uid in present or pod.is_over:
                continue
            if pod.is_written:
                self._kill(pod)  # Forced away: the object is gone, a kubelet ends the process.
                pod.is_over = True
            else:
                self._flush(pod)

    def _take(self, seen: Object) -> None:
        meta, container = seen["metadata"], _main(seen)
        pod = _Pod(meta["namespace"], meta["name"], meta["uid"], container["name"])
        pod.started_at = timestamp()
        with self._lock:
            self._pods[pod.uid] = pod
        refusal = self._refusals.get(seen["spec"]["nodeName"], "")
        if refusal:
            self._write_refusal(pod, refusal)
            return
        command = tuple(container.get("command", ()))
        if command == INSTANT:
            self._write_end(pod, 0)
            return
        try:
            self._start(pod, container, command)
        except OSError as error:
            message = f"exec {command[0]}: {error.strerror}"
            self._write_end(pod, START_ERROR_EXIT_CODE, reason="StartError", message=message)
            return
        self._write_running(pod, seen)

    def _start(self, pod: _Pod, container: Object, command: tuple[str, ...]) -> None:
        variables = {
            each["name"]: each.get("value", "").replace("$$", "$")
            for each in container.get("env", ())
            if "valueFrom" not in each
        }
        pod.process = subprocess.Popen(  # noqa: S603 - the tests' own commands
            [word.replace("$$", "$") for word in (*command, *container.get("args", ()))],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={"PATH": os.environ["PATH"], **variables},
            start_new_session=True,
        )
        pod.collector = threading.Thread(target=self._collect, args=(pod,), daemon=True)
        pod.collector.start()

    def _collect(self, pod: _Pod) -> None:
        assert pod.process is not None
        assert pod.process.stdout is not None
        with pod.process.stdout as output:
            for text in output:
                with self._lock:
                    pod.lines.append(Line(at=datetime.now(UTC), text=text))

    def _look_after(self, pod: _Pod, seen: Object) -> None:
        code = None if pod.process is None else pod.process.poll()
        if not pod.is_written:
            self._flush(pod)
        elif code is not None:
            self._write_end(pod, 128 - code if code < 0 else code)
        elif "deletionTimestamp" in seen["metadata"]:
            self._end(pod, int(seen["metadata"]["deletionGracePeriodSeconds"]))

    def _end(self, pod: _Pod, grace_s: int) -> None:
        """SIGTERM at first sight, SIGKILL when the grace as it stands now is over."""
        now = time.monotonic()
        assert pod.process is not None
        if pod.kill_at is None:
            with suppress(ProcessLookupError):
                os.killpg(pod.process.pid, signal.SIGTERM)
            pod.kill_at = now + grace_s
        pod.kill_at = min(pod.kill_at, now + grace_s)
        if now >= pod.kill_at:
            self._kill(pod)

    def _kill(self, pod: _Pod) -> None:
        if pod.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(pod.process.pid, signal.SIGKILL)
            pod.process.wait()

    def _write_running(self, pod: _Pod, seen: Object) -> None:
        state = {"running": {"startedAt": pod.started_at}}
        names = [each["name"] for each in seen["spec"]["containers"]]
        others = [_container_status(name, state) for name in names if name != pod.container]
        self._write(
            pod,
            phase="Running",
            podIP="10.0.0.1",
            conditions=[condition("Ready", is_true=True)],
            containerStatuses=[_container_status(pod.container, state), *others],
        )

    def _write_end(self, pod: _Pod, code: int, *, reason: str = "", message: str = "") -> None:
        state = {
            "terminated": {
                "exitCode": code,
                "reason": reason or ("Completed" if code == 0 else "Error"),
                "message": message,
                "startedAt": pod.started_at,
                "finishedAt": timestamp(),
            }
        }
        if pod.collector is not None:
            pod.collector.join(OUTPUT_S_MAX)
        self._write(
            pod,
            is_last=True,
            phase="Succeeded" if code == 0 else "Failed",
            containerStatuses=[_container_status(pod.container, state)],
        )

    def _write_refusal(self, pod: _Pod, reason: str) -> None:
        message = f"Pod was rejected: {reason}"
        self._write(pod, is_last=True, phase="Failed", reason=reason, message=message)

    def _write(self, pod: _Pod, *, is_last: bool = False, **status: object) -> None:
        pod.status, pod.is_last, pod.is_written = status, is_last, False
        self._flush(pod)

    def _flush(self, pod: _Pod) -> None:
        """Write what is to be written; where no answer comes, the next look does it again."""
        change = {
            "metadata": {"uid": pod.uid},
            "status": {"startTime": pod.started_at, **pod.status},
        }
        written: Object = {"metadata": {}}
        try:
            written = self._objects.patch(f"{pod.path}/status", change)
        except ApiError as error:
            if error.status not in _NOT_THAT_POD:
                raise
        if pod.is_last and "deletionTimestamp" in written["metadata"]:
            # One that is told to end while it ends by itself is not listed any more.
            self._remove(pod)
        pod.is_written = True
        pod.is_over = pod.is_last

    def _remove(self, pod: _Pod) -> None:
        with suppress(ApiError):
            self._objects.delete_exactly(pod.path, uid=pod.uid)

    def _lines_of(self, namespace: str, name: str) -> LogView | None:
        with self._lock:
            for pod in reversed(list(self._pods.values())):
                if (pod.namespace, pod.name) == (namespace, name):
                    is_removed = self.removes_containers and pod.is_over
                    lines = list(pod.lines)
                    return LogView(lines=lines, is_over=pod.is_over, is_removed=is_removed)
        return None


def _main(seen: Object) -> Object:
    """The container that is run: the first that says what; others only have a status."""
    containers: list[Object] = seen["spec"]["containers"]
    return next((each for each in containers if "command" in each), containers[0])


def _container_status(name: str, state: Object) -> Object:
    return {
        "name": name,
        "state": state,
        "ready": "running" in state,
        "started": "running" in state,
        "restartCount": 0,
        "image": "test",
        "imageID": "test",
    }
