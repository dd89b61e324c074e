"""Several event sinks as one."""

from collections.abc import Mapping

from scheduler.ports.event_sink import EventSink


class FanOut:
    """EventSink port: tells each."""

    def __init__(self, *sinks: EventSink) -> None:
        self._sinks = sinks

    def emit(self, name: str, facts: Mapping[str, str | int | float | bool | None]) -> None:
        """To every sink, in order."""
        for sink in self._sinks:
            sink.emit(name, facts)
