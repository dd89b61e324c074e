"""What all wire types share: camelCase on the wire, snake_case in Python, nothing unknown."""

from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

API_VERSION: Literal["dally/v1"] = "dally/v1"


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
