"""What the server says about step times per tier."""

from api.wire import API_VERSION, Reply


class TierView(Reply):
    """A job at one level of the topology, on the fewest, even nodes that reach exactly it."""

    level: str
    nodes: int
    step_seconds: float
    """The best guess: predicted, corrected by measured steps."""
    predicted_seconds: float
    measured_seconds: float | None = None
    """Mean of the reported steps at this level; absent if none was reported."""
    source: str
    """measured, declared, profile or prior."""
    exposed_share: float
    """Share of the predicted step spent waiting for communication."""
    step_slowdown: float
    """Step time divided by that of the best level."""
    is_worth_waiting_for: bool
    """Whether the next wider level is slower by more than the model's 5 % of doubt."""


class SensitivityView(Reply):
    """A job on one GPU model."""

    gpu_model: str
    source: str
    """Where the job's numbers come from: declared, profile or prior."""
    compute_seconds: float
    gradient_bytes: float
    bandwidth_wanted: float | None = None
    """Bytes per second above which placement hardly matters; absent where no rate is enough."""
    tiers: list[TierView]
    """Closest level first; empty if the gang fits nowhere."""


class SensitivityList(Reply):
    """One entry per GPU model of the cluster that the job accepts."""

    api_version: str = API_VERSION
    kind: str = "SensitivityList"
    items: list[SensitivityView]
