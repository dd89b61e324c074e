"""Case files: which form one has, and how its cases went."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conformance import kai, kueue
from tests.conformance.forms import Json, UnreadableCaseError
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

    @property
    def is_read(self) -> bool:
        """Whether every case of it could be read."""
        return not any(verdict.unreadable for verdict in self.verdicts)


def judge_file(path: Path) -> Judged:
    """Runs every case of a file. Raises UnreadableFileError."""
    try:
        cases = json.loads(path.read_text())["cases"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableFileError(f"{path}: no JSON object with cases: {error}") from error
    if not (isinstance(cases, list) and all(isinstance(case, dict) for case in cases)):
        raise UnreadableFileError(f"{path}: cases must be a list of objects")
    if not cases:
        raise UnreadableFileError(f"{path}: no cases")
    is_kueue = all("levels" in case or "algorithm" in case for case in cases)
    is_kai = all("actions" in case or "jobs" in case for case in cases)
    judge: Callable[[Json], Verdict]
    compares: tuple[Compare, ...]
    if is_kueue:
        judge, compares = kueue.judge, kueue.COMPARES
    elif is_kai:
        judge, compares = kai.judge, kai.COMPARES
    else:
        raise UnreadableFileError(f"{path}: neither Kueue TAS cases nor KAI cases")
    verdicts = tuple(
        _judged(judge, {**case, "id": _text(case, "id", f"#{number}")}, compares)
        for number, case in enumerate(cases)
    )
    return Judged(name=path.name, compares=compares, verdicts=verdicts)


def _judged(judge: Callable[[Json], Verdict], case: Json, compares: tuple[Compare, ...]) -> Verdict:
    try:
        return judge(case)
    except UnreadableCaseError as error:
        return Verdict(
            case=case["id"], agrees=dict.fromkeys(compares, False), unreadable=str(error)
        )
    except Exception as error:  # noqa: BLE001 - one odd case must not hide how the others went
        return Verdict(
            case=case["id"],
            name=_text(case, "name"),
            agrees=dict.fromkeys(compares, False),
            differs=f"{type(error).__name__}: {error}",
        )


def _text(case: Json, key: str, default: str = "") -> str:
    return str(case.get(key, default))
