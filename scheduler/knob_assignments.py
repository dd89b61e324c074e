"""Knobs as people type them, KNOB=VALUE: in options of commands and parameters of addresses."""

import re
from collections.abc import Iterable
from math import isfinite
from typing import Final

from pydantic import JsonValue

NUMBER_LENGTH_MAX: Final = 19
"""Digits of a number."""

QUOTED_MAX: Final = 80
"""So much of a text is told back."""

_NUMBER = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", re.IGNORECASE)
"""Python reads more than that as a number, e.g. 1_0."""


class AssignmentError(ValueError):
    """A text is no assignment, or names a knob that another one has named."""


def assigned(texts: Iterable[str]) -> dict[str, JsonValue]:
    """Values by the name of their knob, as `knob_settings.read_knobs` reads them.

    Raises AssignmentError.
    """
    found: dict[str, JsonValue] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise AssignmentError(f"{text[:QUOTED_MAX]!r} is not KNOB=VALUE")
        if name in found:
            raise AssignmentError(f"{name[:QUOTED_MAX]!r} is named twice; which is meant?")
        found[name] = _value_of(value)
    return found


def _value_of(text: str) -> JsonValue:
    """A switch, a whole number or a number where the text looks like one; else the text."""
    if text in ("true", "false"):
        return text == "true"
    if len(text) > NUMBER_LENGTH_MAX or not _NUMBER.fullmatch(text):
        return text
    for reader in (int, float):
        try:
            number = reader(text)
        except ValueError:
            continue
        # `nan` and `inf` are no numbers in JSON: the knob says what it wants instead.
        return number if isfinite(number) else text
    return text
