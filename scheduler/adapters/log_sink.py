"""What the loop tells, as structured log lines: one a decision, with its numbers."""

from collections.abc import Mapping

import structlog

WARNINGS = frozenset(
    {
        "store_unavailable",
        "cluster_unavailable",
        "deposed",
        "lease_lapsed",
        "store_restored",
        "unknown_workers",
    }
)
SILENT = frozenset({"counted", "idled", "holding_out", "timer"})
"""Only numbers for a dashboard."""


class LogSink:
    """EventSink port on structlog."""

    def __init__(self) -> None:
        self._log = structlog.get_logger("dally.scheduler")

    def emit(self, name: str, facts: Mapping[str, str | int | float | bool | None]) -> None:
        """One line."""
        if name in SILENT:
            return
        if name in WARNINGS:
            self._log.warning(name, **facts)
        else:
            self._log.info(name, **facts)
