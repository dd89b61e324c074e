"""One data folder on which server after server is killed, and the client that keeps the books.

The client writes into its own books what was acknowledged, after it has read the whole answer; what
was not is asked for again, as a user would, with the same idempotency key. Workers write
themselves into a ledger when they start. In the end both are compared with what the server says.
"""

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import httpx2

from scheduler.adapters.sql.job_store import open_store
from scheduler.ports.kill_points import KillPoint
from tests.crash.stories import STARTED, STORIES, Story, jobs_for, times_of
from tests.polling import PAUSE_S
from tests.servers import TERMINAL, Server

ROUND_S_MAX = 180.0
"""A few seconds, unless the machine has much else to do."""
SETTLING_S_MAX = 240.0
"""Of a batch, all jobs may be left to the last server."""
SHARE_KILLED_IN_START = 0.2
SIGKILLED = -9
FOR_OTHERS = frozenset({"Preempted", "Upgraded"})
"""Outcomes of attempts that the policy ends so that another job runs, or this one runs closer."""

ASK_S = 0.05
LOOK_S = 0.2
"""How often the client asks for something, and looks at all jobs: a list costs the server more than
all else that it does here."""

TWO_NODES = "topology: {racks: [{name: r1, nodes: 2, gpus: 32}]}\n"
POLICY = "policy: {policy: sjf, restartBackoff: 100ms, restartBackoffMax: 100ms}\n"


