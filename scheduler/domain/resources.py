"""What a worker asks for and what a node has, besides GPUs' places."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Countable things that are not GPUs: of one worker (a request) or of one node (a capacity)."""

    cpu_milli: int = 0
    """Thousandths of a CPU core."""
    memory_bytes: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    """Other counted resources by name, sorted by name."""

    def __post_init__(self) -> None:
        assert self.cpu_milli >= 0
        assert self.memory_bytes >= 0
        assert list(self.extended) == sorted(self.extended)


NOTHING = Resources()


def plus(one: Resources, other: Resources) -> Resources:
    """Both together."""
    extended = dict(one.extended)
    for name, amount in other.extended:
        extended[name] = extended.get(name, 0) + amount
    return Resources(
        cpu_milli=one.cpu_milli + other.cpu_milli,
        memory_bytes=one.memory_bytes + other.memory_bytes,
        extended=tuple(sorted(extended.items())),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """What foreign use leaves of a capacity."""

    resources: Resources
    overdrawn: tuple[str, ...] = ()
    """Names of resources of which more is used than there is: clamped to 0 in `resources`."""


def remainder(capacity: Resources, used: Resources) -> Remainder:
    """`capacity` less `used`; never negative."""
    used_extended = dict(used.extended)
    left = {
        "cpu": capacity.cpu_milli - used.cpu_milli,
        "memory": capacity.memory_bytes - used.memory_bytes,
    }
    extended = {name: have - used_extended.get(name, 0) for name, have in capacity.extended}
    return Remainder(
        resources=Resources(
            cpu_milli=max(0, left["cpu"]),
            memory_bytes=max(0, left["memory"]),
            extended=tuple(sorted((name, max(0, have)) for name, have in extended.items())),
        ),
        overdrawn=tuple(name for name, have in {**left, **extended}.items() if have < 0),
    )
