"""Values of knobs that come as text: what `dally set policy` and a plan's `set` say."""

from math import isfinite

from pydantic import JsonValue

NUMBER_LENGTH_MAX = 19
"""Digits of a number, as in bodies."""


def value_of(text: str) -> JsonValue:
    """A switch, a whole number or a number where the text looks like one; else the text."""
    if text in ("true", "false"):
        return text == "true"
    if len(text) > NUMBER_LENGTH_MAX:
        return text
    for reader in (int, float):
        try:
            number = reader(text)
        except ValueError:
            continue
        # `nan` and `inf` are no numbers in JSON: the knob says what it wants instead.
        return number if isfinite(number) else text
    return text
