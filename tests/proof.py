"""How often a test by chance is repeated: a few times in CI, very often in `make proof`.

A test with a long version is marked `proof` and asks `times` for its number:

    @pytest.mark.proof
    @pytest.mark.parametrize("seed", range(times(ci=20, proof=2_000)))

One that repeats inside itself says how often: `@pytest.mark.proof(examples=EXAMPLES)`, or counts
with `record_property("kills on sqlite", 20)`. A long run writes all that into docs/proof.md.
"""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "proof.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
STORES = ("sqlite", "postgres")
"""Each has rows of its own, so that their long runs can go side by side."""

HEAD = "| what was shown | cases | of them | took | date | commit |\n|---|---|---|---|---|---|\n"


def is_long() -> bool:
    """Whether this run is the long version."""
    return bool(os.environ.get("PROOF"))


def times(*, ci: int, proof: int) -> int:
    """The number for this run."""
    return proof if is_long() else ci


@dataclass(slots=True)
class Shown:
    """What one test function has shown so far."""

    cases: int = 0
    failed: int = 0
    took_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)


class Tally:
    """Counts the cases of every long version; owned by conftest.py."""

    def __init__(self) -> None:
        self._shown: dict[str, Shown] = {}

    def note(self, item: pytest.Item, report: pytest.TestReport) -> None:
        """One case has run, or a part of it has failed."""
        marker = item.get_closest_marker("proof")
        if marker is None or not (report.when == "call" or report.failed):
            return
        if "examples" in marker.kwargs and not hasattr(getattr(item, "obj", None), "hypothesis"):
            return  # one example of its own, in a file of properties
        shown = self._shown.setdefault(_claim(item), Shown())
        shown.took_s += report.duration
        if not report.passed:
            shown.failed += report.failed
            return
        shown.cases += 1
        for counts in (marker.kwargs.items(), report.user_properties):
            for name, count in counts:
                shown.counts[name] += int(str(count))

    def record(self) -> None:
        """Put it into the page; what has failed loses its row."""
        if self._shown and PAGE.exists():
            PAGE.write_text(with_rows(PAGE.read_text(), self._shown))


def with_rows(page: str, shown: dict[str, Shown]) -> str:
    """The page with new rows for what was shown; those of other tests stay."""
    before, rest = page.split(BEGIN)
    table, after = rest.split(END)
    rows = {row.split(" | ")[0].removeprefix("| "): row for row in table.splitlines()[2:]}
    for claim, found in shown.items():
        rows.pop(claim, None)
        if found.cases and not found.failed:
            rows[claim] = f"| {claim} | " + " | ".join(_figures(found)) + " |"
    lines = "".join(f"{rows[claim]}\n" for claim in sorted(rows))
    return f"{before}{BEGIN}{HEAD}{lines}{END}{after}"


def _claim(item: pytest.Item) -> str:
    name = item.name.partition("[")[0].removeprefix("test_").replace("_", " ")
    store = "".join(f" on {word}" for word in _words(item) if word in STORES)
    return f"{name}{store} ({item.path.relative_to(ROOT / 'tests').parent.as_posix()})"


def _words(item: pytest.Item) -> list[str]:
    """The words of a case's name: `test_kills[sqlite-3]` has sqlite and 3."""
    return item.name.partition("[")[2].removesuffix("]").split("-")


def _figures(shown: Shown) -> Iterator[str]:
    yield f"{shown.cases:,}"
    yield ", ".join(f"{count:,} {name}" for name, count in sorted(shown.counts.items())) or "-"
    yield f"{shown.took_s / 60:.0f} min" if shown.took_s >= 60 else f"{shown.took_s:.0f} s"
    yield datetime.now(UTC).date().isoformat()
    yield _commit()


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - fixed
    return found.stdout.strip() or "unknown"
