"""JSON under a budget: a cheap look at brackets first, then the library, without duplicates."""

import json
import re
from json import JSONDecodeError

from api.documents.document import (
    DEPTH_MAX,
    NODES_MAX,
    Document,
    Json,
    MalformedError,
    Place,
    real_number,
    too_deep,
    too_many,
    whole_number,
)

# Strings whole. Possessive, and content to end with the text, so that no input makes it go back.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)


def read_json(text: str) -> Document:
    """The document. Raises MalformedError."""
    _within_budget(text)
    try:
        value: Json = json.loads(
            text,
            object_pairs_hook=_without_duplicates,
            parse_int=whole_number,
            parse_float=real_number,
            parse_constant=_refuse_constant,
        )
    except JSONDecodeError as error:
        place = Place(error.lineno, error.colno)
        raise MalformedError("MalformedBody", f"is not JSON: {error.msg}", place) from error
    return Document(value=value)


def _within_budget(text: str) -> None:
    """Refuse deep or crowded text before a parser works on it."""
    depth = nodes = strings = 0
    for token in _TOKEN.finditer(text):
        sign = text[token.start()]
        if sign == '"':
            strings += 1
            if strings > 2 * nodes + 2:
                # No value stands so close to the next: the parser stops here at the latest.
                return
        elif sign in "[{":
            depth += 1
            nodes += 1
        elif sign == ",":
            nodes += 1
        else:
            depth -= 1
        if depth > DEPTH_MAX:
            raise too_deep()
        if nodes > NODES_MAX:
            raise too_many()


def _without_duplicates(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise MalformedError(
                    "DuplicateKey", f"has the key {key[:80]!r} twice in one object"
                )
            seen.add(key)
    return members


def _refuse_constant(name: str) -> Json:
    raise MalformedError("InvalidNumber", f"has {name}, which is not a JSON number")
