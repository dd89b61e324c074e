"""YAML under a budget: the parser's events, without anchors, aliases, tags and surprises.

Plain words are read as YAML 1.2's core schema reads them: `no` and `on` are strings, `010` and
`1:30` are strings, `1e3` is a number. Whoever means something else is told by the type check.
"""

import re
from dataclasses import dataclass

import yaml
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    CollectionStartEvent,
    DocumentStartEvent,
    Event,
    ScalarEvent,
    SequenceStartEvent,
)

from api.documents.document import (
    DEPTH_MAX,
    NODES_MAX,
    Document,
    Json,
    MalformedError,
    Mark,
    place_of,
    real_number,
    too_deep,
    too_many,
    whole_number,
)

_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_WHOLE = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_REAL = re.compile(r"[-+]?(\.[0-9]+|(0|[1-9][0-9]*)(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_BEGINS_NUMBER = frozenset("+-.0123456789")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF|nan|NaN|NAN)")


def read_yaml(text: str) -> Document:
    """The one document in `text`. Raises MalformedError."""
    reader = _Reader()
    try:
        # The parser works event by event, so a hostile text is left as soon as it shows.
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            reader.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        detail = f"is not YAML: {error.problem or error.context}"
        raise MalformedError("MalformedBody", detail, place_of(mark)) from error
    except yaml.YAMLError as error:
        first_line = str(error).splitlines()[0][:200]
        raise MalformedError("MalformedBody", f"is not YAML: {first_line}") from error
    return Document(value=reader.root, marks=reader.marks)


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    items: list[Json] | None
    members: dict[str, Json] | None
    marks: dict[str | int, Mark | None]
    key: str | None = None
    """Key whose value comes next."""


class _Reader:
    """Builds plain values from events, without recursion."""

    def __init__(self) -> None:
        self.root: Json = None
        self.marks: dict[int, dict[str | int, Mark | None]] = {}
        self._open: list[_Open] = []
        self._values = 0
        self._documents = 0

    def take(self, event: Event) -> None:
        """One more event."""
        if isinstance(event, ScalarEvent):
            self._take_scalar(event)
        elif isinstance(event, CollectionEndEvent):
            self._open.pop()
        elif isinstance(event, CollectionStartEvent):
            self._take_collection(event)
        elif isinstance(event, AliasEvent):
            raise _alias(event)
        elif isinstance(event, DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                place = place_of(event.start_mark)
                raise MalformedError("MultipleDocuments", "holds more than one document", place)

    def _take_scalar(self, event: ScalarEvent) -> None:
        if event.anchor is not None:
            raise _alias(event)
        if event.tag is not None:
            raise _tag(event, event.tag)
        within = self._open[-1] if self._open else None
        if within is not None and within.members is not None and within.key is None:
            _take_key(within, within.members, event)
        else:
            self._put(within, _scalar(event), event.start_mark)

    def _take_collection(self, event: CollectionStartEvent) -> None:
        if event.anchor is not None:
            raise _alias(event)
        if event.tag is not None:
            raise _tag(event, event.tag)
        if len(self._open) >= DEPTH_MAX:
            raise too_deep(place_of(event.start_mark))
        within = self._open[-1] if self._open else None
        if within is not None and within.members is not None and within.key is None:
            place = place_of(event.start_mark)
            raise MalformedError("MalformedBody", "has a key that is not a word", place)
        opened = (
            _Open(items=[], members=None, marks={})
            if isinstance(event, SequenceStartEvent)
            else _Open(items=None, members={}, marks={})
        )
        value: Json = opened.items if opened.items is not None else opened.members
        self.marks[id(value)] = opened.marks
        self._put(within, value, event.start_mark)
        self._open.append(opened)

    def _put(self, within: _Open | None, value: Json, mark: Mark | None) -> None:
        self._values += 1
        if self._values > NODES_MAX:
            raise too_many(place_of(mark))
        if within is None:
            self.root = value
        elif within.items is not None:
            within.marks[len(within.items)] = mark
            within.items.append(value)
        else:
            assert within.members is not None
            assert within.key is not None
            within.members[within.key] = value
            within.key = None


def _take_key(within: _Open, members: dict[str, Json], event: ScalarEvent) -> None:
    key: str = event.value
    if key in members:
        detail = f"has the key {key[:80]!r} twice in one mapping"
        raise MalformedError("DuplicateKey", detail, place_of(event.start_mark))
    if key == "<<" and event.implicit[0]:
        detail = "uses a merge key (<<); write the members out"
        raise MalformedError("AliasNotAllowed", detail, place_of(event.start_mark))
    within.key = key
    within.marks[key] = event.start_mark


def _alias(event: Event) -> MalformedError:
    detail = "uses an anchor or an alias; write the value out"
    return MalformedError("AliasNotAllowed", detail, place_of(event.start_mark))


def _tag(event: Event, tag: str) -> MalformedError:
    detail = f"uses the tag {tag[:80]!r}; put the value in quotes to make it text"
    return MalformedError("TagNotAllowed", detail, place_of(event.start_mark))


def _scalar(event: ScalarEvent) -> Json:
    """What a word means. `implicit[0]` says that it was written plainly, without quotes."""
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _BEGINS_NUMBER:
        return text
    try:
        return _number(text)
    except MalformedError as error:
        place = place_of(event.start_mark)
        raise MalformedError(error.reason, error.detail, place) from error


def _number(text: str) -> int | float | str:
    """The number `text` is; `text` itself if it is none."""
    if _WHOLE.fullmatch(text):
        return whole_number(text)
    if _REAL.fullmatch(text):
        return real_number(text)
    if _NOT_FINITE.fullmatch(text):
        raise MalformedError("InvalidNumber", f"has {text}, which is not a finite number")
    return text
