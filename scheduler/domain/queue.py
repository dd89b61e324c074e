"""Projects and queues: where jobs live and where they wait."""

from dataclasses import dataclass

from scheduler.domain.ids import ProjectName, QueueName
from scheduler.domain.knob_sheet import NOTHING_SAID, KnobSheet
from scheduler.domain.knobs import PolicyKnobs

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
    knobs: KnobSheet = NOTHING_SAID
    """What is different in it, its policy among them."""

    @property
    def policy(self) -> str:
        """Name of the policy that orders it; empty for the cluster's."""
        texts = {**self.knobs.seeded, **self.knobs.changed}
        return self.knobs.over(PolicyKnobs()).policy if "policy" in texts else ""
