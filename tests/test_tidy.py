"""Small, named and true: sizes, names, forbidden words, and pages that say what there is."""

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from tests.source_tree import (
    ALONGSIDE,
    PACKAGES,
    ROOT,
    Module,
    anchors,
    files,
    modules,
    without_code,
)
from tools import lock

MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60
POSITIONAL_PARAMETERS_MAX = 5
VAGUE = {"utils", "util", "helpers", "helper", "common", "misc", "manager", "base", "core"}

FORBIDDEN = {
    "the path of one machine": r"(?<![\w.$}~])/(root|home|work|Users)/\w",
    "the host of a package registry": r"(pypi|pythonhosted|npmjs|crates|rubygems)\.(org|com|io)\b"
    r"|proxy\.golang\.org|deb\.debian\.org",
    "work left for later (a feature to come is refused with NotSupportedYetError)": (
        r"\b(TO[D]O|FIX[M]E|X[X]X)\b"
    ),
    "a merge that was not finished": r"^(<{7}|>{7}) ",
}

EXCEPTION = re.compile(r"#\s*(noqa\b|type:\s*ignore).*$")
GOOD_EXCEPTION = re.compile(
    r"# (noqa: [A-Z]+\d+(, ?[A-Z]+\d+)* - |type: ignore\[[\w, -]+\]  # )\S", flags=re.ASCII
)
RECORD_SECTIONS = ["Context", "Decision", "Consequences", "Alternatives", "Kept by"]
RECORD_LINES_MAX = 60


def test_modules_stay_small() -> None:
    none_of(
        f"{module.path} has {lines} lines: split it by topic"
        for module in all_modules()
        if (lines := len(module.text.splitlines())) > MODULE_LINES_MAX
    )


def test_functions_fit_a_screen() -> None:
    none_of(
        f"{module.path}:{function.lineno}: {function.name} has {lines} lines: "
        "keep the ifs here and move the leaves out"
        for module in all_modules()
        for function in module.functions()
        if (lines := _lines(function)) > FUNCTION_LINES_MAX
    )


def test_functions_take_few_positional_parameters() -> None:
    none_of(
        f"{module.path}:{function.lineno}: {function.name} takes {count} positional parameters: "
        "make them keyword-only (*) or a dataclass"
        for module in all_modules()
        for function in module.functions()
        if (count := _positional(function)) > POSITIONAL_PARAMETERS_MAX
    )


def test_module_names_say_a_topic() -> None:
    none_of(
        f"{module.path}: name it after what it is about"
        for module in all_modules()
        if VAGUE & {module.path.stem, module.path.parent.name}
    )


def test_every_module_says_its_role() -> None:
    none_of(
        f"{module.path}: open with one line on its role"
        for module in all_modules()
        if not ast.get_docstring(module.tree)
    )


def test_counts_are_plural_nouns() -> None:
    none_of(
        f"{module.path}: {name}: say workers, not num_workers"
        for module in all_modules()
        for node in ast.walk(module.tree)
        if (name := _given_name(node)).startswith("num_")
    )


def test_nothing_of_ours_is_mocked() -> None:
    none_of(
        f"{module.path}:{line}: bring a fake through a port"
        for module in modules("tests", "bench")
        for line, name in module.imports()
        if name.startswith(("unittest.mock", "mock", "pytest_mock"))
    )


