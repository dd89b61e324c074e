"""What a body says as plain values, with the places of its parts, and the limits it must keep."""

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.domain.errors import SpecProblem

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

BYTES_MAX = 1024 * 1024
DEPTH_MAX = 32
NODES_MAX = 10_000

MEMBERS_MAX = 512
"""Members of one mapping: no body needs more, and each one more may be one more finding."""

DIGITS_MAX = 19
"""Longest whole number: every stored number fits in 64 bits."""

_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufffe\uffff]"
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where something stands in the text, both counted from 1."""

    line: int
    column: int


class MalformedError(ValueError):
    """A body that can not be read at all."""

    def __init__(self, reason: str, detail: str, place: Place | None = None) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail
        self.place = place


class Mark(Protocol):
    """A parser's place in the text, both counted from 0."""

    @property
    def line(self) -> int:
        """Line."""
        ...

    @property
    def column(self) -> int:
        """Column."""
        ...


def place_of(mark: Mark | None) -> Place | None:
    """The place a parser's mark means."""
    return None if mark is None else Place(mark.line + 1, mark.column + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """A body that could be read."""

    value: Json
    marks: Mapping[int, Mapping[str | int, Mark | None]] = field(default_factory=dict)
    """Places of the parts of a collection, by the `id` of that collection; empty for JSON.

    Not by pointer: a pointer is only needed for the few parts something is wrong with.
    """

    def place(self, pointer: str) -> Place | None:
        """Where what `pointer` names stands: the part itself, or the closest one around it."""
        node = self.value
        found: Mark | None = None
        for key in parts(pointer):
            if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                found = self.marks.get(id(node), {}).get(int(key), found)
                node = node[int(key)]
            elif isinstance(node, dict) and key in node:
                found = self.marks.get(id(node), {}).get(key, found)
                node = node[key]
            else:
                break
        return place_of(found)


def child(pointer: str, key: str | int) -> str:
    """Pointer of a member or an item of what `pointer` names (RFC 6901)."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def parts(pointer: str) -> list[str]:
    """The names a pointer goes through."""
    return [p.replace("~1", "/").replace("~0", "~") for p in pointer.split("/")[1:]]


def too_deep(place: Place | None = None) -> MalformedError:
    """More than DEPTH_MAX levels of nesting."""
    return MalformedError("TooDeep", f"is nested more than {DEPTH_MAX} levels deep", place)


def too_many(place: Place | None = None) -> MalformedError:
    """More than NODES_MAX values."""
    return MalformedError("TooManyValues", f"has more than {NODES_MAX} values", place)


def whole_number(text: str) -> int:
    """A whole number of bounded length."""
    if len(text.lstrip("+-")) > DIGITS_MAX:
        raise MalformedError("InvalidNumber", f"has a number of more than {DIGITS_MAX} digits")
    return int(text)


def real_number(text: str) -> float:
    """A finite number."""
    number = float(text)
    if not math.isfinite(number):
        raise MalformedError("InvalidNumber", f"has a number that is not finite: {text[:40]}")
    return number


def body_problems(value: Json) -> Iterator[SpecProblem]:
    """What no body may have, whatever it means: too large mappings; text that acts."""
    sizes = tuple(size_problems(value))
    # What is too large is not looked into any further.
    yield from sizes or text_problems(value)


def text_problems(value: Json) -> Iterator[SpecProblem]:
    """Strings and keys with characters that no terminal, log or database should be given."""
    stack: list[tuple[str, Json]] = [("", value)]
    while stack:
        pointer, node = stack.pop()
        if isinstance(node, str):
            yield from _character_problem(pointer, node, what="has")
        elif isinstance(node, list):
            stack.extend((child(pointer, i), item) for i, item in reversed([*enumerate(node)]))
        elif isinstance(node, dict):
            for key in node:
                yield from _character_problem(pointer, key, what="has a name with")
            stack.extend((child(pointer, k), item) for k, item in reversed([*node.items()]))


def size_problems(value: Json) -> Iterator[SpecProblem]:
    """Mappings with more members than any body has; cheap, unlike checking each of them."""
    stack: list[tuple[str, Json]] = [("", value)]
    while stack:
        pointer, node = stack.pop()
        if isinstance(node, dict):
            if len(node) > MEMBERS_MAX:
                detail = f"has {len(node)} members; at most {MEMBERS_MAX} are read"
                yield SpecProblem(pointer=pointer, reason="OutOfRange", detail=detail)
            else:
                stack.extend((child(pointer, k), item) for k, item in node.items())
        elif isinstance(node, list):
            stack.extend((child(pointer, i), item) for i, item in enumerate(node))


def _character_problem(pointer: str, text: str, *, what: str) -> Iterator[SpecProblem]:
    found = _FORBIDDEN.search(text)
    if found is not None:
        detail = f"{what} the character U+{ord(found[0]):04X}, which is not allowed"
        yield SpecProblem(
            pointer=pointer.encode("utf-8", "replace").decode(),
            reason="InvalidCharacter",
            detail=detail,
        )
