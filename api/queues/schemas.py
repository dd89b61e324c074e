"""What the server says about queues."""

from pydantic import JsonValue

from api.wire import API_VERSION, Reply


class QueueView(Reply):
    """One queue with what is in it."""

    name: str
    policy: str
    """Empty: the cluster's."""
    knob_overrides: dict[str, JsonValue]
    """Policy knobs that differ in it."""
    projects: list[str]
    """Projects whose jobs may use it; only those the caller may see."""
    jobs_pending: int
    jobs_held: int
    jobs_active: int
    """Starting, running and stopping."""
    gpus_pending: int
    gpus_active: int


class QueueList(Reply):
    """All queues, by name."""

    api_version: str = API_VERSION
    kind: str = "QueueList"
    items: list[QueueView]
