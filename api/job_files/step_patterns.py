"""`communication.stepPattern`: a user's regular expression that finds step times in a log.

RE2 matches in a time linear in the text, whatever the pattern, and within bounded memory: no
pattern can stall the server. It has neither look-around nor back-references.
"""

from dataclasses import dataclass
from math import isfinite
from typing import Protocol, cast

import re2

LINE_CHARACTERS_MAX = 4096
"""A step time stands at the beginning of its line; the rest of a longer one is not looked at."""


class StepPatternError(ValueError):
    """A pattern that can not be used; the text says why."""


class _Match(Protocol):
    def group(self, number: int) -> str | None: ...


class _Pattern(Protocol):
    """What is used of a compiled pattern; re2 has no types of its own."""

    @property
    def groups(self) -> int: ...

    def search(self, text: str) -> _Match | None: ...


@dataclass(frozen=True, slots=True)
class StepPattern:
    """A pattern that can be used; made by `step_pattern`."""

    compiled: _Pattern

    def step_s(self, line: str) -> float | None:
        """The step time that a line of a log tells; None if it tells none."""
        found = self.compiled.search(line[:LINE_CHARACTERS_MAX])
        told = found.group(1) if found is not None else None
        if told is None:
            return None
        try:
            step_s = float(told)
        except ValueError:
            return None
        return step_s if isfinite(step_s) and step_s > 0.0 else None


def step_pattern(text: str) -> StepPattern:
    """The pattern of a job file. Raises StepPatternError."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = cast("_Pattern", re2.compile(text, options))
    except re2.error as error:
        said = error.args[0] if error.args else ""
        why = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
        raise StepPatternError(f"is no regular expression of RE2: {why}") from error
    if compiled.groups < 1:
        detail = "has no group: put parentheses around the number, as in `step_time=([0-9.]+)`"
        raise StepPatternError(detail)
    return StepPattern(compiled)
