"""What the server says about step times per tier and about known models."""

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


class TimingView(Reply):
    """One measured step of one GPU."""

    gpu_model: str
    precision: str
    batch_per_gpu: int
    step_seconds: float
    sequence_tokens: int
    """0: the model's own."""


class ProfileView(Reply):
    """A known model, which job files name in `communication.model`."""

    name: str
    family: str
    parameters: int
    gradient_bytes: int
    precision: str
    strategy: str
    layers: int
    hidden: int
    sequence_tokens: int
    timings: list[TimingView]
    source: str
    """Where the numbers come from."""
    is_built_in: bool


class ProfileList(Reply):
    """All known models, by name."""

    api_version: str = API_VERSION
    kind: str = "ProfileList"
    items: list[ProfileView]
