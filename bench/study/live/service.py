"""A real server on this machine for the real run: two racks of two nodes with four slots each."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import httpx2
from pydantic import BaseModel

from api.distance.schemas import SensitivityList
from api.documents.document import Json
from api.jobs.schemas import TERMINAL_PHASES, AttemptList, AttemptView, JobList, JobObject
from api.nodes.schemas import NodeList
from bench.study.live.workload import ROOT

T = TypeVar("T", bound=BaseModel)
RACK = "rack"
START_S_MAX = 60.0
STOP_S_MAX = 60.0
JOBS = "/api/v1/projects/default/jobs"
DALLYD = Path(sys.executable).with_name("dallyd")
DALLY_SIM = DALLYD.with_name("dally-sim")

CONFIG = """\
topology:
  levels:
    - {{name: rack, oversubscription: 4}}
  racks:
    - {{name: r1, nodes: 2, gpus: 4}}
    - {{name: r2, nodes: 2, gpus: 4}}
policy: {{policy: {policy}}}
"""


class LiveRunError(Exception):
    """The real run did not come to its end."""


class Service:
    """A running server, through its front door."""

    def __init__(self, data_dir: Path, url: str, token: str) -> None:
        self.data_dir = data_dir
        self._client = httpx2.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            trust_env=False,
        )

    def close(self) -> None:
        """Let go of it."""
        self._client.close()

    def racks(self) -> dict[str, str]:
        """The rack of each node."""
        nodes = self._get(NodeList, "/api/v1/nodes").items
        return {node.name: node.path[RACK] for node in nodes}

    def slots(self) -> int:
        """Of all nodes."""
        return sum(node.gpus for node in self._get(NodeList, "/api/v1/nodes").items)

    def step_s(self, job_file: Json) -> dict[str, float]:
        """How long the service says that a step of the job takes at each tier."""
        answer = self._answer("POST", "/api/v1/projects/default/estimate", job_file)
        (only,) = SensitivityList.model_validate_json(answer.text).items
        return {tier.level: tier.step_seconds for tier in only.tiers}

    def submit(self, job_file: Json) -> None:
        """As `dally apply` does."""
        self._answer("POST", JOBS, job_file)

    def jobs(self) -> list[JobObject]:
        """All of them, by submission."""
        return self._get(JobList, "/api/v1/jobs?limit=500").items

    def attempts(self, name: str) -> list[AttemptView]:
        """Of one job, oldest first."""
        return self._get(AttemptList, f"{JOBS}/{name}/attempts").items

    def log_of(self, name: str, attempt: int) -> str:
        """The output of rank 0 of an attempt."""
        path = f"{JOBS}/{name}/logs?rank=0&attempt={attempt}"
        return self._answer("GET", path).text

    def end_all(self) -> None:
        """Cancel what has not ended, and wait for it: workers outlive a server, by design."""
        give_up_at_s = time.monotonic() + STOP_S_MAX
        asked: set[str] = set()
        while left := [job.metadata.name for job in self.jobs() if not has_ended(job)]:
            for name in left:
                if name not in asked:
                    self._cancel(name)
                    asked.add(name)
            if time.monotonic() > give_up_at_s:
                raise LiveRunError(f"jobs do not end when they are cancelled: {', '.join(left)}")
            time.sleep(0.2)

    def _cancel(self, name: str) -> None:
        try:
            # A job that has just ended refuses it, and is seen to have ended in the next round.
            self._client.post(f"{JOBS}/{name}/cancel", json={"now": True})
        except httpx2.HTTPError as error:
            raise LiveRunError(f"{name} can not be cancelled: {error!r}") from error

    def _get(self, model: type[T], path: str) -> T:
        return model.model_validate_json(self._answer("GET", path).text)

    def _answer(self, method: str, path: str, body: Json = None) -> httpx2.Response:
        try:
            answer = self._client.request(method, path, json=body)
        except httpx2.HTTPError as error:
            raise LiveRunError(f"{method} {path}: {error!r}") from error
        if answer.is_error:
            raise LiveRunError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer


def has_ended(job: JobObject) -> bool:
    """Whether nothing will become of it any more."""
    return job.status.phase in TERMINAL_PHASES


@contextmanager
def serving(folder: Path, policy: str) -> Iterator[Service]:
    """`dallyd serve` with that policy, on a data folder of its own; all its jobs end with it."""
    config, data_dir = folder / "dallyd.yaml", folder / "data"
    config.write_text(CONFIG.format(policy=policy), encoding="utf-8")
    command: list[str | Path] = [
        DALLYD,
        "serve",
        "--config",
        config,
        "--data-dir",
        data_dir,
        "--port",
        "0",
    ]
    environment = {name: value for name, value in os.environ.items() if "DALLY" not in name}
    with (folder / "server.log").open("wb") as log:
        # In the checkout, where job files find the worker; in a session of its own, lest Ctrl-C
        # ends it before its jobs are cancelled.
        process = subprocess.Popen(  # noqa: S603 - our own server
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        service = Service(data_dir, *_address(folder / "server.log", process))
        try:
            yield service
        finally:
            if process.poll() is None:
                service.end_all()
            service.close()
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(log: Path, process: "subprocess.Popen[bytes]") -> tuple[str, str]:
    """Address and first token, once the server tells them."""
    give_up_at_s = time.monotonic() + START_S_MAX
    while time.monotonic() < give_up_at_s:
        for line in log.read_text(encoding="utf-8").splitlines(keepends=True):
            words = line.split()
            if words[:3] == ["dally", "config", "set-context"] and line.endswith("\n"):
                return words[words.index("--server") + 1], words[-1]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise LiveRunError(f"the server did not start: {log.read_text(encoding='utf-8').strip()}")
