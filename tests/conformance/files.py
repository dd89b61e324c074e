"""Case files: which form one has, and how its cases went."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import kai, kueue
from tests.conformance.selecting import Json
from tests.conformance.verdict import Compare, Verdict, lines


class UnreadableFileError(Exception):
    """A file that holds no cases of a known form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """All cases of one file."""

    name: str
    compares: tuple[Compare, ...]
    verdicts: tuple[Verdict, ...]

    def lines(self) -> Iterator[str]:
        """What to tell about it."""
        return lines(self.name, self.verdicts, self.compares)


def judge_file(path: Path) -> Judged:
    """Runs every case of a file. Raises UnreadableFileError."""
    try:
        cases: list[Json] = json.loads(path.read_text())["cases"]
        is_kueue = all("levels" in case and "algorithm" in case for case in cases)
        is_kai = all("actions" in case and "jobs" in case for case in cases)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UnreadableFileError(f"{path}: {error}") from error
    judge: Callable[[Json], Verdict]
    compares: tuple[Compare, ...]
    if is_kueue:
        judge, compares = kueue.judge, kueue.COMPARES
    elif is_kai:
        judge, compares = kai.judge, kai.COMPARES
    else:
        raise UnreadableFileError(f"{path}: neither Kueue TAS cases nor KAI cases")
    verdicts = tuple(_judged(judge, case, compares) for case in cases)
    return Judged(name=path.name, compares=compares, verdicts=verdicts)


def _judged(judge: Callable[[Json], Verdict], case: Json, compares: tuple[Compare, ...]) -> Verdict:
    try:
        return judge(case)
    except Exception as error:  # noqa: BLE001 - one odd case must not hide how the others went
        return Verdict(
            case=case["id"],
            name=case["name"],
            agrees=dict.fromkeys(compares, False),
            differs=f"{type(error).__name__}: {error}",
        )
