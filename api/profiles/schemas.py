"""What the server says about known models."""

from api.wire import API_VERSION, Reply


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
    """Known models, by name."""

    api_version: str = API_VERSION
    kind: str = "ProfileList"
    items: list[ProfileView]
