"""The table of docs/study.md: real runs and their replays, side by side."""

from collections.abc import Iterator, Sequence

from bench.reporting import Row

SUMS = {
    "jct_mean": "mean JCT, s",
    "jct_p95": "p95 JCT, s",
    "waiting_mean": "mean time without slots, s",
    "makespan": "makespan, s",
    "attempts": "attempts",
}
"""Figures that both worlds have."""

DIFFERENCES = {
    "start_rank_correlation": "rank correlation of the starts",
    "same_tier": "share of gangs at the same tier",
    "same_nodes": "share of gangs on the same nodes",
    "jct_deviation_mean": "mean deviation of a JCT, s",
    "jct_deviation_max": "largest deviation of a JCT, s",
}
"""Of a replay from the real run."""

REPLAYS = ("costs", "nothing")


def table(rows: Sequence[Row], policies: Sequence[str]) -> str:
    """One column for each real run and each of its replays."""
    return "\n".join(_lines({row.name: row for row in rows}, policies))


def _lines(rows: dict[str, Row], policies: Sequence[str]) -> Iterator[str]:
    heads = [
        head
        for policy in policies
        for head in (f"`{policy}`, real run", "replay", "replay, starts for nothing")
    ]
    yield f"| | {' | '.join(heads)} |"
    yield "|---" * (len(heads) + 1) + "|"
    for name, words in {**SUMS, **DIFFERENCES}.items():
        cells: list[float | None] = []
        for policy in policies:
            found = [rows[f"{name}[policy={policy},told={told}]"] for told in REPLAYS]
            if name in SUMS:
                cells += [found[0].value, *(row.reference for row in found)]
            else:
                cells += [None, *(row.value for row in found)]
        shown = [_shown(cell, is_count=name == "attempts") for cell in cells]
        yield f"| {words} | {' | '.join(shown)} |"


def _shown(value: float | None, *, is_count: bool) -> str:
    if value is None:
        return ""
    if is_count:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
