"""What a worker asks for and what a node has, besides GPUs' places."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Countable things that are not GPUs: of one worker (a request) or of one node (a capacity)."""

    cpu_milli: int = 0
    """Thousandths of a CPU core."""
    memory_bytes: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    """Other counted resources by name, sorted by name, each at least 1."""

    def __post_init__(self) -> None:
        assert self.cpu_milli >= 0
        assert self.memory_bytes >= 0
        assert list(self.extended) == sorted(self.extended)


NOTHING = Resources()