class Pace:
    """Something is due at once, and then not more often than every so many seconds."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._due_at = 0.0

    def is_due(self) -> bool:
        """Whether it is now; then not again for a while."""
        now = time.monotonic()
        if now < self._due_at:
            return False
        self._due_at = now + self._every_s
        return True


class KillingGround:
    """Servers are killed here."""

    def __init__(
        self,
        folder: Path,
        *,
        database_url: str = "",
        config: str = TWO_NODES + POLICY,
        env: Mapping[str, str] | None = None,
        image: str = "",
    ) -> None:
        """Of the local executor, unless configuration, variables and image say otherwise."""
        (folder / "dallyd.yaml").write_text(config)
        self.ledger = folder / "ledger"
        self.ledger.touch()
        self.server = Server(
            folder,
            database_url=database_url,
            env={
                "DALLYD_CONFIG": str(folder / "dallyd.yaml"),
                "DALLYD_LEASE": "1s",
                **(env or {}),
            },
        )
        self._image = image
        self._database_url = database_url or f"sqlite:///{folder / 'data' / 'dally.db'}"
        self.kills: Counter[str] = Counter()
        """How often the server died, by point; `random` for deaths at a random time."""
        self.evictions = 0
        """Attempts that the policy stopped for other jobs."""
        self.acknowledged: dict[str, Story] = {}
        """Jobs of which the client has read that they were accepted."""
        self.on_over: Callable[[], None] = lambda: None
        """Called when every job has ended, while the last server still serves."""
        self.on_settled: Callable[[], None] = lambda: None
        """Called when the books have been compared and agree."""
        self._wanted: dict[str, Story] = {}
        """Jobs still to be submitted."""
        self._to_cancel: dict[str, bool] = {}
        """Jobs to be cancelled, and whether the gentle cancel has been acknowledged."""
        self._made = 0

    def prepare(self) -> None:
        """Have a first server make the database and the token, and stop it."""
        self.server.start()
        self.server.stop()

    def die_at(self, point: KillPoint) -> None:
        """Start a server that dies at the point, and lead it there."""
        self._want(jobs_for(point))
        self.server.launch(DALLYD_KILL_POINT=f"{point}:{times_of(point)}")

        looks = Pace(LOOK_S)

        def is_dead() -> bool:
            if self.server.is_up() and looks.is_due() and self._is_over_or_dying():
                # The jobs went past the point: what they do at once depends on the machine's load.
                self._want(jobs_for(point))
            return not self.server.is_up()

        self._drive(is_dead, f"{point} is reached")
        assert self.server.exit_code == SIGKILLED, self.server.errors
        self.kills[point] += 1

    def die_at_random(self, rng: random.Random) -> None:
        """Start a server and kill it at some moment: while it starts, or soon after it serves."""
        self._want(rng.sample(sorted(STORIES), k=2))
        self.server.launch()
        if rng.random() < SHARE_KILLED_IN_START:
            end = time.monotonic() + rng.uniform(0.05, 1.2)
        else:
            self._drive(self.server.is_serving, "the server is up")
            end = time.monotonic() + rng.uniform(0, 1.5)
        self._drive(lambda: time.monotonic() > end, "its time has come")
        self.server.kill()
        assert self.server.exit_code == SIGKILLED, self.server.errors
        self.kills["random"] += 1

    def settle_accounts(self) -> None:
        """Let a last server bring everything to its end, and compare the books."""
        self.server.start()
        looks = Pace(LOOK_S)
        self._drive(
            lambda: looks.is_due() and self._is_over(),
            "every job has ended",
            within_s=SETTLING_S_MAX,
        )
        self._check_jobs()
        self._check_ledger()
        self.on_over()
        self.server.stop()
        with open_store(self._database_url, is_server=False) as store:
            assert store.reservations() == (), "reservations leaked"
            assert store.live().jobs == ()
        self.on_settled()

    def close(self) -> None:
        """End what a failed test has left."""
        if self.server.is_up():
            self.server.kill()
        for start in self.ledger.read_text().splitlines():
            pid = start.split()[-1]
            if self._is_ours(pid):
                os.kill(int(pid), signal.SIGKILL)

    # The client

    def _want(self, names: Sequence[str]) -> None:
        for name in names:
            self._made += 1
            self._wanted[f"{name}-{self._made}"] = STORIES[name]

    def _drive(
        self, is_done: Callable[[], bool], what: str, *, within_s: float = ROUND_S_MAX
    ) -> None:
        """Ask for what is wanted until something is so; servers may die meanwhile."""
        end = time.monotonic() + within_s
        requests = Pace(ASK_S)
        while not is_done():
            assert time.monotonic() < end, f"not within {within_s:g} s: {what}; {self._state()}"
            try:
                if self.server.is_serving() and requests.is_due():
                    self._ask()
            except httpx2.TransportError:
                # Not acknowledged: asked again when there is a server.
                pass
            time.sleep(PAUSE_S)

    def _state(self) -> str:
        """For the message of a failure: what is not over, and what the server said."""
        try:
            jobs = [job for job in self.server.jobs() if job["status"]["phase"] not in TERMINAL]
        except httpx2.TransportError:
            jobs = []
        open_jobs = {job["metadata"]["name"]: job["status"] for job in jobs}
        return f"{open_jobs}, {list(self._wanted)}, {self._to_cancel}, {self.server.errors[-2000:]}"

    def _ask(self) -> None:
        if not self._wanted and not self._to_cancel:
            return
        phases = self.server.phases()
        for name, story in list(self._wanted.items()):
            if not self._may_come(story, phases):
                continue
            answer = self.server.request(
                "POST",
                "/api/v1/projects/default/jobs",
                body=self._job_file(name, story),
                headers={"Idempotency-Key": f"key-{name}"},
            )
            assert answer.status_code == 201, answer.text
            self.acknowledged[name] = self._wanted.pop(name)
            if story.is_cancelled:
                self._to_cancel[name] = False
        for name, was_gentle in list(self._to_cancel.items()):
            if was_gentle or phases.get(name) in {"Running", "Stopping"}:
                answer = self.server.cancel(name, now=was_gentle)
                assert answer.status_code < 300, answer.text
                self._to_cancel[name] = True
                if was_gentle:
                    del self._to_cancel[name]

    def _may_come(self, story: Story, phases: Mapping[str, str]) -> bool:
        """Whether the job it is to take the GPUs from runs, or has ended before it could come.

        The phases may be older than the latest acknowledgement: what they do not tell is not over.
        """
        first = story.comes_after
        if not first:
            return True
        if any(name.startswith(first) for name in self._wanted):
            return False
        found = {phases.get(name) for name in self.acknowledged if name.startswith(first)}
        return "Running" in found or found <= set(TERMINAL)

    def _job_file(self, name: str, story: Story) -> dict[str, object]:
        command = ["sh", "-c", f"{STARTED}; {story.script}"]
        return {
            "apiVersion": "dally/v1",
            "kind": "Job",
            "metadata": {"name": name},
            "spec": {
                "workers": 1,
                "gpusPerWorker": 1,
                "command": command,
                "env": {"LEDGER": str(self.ledger)},
                **({"image": self._image} if self._image else {}),
                **story.spec,
            },
        }

    def _is_over_or_dying(self) -> bool:
        try:
            return self.server.is_serving() and self._is_over()
        except httpx2.TransportError:
            return False

    # The books

    def _is_over(self) -> bool:
        if self._wanted or self._to_cancel:
            return False
        return set(self.server.phases().values()) <= set(TERMINAL)

    def _check_jobs(self) -> None:
        for name, story in self.acknowledged.items():
            answer = self.server.request("GET", f"/api/v1/projects/default/jobs/{name}")
            assert answer.status_code == 200, f"{name} was accepted and is lost"
            status = answer.json()["status"]
            path = f"/api/v1/projects/default/jobs/{name}/attempts"
            attempts = self.server.request("GET", path).json()["items"]
            outcomes = [attempt["outcome"] for attempt in attempts]
            told = f"{name}: {status}, {outcomes}"
            assert status["phase"] == story.phase, told
            assert status["restartsAfterLoss"] == story.losses, told
            assert status["restartsAfterFailure"] == story.attempts - 1 - story.losses, told
            # An attempt that is stopped for another job's sake counts against nothing.
            evictions = sum(outcome in FOR_OTHERS for outcome in outcomes)
            assert status["attempts"] - evictions == story.attempts, told
            self.evictions += evictions

    def _check_ledger(self) -> None:
        starts = [tuple(line.split()) for line in self.ledger.read_text().splitlines()]
        counts = Counter((job, attempt, rank) for job, attempt, rank, _ in starts)
        doubled = [start for start, count in counts.items() if count > 1]
        assert not doubled, f"workers started twice: {doubled}"
        for name in self.acknowledged:
            attempts = {int(attempt) for job, attempt, _ in counts if job == name}
            made: int = self.server.job(name)["status"]["attempts"]
            assert attempts <= set(range(made)), f"{name}: {attempts} of {made}"
        alive = [pid for *_, pid in starts if Path(f"/proc/{pid}/environ").exists()]
        ours = [pid for pid in alive if self._is_ours(pid)]
        assert not ours, f"workers of ended jobs live on: {ours}"

    def _is_ours(self, pid: str) -> bool:
        """Whether a process with that number is one of these workers, not a later stranger."""
        try:
            return str(self.ledger).encode() in Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return False
