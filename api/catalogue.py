"""What every submission looks up, read from the store every few seconds at most.

Projects and queues come from dallyd.yaml when a server starts; models change by requests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock

from scheduler.control.profiling import project_models
from scheduler.domain.communication import ModelProfile
from scheduler.domain.ids import ProjectName, QueueName
from scheduler.domain.instants import SECOND, Duration, Instant, after
from scheduler.domain.queue import Project
from scheduler.ports.clock import Clock
from scheduler.ports.job_store import JobStore

KEPT_FOR = Duration(2 * SECOND)
"""How late a process may learn what another one has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    read_at: Instant
    projects: Mapping[ProjectName, Project]
    queues: tuple[QueueName, ...]
    models: dict[ProjectName, Mapping[str, ModelProfile]] = field(default_factory=dict)
    """Of the projects that were asked for."""


class Catalogue:
    """Projects, queues and models, at most KEPT_FOR old."""

    def __init__(self, store: JobStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = Lock()
        self._kept: _Contents | None = None

    def project(self, name: ProjectName) -> Project | None:
        """The project of that name, if there is one."""
        with self._lock:
            return self._contents().projects.get(name)

    def queues(self) -> tuple[QueueName, ...]:
        """All queues, by name."""
        with self._lock:
            return self._contents().queues

    def models(self, project: ProjectName) -> Mapping[str, ModelProfile]:
        """The models that job files of the project may name, by name."""
        with self._lock:
            models = self._contents().models
            if project not in models:
                models[project] = project_models(self._store, project)
            return models[project]

    def forget(self) -> None:
        """Drop what is kept: a profile was written here, and its writer's next job may name it."""
        with self._lock:
            self._kept = None

    def _contents(self) -> _Contents:
        now = self._clock.now()
        if self._kept is None or now >= after(self._kept.read_at, KEPT_FOR):
            self._kept = _Contents(
                read_at=now,
                projects={project.name: project for project in self._store.projects()},
                queues=tuple(queue.name for queue in self._store.queues()),
            )
        return self._kept
