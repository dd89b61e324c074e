"""Projects and queues: where jobs live and where they wait."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.domain.ids import ProjectName, QueueName

DEFAULT_PROJECT = ProjectName("default")
DEFAULT_QUEUE = QueueName("default")


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """Whose jobs; names are unique inside one."""

    name: ProjectName
    queues: tuple[QueueName, ...] = (DEFAULT_QUEUE,)
    """Queues its jobs may use; the first is its default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Where jobs wait; belongs to the cluster. Quota comes later."""

    name: QueueName
    policy: str = ""
    """Name of the policy that orders it; empty for the cluster's."""
    knob_overrides: Mapping[str, str] = field(default_factory=dict)
    """Policy knobs that differ here, by knob name, values as written in the configuration."""
