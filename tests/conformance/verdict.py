"""What became of one case: per level of comparison, whether we agree, and what differs if not."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class Compare(StrEnum):
    """How much of an answer is compared."""

    FEASIBLE = "L0"
    """Feasible or not."""
    DOMAINS = "L1"
    """How many domains of each level are used."""
    EXACT = "L2"
    """Which nodes, and how many workers on each."""
    NODES = "nodes"
    """Which nodes, up to exchanging domains that are alike."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One case and how it went."""

    case: str
    """Its id."""
    name: str = ""
    agrees: Mapping[Compare, bool] = field(default_factory=dict)
    """Only the comparisons that the case allows."""
    differs: str = ""
    """What was expected and what came, in short; empty if all agrees."""
    left_out: str = ""
    """Why the case was not run; empty if it was."""
    unreadable: str = ""
    """What in the case can not be read; it then agrees with nothing."""
    group: str = ""
    """The algorithm the case is about."""


def counted(verdicts: Sequence[Verdict], compare: Compare) -> tuple[int, int]:
    """How many agree, out of how many."""
    known = [verdict.agrees[compare] for verdict in verdicts if compare in verdict.agrees]
    return sum(known), len(known)


def lines(name: str, verdicts: Sequence[Verdict], compares: Iterable[Compare]) -> Iterator[str]:
    """A line a comparison, then the cases that differ or can not be read, and those left out."""
    yield name
    for compare in compares:
        agreed, total = counted(verdicts, compare)
        yield f"{compare} {agreed}/{total}"
    for verdict in verdicts:
        missed = [compare for compare, agrees in verdict.agrees.items() if not agrees]
        if verdict.unreadable:
            yield f"  can not be read: {verdict.case}: {verdict.unreadable}"
        elif missed:
            where = f"{verdict.case} ({verdict.name})"
            yield f"  differs at {', '.join(missed)}: {where}: {verdict.differs}"
    left_out = [verdict for verdict in verdicts if verdict.left_out]
    for reason in sorted({verdict.left_out for verdict in left_out}):
        cases = [verdict.case for verdict in left_out if verdict.left_out == reason]
        yield f"  left out ({len(cases)}): {reason}: {', '.join(cases)}"
