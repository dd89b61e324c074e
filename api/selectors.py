"""labelSelector and fieldSelector: pairs of equalities, nothing else."""

import re
from collections.abc import Collection

from api.errors import RequestError
from api.job_files.validation import nearest

_LENGTH_MAX = 1024
_PAIR = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._/-]*)\s*==?\s*([A-Za-z0-9._-]*)\s*")


def read_selector(text: str, *, parameter: str) -> tuple[tuple[str, str], ...]:
    """The pairs in `a=1,b=2`. Raises RequestError."""
    if len(text) > _LENGTH_MAX:
        raise RequestError("InvalidSelector", f"{parameter} is longer than {_LENGTH_MAX}")
    if not text.strip():
        return ()
    pairs = []
    for part in text.split(","):
        match = _PAIR.fullmatch(part)
        if match is None:
            detail = f"{parameter} has {part[:80]!r}; write key=value, joined by commas"
            raise RequestError("InvalidSelector", detail)
        pairs.append((match[1], match[2]))
    return tuple(pairs)


def read_field_selector(text: str, *, fields: Collection[str]) -> dict[str, str]:
    """The pairs, each on one of `fields` and none twice. Raises RequestError."""
    chosen: dict[str, str] = {}
    for name, value in read_selector(text, parameter="fieldSelector"):
        if name not in fields:
            detail = f"fieldSelector can not use {name!r}{nearest(name, sorted(fields))}"
            raise RequestError("InvalidSelector", detail)
        if chosen.setdefault(name, value) != value:
            raise RequestError("InvalidSelector", f"fieldSelector asks two values of {name}")
    return chosen
