"""The little Markdown that generated pages need."""

from collections.abc import Iterable, Iterator

MADE = "<!-- Made by `make docs` from the code; do not edit. -->"


def head(title: str, text: str) -> list[str]:
    """The top of a page."""
    return [f"# {title}", "", MADE, "", text, ""]


def table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    """A table; nothing if it has no rows."""
    names = list(columns)
    lines = [_row(cells) for cells in rows]
    if lines:
        yield _row(names)
        yield "|" + "---|" * len(names)
        yield from lines
        yield ""


def code(text: str) -> str:
    """`text` as code."""
    return f"`{text}`" if text else ""


def page(lines: Iterable[str]) -> str:
    """The lines as a file that ends in one line break."""
    return "\n".join(lines).rstrip() + "\n"


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |"
