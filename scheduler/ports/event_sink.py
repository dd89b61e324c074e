"""Where decisions are told to operators: logs and metrics only. The store has its own events."""

from collections.abc import Mapping
from typing import Protocol


class EventSink(Protocol):
    """Takes structured facts about decisions."""

    def emit(self, name: str, facts: Mapping[str, str | int | float | bool | None]) -> None:
        """One fact: a name that never changes (`gang_started`) and its numbers."""
        ...
