"""The shape holds: who imports whom, what the core may use, and one loop for both worlds."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.source_tree import PACKAGES, ROOT, Module, core_modules, modules

Node = TypeVar("Node", bound=ast.AST)
OURS = {"scheduler", "api", "cli", "server", "simulator", "migrations", "dally_runtime", "bench"}
ANYTHING = "everything"

PURE = {
    *("__future__", "abc", "array", "bisect", "collections", "contextlib", "copy", "dataclasses"),
    *(
        "datetime",
        "decimal",
        "enum",
        "fractions",
        "functools",
        "graphlib",
        "hashlib",
        "heapq",
        "itertools",
    ),
    *("json", "math", "numbers", "operator", "re", "statistics", "string", "textwrap", "types"),
    *("typing", "warnings"),
}
"""What the core may use of the standard library: nothing that reads a clock, rolls dice, waits,
starts threads or touches the outside. (Of datetime the linter bans what reads the clock.)"""

IMPURE_CALLS = {
    "open": "Files are read outside; the facts come in through the Snapshot.",
    "print": "Only cli/output.py prints; the core returns values.",
    "input": "Facts come in as arguments.",
    "id": "An address differs between two runs; order by an id of ours.",
    "hash": "The hash of a string differs between two runs; order by an id of ours.",
    "eval": "Data is parsed at the edge.",
    "exec": "Data is parsed at the edge.",
}

MAY_CALL = {("exec", Path("scheduler/domain/copying.py"))}
"""Decision record 0013."""


def test_the_import_contracts_are_kept() -> None:
    # On its own: the linter sets up logging anew, and that silences every logger there is.
    linter = [str(Path(sys.executable).with_name("lint-imports")), "--no-logo", "--no-cache"]
    ended = subprocess.run(  # noqa: S603 - our own linter
        linter, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def allowed_imports() -> dict[str, set[str]]:
    """Package -> what it may import of ours: the table in ARCHITECTURE.md is the rule itself."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rows = re.findall(r"^\| `([\w.]+)` \| (.+?) \|$", text, flags=re.MULTILINE)
    return {
        package: {ANYTHING} if cell.startswith(ANYTHING) else set(re.findall(r"`([\w.*]+)`", cell))
        for package, cell in rows
    }


def test_every_package_stands_in_the_import_table() -> None:
    packages = {
        ".".join(module.path.parts[:2]) if module.path.parts[0] == "scheduler" else module.name
        for module in modules(*PACKAGES)
        if module.path.name == "__init__.py"
        and len(module.path.parts) == (3 if module.path.parts[0] in ("scheduler", "runtime") else 2)
    }
    missing = packages - set(allowed_imports())
    assert not missing, f"add a row for {sorted(missing)} to the import table in ARCHITECTURE.md"


def test_nobody_imports_what_the_table_forbids() -> None:
    allowed = allowed_imports()
    broken = [
        f"{module.path}:{line}: {name} is not allowed in {owner}"
        for module in modules(*PACKAGES)
        for owner in [_owner(module.name, allowed)]
        for line, name in module.imports()
        if name.split(".")[0] in OURS and not _may(owner, name, allowed)
    ]
    assert not broken, "\n".join([*broken, "See the import table in ARCHITECTURE.md."])


def _owner(name: str, allowed: dict[str, set[str]]) -> str:
    """The row of the table that a module belongs to: the longest one that fits."""
    owners = [package for package in allowed if _is_inside(name, package)]
    return max(owners, key=len, default="scheduler")


def _may(owner: str, name: str, allowed: dict[str, set[str]]) -> bool:
    rules = allowed.get(owner, set()) | {owner}
    return ANYTHING in rules or any(_is_inside(name, rule) for rule in rules)


def _is_inside(name: str, package: str) -> bool:
    pattern = re.escape(package).replace(r"\*", r"\w+")
    return re.match(rf"{pattern}(\.|$)", name) is not None


def test_a_package_file_says_what_belongs_there_and_holds_no_code() -> None:
    for module in modules(*PACKAGES, "bench", "tools", "tests"):
        if module.path.name == "__init__.py":
            assert ast.get_docstring(module.tree), f"{module.path}: say what belongs here"
            # What a training script imports is the package itself.
            if module.path.parts[0] != "runtime":
                assert len(module.tree.body) == 1, f"{module.path}: move the code into a module"


def test_the_core_uses_nothing_but_pure_parts_of_the_standard_library() -> None:
    broken = [
        f"{module.path}:{line}: {name}"
        for module in core_modules()
        for line, name in module.imports()
        if name.split(".")[0] not in PURE | {"scheduler"}
    ]
    assert not broken, "\n".join([*broken, "A fact from outside comes in through a port."])


def test_pure_names_are_modules_of_the_standard_library() -> None:
    assert set(sys.stdlib_module_names) >= PURE


@pytest.mark.parametrize("name", IMPURE_CALLS)
def test_the_core_never_calls(name: str) -> None:
    for module in core_modules():
        if (name, module.path) in MAY_CALL:
            continue
        for call in _nodes(module, ast.Call):
            is_named = isinstance(call.func, ast.Name) and call.func.id == name
            assert not is_named, f"{module.path}:{call.lineno}: {name}(): {IMPURE_CALLS[name]}"


def test_the_core_has_one_colour() -> None:
    for module in core_modules():
        for function in _nodes(module, ast.AsyncFunctionDef):
            pytest.fail(f"{module.path}:{function.lineno}: the core is synchronous")


def test_live_and_simulation_run_the_same_code() -> None:
    """Nothing in scheduler asks which world it runs in."""
    for module in modules("scheduler"):
        for node in ast.walk(module.tree):
            for word in _words(node):
                assert "simulat" not in word.lower(), (
                    f"{module.path}: {word}: what differs between the worlds is an adapter"
                )


def test_domain_and_ports_hold_frozen_data() -> None:
    for module in modules("scheduler"):
        if module.path.parts[1] in ("domain", "ports"):
            for node in _nodes(module, ast.ClassDef):
                for decorator in node.decorator_list:
                    if ast.unparse(decorator).startswith("dataclass"):
                        assert _settings(decorator) >= {"frozen", "slots", "kw_only"}, (
                            f"{module.path}:{node.lineno}: {node.name} must be "
                            "@dataclass(frozen=True, slots=True, kw_only=True)"
                        )


def test_phases_change_only_along_the_table() -> None:
    """`moved_to` checks the arrow; replace(..., phase=...) would not."""
    for module in modules(*PACKAGES):
        if module.name == "scheduler.domain.job":
            continue
        for call in _nodes(module, ast.Call):
            if ast.unparse(call.func).split(".")[-1] == "replace":
                assert "phase" not in {keyword.arg for keyword in call.keywords}, (
                    f"{module.path}:{call.lineno}: use moved_to()"
                )


def _nodes(module: Module, kind: type[Node]) -> Iterator[Node]:
    return (node for node in ast.walk(module.tree) if isinstance(node, kind))


def _settings(decorator: ast.expr) -> set[str | None]:
    if not isinstance(decorator, ast.Call):
        return set()
    return {keyword.arg for keyword in decorator.keywords if ast.unparse(keyword.value) == "True"}


def _words(node: ast.AST) -> Iterator[str]:
    """The names a node brings in: what code says, not what comments and docstrings say."""
    for field in ("id", "attr", "arg", "name", "module"):
        value = getattr(node, field, None)
        if isinstance(value, str):
            yield value
