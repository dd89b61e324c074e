"""The only place that prints: tables, JSON, YAML, notes; no text can steer the terminal."""

import json
import re
import sys
from collections.abc import Iterable, Sequence

import yaml
from pydantic import JsonValue

from api.problems import Problem
from cli.failures import CommandError, ServerError

NOTHING = "<none>"

_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_BREAKS = re.compile(r"[\t\n]+")


def neutral(text: str) -> str:
    """`text` with every character that steers a terminal made visible; tabs and line ends stay."""
    return _UNPRINTABLE.sub(_visible, text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"  # noqa: PLR2004 - one byte


def neutral_log(text: str) -> str:
    """A piece of a log, made harmless: carriage returns end lines, the rest as in `neutral`."""
    return neutral(text.replace("\r\n", "\n").replace("\r", "\n"))


def cell(value: object) -> str:
    """A table cell: one line, never empty."""
    if value is None or value == "":
        return NOTHING
    if isinstance(value, str) and value.isascii() and value.isprintable():
        return value  # Nearly every cell, and long lists have many.
    if isinstance(value, bool):
        # As files, the wire and arguments have it.
        return "true" if value else "false"
    return _BREAKS.sub(" ", neutral(str(value)))


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], *, is_headed: bool) -> None:
    """Columns wide enough for their content, two spaces apart."""
    lines = [[cell(value) for value in row] for row in rows]
    if is_headed:
        lines.insert(0, list(headers))
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(headers))]
    for line in lines:
        padded = "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True))
        print(padded.rstrip())


def fields(pairs: Iterable[tuple[str, object]], *, indent: int = 0) -> None:
    """Lines `Name:  value`, the values in one column."""
    kept = [(name, value) for name, value in pairs if value is not None and value != ""]
    width = max((len(name) for name, _ in kept), default=0) + 2
    for name, value in kept:
        print(" " * indent + f"{name}:".ljust(width) + f" {cell(value)}")


def counted(number: int, noun: str) -> str:
    """`1 GPU`, `2 GPUs`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def heading(text: str) -> None:
    """A section of `describe`."""
    print(f"\n{neutral(text)}:")


def line(text: str) -> None:
    """One line on stdout."""
    print(neutral(text))


def raw_log(text: str) -> None:
    """Log text on stdout, harmless, at once."""
    sys.stdout.write(neutral_log(text))
    sys.stdout.flush()


def raw_bytes(data: bytes) -> None:
    """Exactly these bytes on stdout, at once: what `--raw` asks for."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def as_json(value: JsonValue) -> None:
    """The server's answer as JSON, indented."""
    _print_json(json.dumps(value, indent=2, ensure_ascii=False))


def as_json_line(value: JsonValue) -> None:
    """One object a line, at once."""
    _print_json(json.dumps(value, ensure_ascii=False))


def _print_json(text: str) -> None:
    # JSON escapes C0 itself; what else steers a terminal is escaped the way JSON does.
    print(_UNPRINTABLE.sub(lambda match: f"\\u{ord(match.group()):04x}", text), flush=True)


def as_yaml(value: JsonValue) -> None:
    """The server's answer as YAML."""
    print(yaml.safe_dump(value, sort_keys=False, allow_unicode=False).rstrip())


def note(text: str) -> None:
    """Progress or advice, on stderr."""
    print(neutral(text), file=sys.stderr, flush=True)


def problem(found: Problem, *, source: str = "") -> None:
    """What the server refused, every error of it on a line, and where to read on."""
    # With entries the detail would say the first of them twice.
    said = found.title if found.errors else found.detail or found.title
    note(f"error: {found.reason}: {said}")
    for entry in found.errors:
        place = f"{source}:{entry.line}:{entry.column}: " if source and entry.line else ""
        pointer = f"{entry.pointer}: " if entry.pointer else ""
        note(f"  {place}{pointer}{entry.detail} ({entry.reason})")
    note(f"  see {found.type}")


def failure(error: CommandError, *, source: str = "") -> None:
    """An error with its code and the way out of it; `source` is the file that it speaks of."""
    if isinstance(error, ServerError):
        problem(error.problem, source=source)
    else:
        note(f"error: {error.reason}: {error.detail}")
    if error.way_out:
        note(f"  try: {error.way_out}")
