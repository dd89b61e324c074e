"""How often a test by chance is repeated: a few times in CI, very often in `make proof`.

A test with a long version is marked `proof` and asks `times` for its number:

    @pytest.mark.proof
    @pytest.mark.parametrize("seed", range(times(ci=20, proof=2_000)))

What a long version has shown is written to docs/proof.md with date and commit: `record(...)`.
"""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "proof.md"

_HEAD = """# What the long versions have shown

`make proof` runs the tests by chance many times over and writes their last figures here.

| what | figures | date | commit | machine |
|---|---|---|---|---|
"""


def is_long() -> bool:
    """Whether this run is the long version."""
    return bool(os.environ.get("PROOF"))


def times(*, ci: int, proof: int) -> int:
    """The number for this run."""
    return proof if is_long() else ci


def record(what: str, figures: str) -> None:
    """Put the figures of a long version into docs/proof.md; nothing in CI."""
    if not is_long():
        return
    rows = PAGE.read_text().splitlines()[len(_HEAD.splitlines()) :] if PAGE.exists() else []
    kept = [row for row in rows if row.startswith("|") and not row.startswith(f"| {what} |")]
    row = f"| {what} | {figures} | {_today()} | {_commit()} | {_machine()} |"
    PAGE.write_text(_HEAD + "\n".join(sorted([*kept, row])) + "\n")


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _commit() -> str:
    command = ["git", "rev-parse", "--short", "HEAD"]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - fixed
    return found.stdout.strip() or "unknown"


def _machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}"
