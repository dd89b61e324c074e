"""A whole API in one process: store in memory, a clock the test moves, tokens, a client."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from httpx2 import Response
from starlette.testclient import TestClient

from api.app import create_app
from api.attempt_tokens import AttemptTokens
from api.callers import new_secret, secret_hash
from api.dependencies import ApiDependencies
from api.errors import PROBLEM_TYPE
from api.problems import Problem
from scheduler.adapters.memory.clock import ManualClock
from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.ids import ProjectName, QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.queue import Project, Queue
from scheduler.ports.unit import SaveProject, SaveQueue, SaveToken, Token, Unit

JOBS = "/api/v1/projects/default/jobs"
A_MOMENT = Instant(1_800_000_000_000_000)


def a_file(name: str = "train", **spec: object) -> dict[str, object]:
    """The smallest job file, with `spec` fields added or replaced."""
    body = {"gpusPerWorker": 8, "command": ["python", "train.py"], **spec}
    return {"apiVersion": "dally/v1", "kind": "Job", "metadata": {"name": name}, "spec": body}


class FrontDoor:
    """An API and what lies behind it."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.clock = ManualClock(A_MOMENT)
        self.store = store or MemoryStore()
        self._numbers = count(1)
        self.wakes = 0
        self.admin_token = self.token("root", is_admin=True)
        self.member_token = self.token("ada", projects=["default"])
        self.deps = ApiDependencies(
            store=self.store,
            accounts=self.store,
            clock=self.clock,
            new_id=self.new_id,
            secret=b"s" * 32,
            version="0.1.0",
            on_write=self._wake,
            policies=("fifo", "fifo-backfill", "dally"),
        )

    @property
    def attempt_tokens(self) -> AttemptTokens:
        """Signs tokens as the server does."""
        return AttemptTokens(self.deps.secret)

    def new_id(self) -> str:
        """Ids in order, shaped like a UUID."""
        return f"01900000-0000-7000-8000-{next(self._numbers):012x}"

    def token(self, name: str, *, is_admin: bool = False, projects: Sequence[str] = ()) -> str:
        """A new token; its secret."""
        secret = new_secret()
        token = Token(
            id=f"t-{name}",
            name=name,
            secret_sha256=secret_hash(secret),
            is_admin=is_admin,
            projects=tuple(ProjectName(project) for project in projects),
            created_at=self.clock.now(),
        )
        self.store.write(Unit(changes=(SaveToken(token=token),)))
        return secret

    def project(self, name: str, *queues: str) -> None:
        """A project that may use these queues."""
        names = tuple(QueueName(queue) for queue in queues)
        changes = [SaveQueue(queue=Queue(name=queue)) for queue in names]
        project = SaveProject(project=Project(name=ProjectName(name), queues=names))
        self.store.write(Unit(changes=(*changes, project)))

    def client(self, token: str | None) -> TestClient:
        """A client that sends `token`."""
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return TestClient(create_app(self.deps), headers=headers, raise_server_exceptions=False)

    def limit(self, **limits: object) -> None:
        """Change limits of servers made from now on."""
        self.deps = replace(self.deps, limits=replace(self.deps.limits, **limits))  # type: ignore[arg-type]  # names are checked by replace

    def _wake(self) -> None:
        self.wakes += 1


def a_problem(response: Response, status: int, reason: str) -> Problem:
    """The problem body of a refused request, which is checked to be one."""
    assert response.headers["Content-Type"] == PROBLEM_TYPE, response.text
    problem = Problem.model_validate_json(response.content)
    assert (response.status_code, problem.reason) == (status, reason), response.text
    assert problem.status == status
    assert problem.type == f"/errors/{reason}"
    assert problem.request_id == response.headers["X-Request-Id"]
    return problem