def test_every_exception_to_a_check_has_its_code_and_reason() -> None:
    none_of(
        f"{module.path}:{number}: say why: `# noqa: CODE - why`, `# type: ignore[code]  # why`"
        for module in all_modules()
        if module.path.name != "test_tidy.py"
        for number, line in enumerate(module.text.splitlines(), start=1)
        if (comment := EXCEPTION.search(line)) and not GOOD_EXCEPTION.match(comment[0])
    )


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_holds(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    none_of(
        f"{file}:{number}: {what}: {line.strip()[:80]}"
        for file in files()
        for number, line in enumerate((ROOT / file).read_text().splitlines(), start=1)
        if pattern.search(line)
    )


def test_the_lock_files_answer_pyproject() -> None:
    none_of(f"{problem} (`make lock` repairs it)" for problem in lock.problems())


def test_every_make_target_is_in_the_help() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = make_targets()
    helped = set(re.findall(r"^([a-z][a-z-]*):.*?## \S", makefile, flags=re.MULTILINE))
    phony = set(re.findall(r"^\.PHONY: (\S+)$", makefile, flags=re.MULTILINE))
    none_of(f"Makefile: add `## what it does` to {target}" for target in targets - helped)
    none_of(f"Makefile: add .PHONY for {target}" for target in targets - phony)


def test_make_hands_the_data_folder_to_pytest_with_an_equals_sign(tmp_path: Path) -> None:
    """Behind a space pytest takes the folder for a place of tests and reads no settings of ours."""
    shown = subprocess.run(  # noqa: S603 - our own Makefile
        ["/usr/bin/make", "-n", "test", f"DATA={tmp_path}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"--data={tmp_path}" in shown.stdout


def test_make_targets_that_pages_name_exist() -> None:
    none_of(
        f"{page}: there is no `make {named}`"
        for page in pages()
        for named in re.findall(r"`make ([a-z-]+)", (ROOT / page).read_text())
        if named not in make_targets()
    )


def test_a_benchmark_has_the_common_options() -> None:
    none_of(
        f"{module.path}: use bench.reporting"
        for module in modules("bench")
        if "__main__" in module.text
        if not any(name.startswith("bench.reporting.") for _, name in module.imports())
        if module.name != "bench.reporting"
    )


def test_links_in_pages_lead_somewhere() -> None:
    none_of(
        problem
        for page in pages()
        for target in re.findall(r"\]\(([^)\s]+)\)", without_code((ROOT / page).read_text()))
        if "://" not in target
        for problem in _broken(page, target)
    )


def test_every_page_is_reached_from_the_index() -> None:
    index = (ROOT / "docs/README.md").read_text()
    none_of(
        f"docs/README.md: add a link to {page}"
        for page in pages()
        if page.parts[0] == "docs" and page.parts[1] not in ("README.md", "decisions")
        if f"({page.relative_to('docs')})" not in index
    )


def test_decision_records_have_their_sections() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text()
    records = [page for page in pages() if re.match(r"\d{4}-", page.name)]
    assert [int(page.name[:4]) for page in records] == list(range(1, len(records) + 1))
    none_of(
        f"{record}: {problem}"
        for record in records
        for problem in _record_problems((ROOT / record).read_text())
    )
    none_of(
        f"docs/decisions/README.md: add {record.name}"
        for record in records
        if f"({record.name})" not in index
    )


def test_the_glossary_gives_each_word_one_meaning() -> None:
    entries = re.findall(r"^\| \*\*(.+?)\*\* \|", (ROOT / "docs/glossary.md").read_text(), re.M)
    words = Counter(word for entry in entries for word in re.split(r", | / ", entry))
    assert words, "the glossary is empty"
    none_of(f"docs/glossary.md: {word} stands {n} times" for word, n in words.items() if n > 1)


def test_the_changelog_names_the_version() -> None:
    version = re.search(r'^version = "(.+)"', (ROOT / "pyproject.toml").read_text(), re.M)
    assert version
    assert f"## {version[1]}" in (ROOT / "CHANGELOG.md").read_text()


def none_of(problems: Iterable[str]) -> None:
    """Fail with all of them at once, each with its fix."""
    if found := "\n".join(problems):
        pytest.fail(found, pytrace=False)


def all_modules() -> tuple[Module, ...]:
    """Every Python file of the project."""
    return modules(*PACKAGES, *ALONGSIDE)


def pages() -> list[Path]:
    """Every page in Markdown."""
    return [file for file in files() if file.suffix == ".md"]


def make_targets() -> set[str]:
    """What `make` can do."""
    makefile = (ROOT / "Makefile").read_text()
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, flags=re.MULTILINE))


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def _positional(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    names = [parameter.arg for parameter in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def _given_name(node: ast.AST) -> str:
    """The name that an assignment or a parameter gives."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id
    return node.arg if isinstance(node, ast.arg) else ""


def _broken(page: Path, target: str) -> Iterator[str]:
    path, _, anchor = target.partition("#")
    file = (ROOT / page).parent / path if path else ROOT / page
    if not file.exists():
        yield f"{page}: {target} leads nowhere"
    elif anchor and anchor not in anchors(file.read_text()):
        yield f"{page}: {target}: no such heading"


def _record_problems(text: str) -> Iterator[str]:
    sections = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    if sections != RECORD_SECTIONS:
        yield f"its sections are {sections}, not {RECORD_SECTIONS}"
    if len(text.splitlines()) > RECORD_LINES_MAX:
        yield "longer than one page"
