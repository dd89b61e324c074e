"""What all wire types share: camelCase on the wire, snake_case in Python, nothing unknown."""

import re
from math import isfinite
from typing import Literal

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel

API_VERSION: Literal["dally/v1"] = "dally/v1"
NUMBER_LENGTH_MAX = 19
"""Digits of a number, in bodies and in texts."""

_NUMBER = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?", re.IGNORECASE)
"""Python reads more than that as a number, e.g. 1_0."""


class Wire(BaseModel):
    """Base of every wire type. Reads strictly: no number is taken for a string, or the reverse."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        extra="forbid",
        strict=True,
        frozen=True,
        use_attribute_docstrings=True,
    )


class Reply(Wire):
    """Base of what the server sends. A client ignores what a newer server adds."""

    model_config = ConfigDict(extra="ignore", strict=False)


def value_of(text: str) -> JsonValue:
    """A switch, a whole number or a number where the text looks like one; else the text.

    So values of knobs are read that do not come as JSON.
    """
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
