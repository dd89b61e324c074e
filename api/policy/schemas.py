"""What the server says about policy knobs, and the body that changes some."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from api.wire import API_VERSION, Reply, Wire

KNOBS_MAX = 64
"""Knobs of one change; there are fewer."""


class KnobView(Reply):
    """One knob."""

    name: str
    value: JsonValue
    """What holds."""
    source: Literal["default", "file", "live", "queue-file", "queue-live"]
    """Who said so: dallyd.yaml or a live change, of the cluster or of the queue."""
    default: JsonValue
    scope: Literal["queue", "cluster"]
    """`queue` if a queue may have its own."""
    description: str


class PolicyView(Reply):
    """All knobs as they hold for the cluster or in one queue."""

    api_version: str = API_VERSION
    kind: str = "Policy"
    queue: str | None = None
    """Absent: the cluster's."""
    queues_that_differ: list[str]
    """Queues with knobs of their own."""
    items: list[KnobView]


class PolicyChange(Wire):
    """Knobs to set or to reset; what is not named stays."""

    knobs: Annotated[dict[str, JsonValue], Field(max_length=KNOBS_MAX)] = Field(
        default_factory=dict
    )
    """By name, as in dallyd.yaml; null leaves a knob to the file or its default again."""
    reason: Annotated[str, Field(max_length=1024)] = ""
    """Told in the event."""
