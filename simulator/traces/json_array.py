"""A JSON array read element by element, so that a large file never lies in memory whole."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TextIO

from simulator.errors import TraceError
from simulator.traces.source import TOO_LARGE

CHARS_A_READ = 1 << 16
BLANKS = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Element:
    """One element of the array."""

    line: int
    """Line it starts on, counted from 1."""
    value: object


class _Window:
    """A sliding piece of the text, and the line it starts on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.text = ""
        self.line = 1
        self.is_at_end = False

    def extend(self) -> None:
        """Read more: at least as much as is held, so that a long element costs no more than
        twice its length."""
        more = self._stream.read(max(CHARS_A_READ, len(self.text)))
        self.is_at_end = not more
        self.text += more

    def drop(self, chars: int) -> None:
        self.line += self.text.count("\n", 0, chars)
        self.text = self.text[chars:]

    def next_char(self) -> str:
        """The next character that is not blank, without taking it; empty at the end."""
        while True:
            stripped = self.text.lstrip(BLANKS)
            if stripped or self.is_at_end:
                self.drop(len(self.text) - len(stripped))
                return stripped[:1]
            self.extend()


def elements(stream: TextIO, source: str) -> Iterator[Element]:
    """The elements of the array that is the whole text."""
    window = _Window(stream)
    if window.next_char() != "[":
        raise TraceError(source, window.line, "is not a JSON array")
    window.drop(1)
    decoder = json.JSONDecoder()
    is_first = True
    while window.next_char() != "]":
        if not is_first:
            if window.next_char() != ",":
                raise TraceError(source, window.line, "expected `,` or `]` after an element")
            window.drop(1)
            window.next_char()
        is_first = False
        yield _element(window, decoder, source)


def _element(window: _Window, decoder: json.JSONDecoder, source: str) -> Element:
    while True:
        try:
            value, end = decoder.raw_decode(window.text)
        except json.JSONDecodeError as error:
            if window.is_at_end:
                line = window.line + error.lineno - 1
                raise TraceError(source, line, f"not JSON: {error.msg}") from None
        except (ValueError, RecursionError):
            raise TraceError(source, window.line, TOO_LARGE) from None
        else:
            # A number could go on in the part that is not read yet.
            if end < len(window.text) or window.is_at_end:
                element = Element(window.line, value)
                window.drop(end)
                return element
        window.extend()
