"""Job files on disk and stdin: which files, which documents in each."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import yaml

from cli.client import Document
from cli.failures import CommandError

FILE_ENDINGS = (".yaml", ".yml", ".json")
BYTES_MAX = 64 << 20
"""Of one file; the server has its own, smaller limit for one document."""

_SEPARATOR = re.compile(r"^---(?:[ \t].*)?$", re.MULTILINE)


def read_documents(names: tuple[str, ...]) -> Iterator[Document]:
    """Every document of the files, directories (in order of name) and stdin (`-`).

    Raises CommandError if a file can not be read or holds nothing.
    """
    for name in names:
        if name == "-":
            yield from _split(_text(sys.stdin.buffer, "stdin"), source="-", is_json=False)
        else:
            for path in _files(Path(name)):
                yield from _split(_opened(path), source=str(path), is_json=path.suffix == ".json")


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    found = sorted(p for p in path.iterdir() if p.suffix in FILE_ENDINGS and p.is_file())
    if not found:
        raise CommandError(
            f"no {', '.join(FILE_ENDINGS)} files in {path}",
            reason="NoFiles",
            way_out="dally apply -f FILE",
        )
    return found


def _opened(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return _text(file, str(path))
    except OSError as error:
        raise _unreadable(str(path), error) from error


def _text(file: BinaryIO, name: str) -> str:
    """What a file says; of an endless one no more is read than is too much."""
    data = file.read(BYTES_MAX + 1)
    if len(data) > BYTES_MAX:
        raise CommandError(
            f"{name} is larger than {BYTES_MAX >> 20} MiB",
            reason="FileTooLarge",
            way_out="dally explain job",
        )
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError | UnicodeDecodeError) -> CommandError:
    return CommandError(
        f"can't read {name}: {error}", reason="UnreadableFile", way_out="dally apply -f FILE"
    )


def _split(text: str, *, source: str, is_json: bool) -> Iterator[Document]:
    if is_json:
        yield _document(text, source=source, media_type="application/json")
        return
    starts = [0, *(match.end() for match in _SEPARATOR.finditer(text))]
    ends = [*(match.start() for match in _SEPARATOR.finditer(text)), len(text)]
    parts = [(start, text[start:end]) for start, end in zip(starts, ends, strict=True)]
    filled = [(start, part) for start, part in parts if _says_something(part)]
    if not filled:
        raise CommandError(
            f"nothing in {source}", reason="EmptyFile", way_out="dally explain job --recursive"
        )
    for start, part in filled:
        padding = "\n" * text.count("\n", 0, start)
        yield _document(padding + part, source=source, media_type="application/yaml")


def _says_something(part: str) -> bool:
    lines = (line.strip() for line in part.splitlines())
    return any(line and not line.startswith(("#", "...")) for line in lines)


def _document(text: str, *, source: str, media_type: str) -> Document:
    # What can not be read here goes to the server all the same: its answer says what and where.
    try:
        value = yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError, ValueError):
        value = None
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return Document(
        text=text,
        media_type=media_type,
        source=source,
        name=_text_at(metadata, "name"),
        project=_text_at(metadata, "project"),
        kind=_text_at(value, "kind"),
    )


def _text_at(mapping: object, key: str) -> str:
    value = mapping.get(key) if isinstance(mapping, dict) else None
    return value if isinstance(value, str) else ""
