"""The project's own files, read and parsed once, for the tests that look at the source."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("scheduler", "api", "cli", "server", "simulator", "runtime", "migrations")
"""What ships."""
ALONGSIDE = ("bench", "examples", "tools", "tests")
CORE = ("domain", "network", "policies", "engine", "ports", "control")
"""Packages of scheduler that decide: plain Python, the same live and in the simulator."""

_GENERATED = {"node_modules", "build", "dist", "__pycache__"}
_TEXT = {
    *(".py", ".md", ".toml", ".yaml", ".yml", ".json", ".txt", ".sh", ".ini", ".cfg", ".lock"),
    *(".mako", ".example", ".html", ".js", ".css", ".tpl", ".mod"),
}
_TEXT_NAMES = {"Makefile", "LICENSE", "Dockerfile", "run", ".gitignore"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One Python file."""

    path: Path
    """Relative to the project's root."""
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        """The dotted name it is imported by."""
        parts = list(self.path.with_suffix("").parts)
        if parts[0] == "runtime":
            parts = parts[1:]
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function and method."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def imports(self) -> Iterator[tuple[int, str]]:
        """Line and dotted name of everything imported, as far down as the text says."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def modules(*folders: str) -> tuple[Module, ...]:
    """All Python files under these folders, by path."""
    return tuple(
        _parsed(file) for file in files() if file.suffix == ".py" and file.parts[0] in folders
    )


@cache
def _parsed(file: Path) -> Module:
    text = (ROOT / file).read_text()
    return Module(path=file, text=text, tree=ast.parse(text))


def core_modules() -> Iterator[Module]:
    """The modules that decide."""
    for module in modules("scheduler"):
        if len(module.path.parts) > 2 and module.path.parts[1] in CORE:
            yield module


@cache
def files() -> tuple[Path, ...]:
    """Every text file of the project, relative to its root, by path."""
    return tuple(sorted(_under(ROOT)))


def _under(folder: Path) -> Iterator[Path]:
    for entry in folder.iterdir():
        if entry.is_dir():
            if not entry.is_symlink() and not _is_made(entry):
                yield from _under(entry)
        elif entry.suffix in _TEXT or entry.name in _TEXT_NAMES:
            yield entry.relative_to(ROOT)


def _is_made(folder: Path) -> bool:
    """Whether a folder holds what tools have made."""
    name = folder.name
    if name == ".ci":
        return False
    return name.startswith(".") or name in _GENERATED or name.endswith(".egg-info")


def anchors(markdown: str) -> set[str]:
    """The anchors that headings of a page make."""
    headings = re.findall(r"^#{1,6} +(.+?) *$", without_code(markdown), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def without_code(markdown: str) -> str:
    """A page without its code blocks."""
    return re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
