"""What a planted fault is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One fault: `old` stands exactly once in the file and is replaced."""

    what: str
    path: str
    old: str
    new: str
    found_by: str
    """Node id of a test, without parameters."""
