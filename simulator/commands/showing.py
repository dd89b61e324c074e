"""Where tables go: as wide as the terminal, and never wrapped for a file or a pipe."""

from rich.console import Console

WIDTH_IN_FILES = 220


def console() -> Console:
    """The console of this process's output."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDTH_IN_FILES)
