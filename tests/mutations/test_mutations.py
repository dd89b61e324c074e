"""Every planted fault turns a test red, and without it the test is green."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mutations.planted import MUTATIONS, planted_text, table
from tests.mutations.planting import Mutation
from tests.proof import times
from tests.source_tree import ROOT, files

TESTS_FAILED = 1
"""Exit code of pytest; another one would mean that the tests did not run."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of the sources, to be spoiled."""
    copy = tmp_path_factory.mktemp("tree")
    for path in files():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, copy / path)
    yield copy
    shutil.rmtree(copy)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.what)
def test_a_planted_fault_still_has_its_place_and_its_test(mutation: Mutation) -> None:
    assert planted_text(mutation)
    path, _, name = mutation.found_by.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()


def test_the_page_lists_the_planted_faults() -> None:
    page = (ROOT / "docs" / "proof.md").read_text()
    assert "\n".join(table()) in page, "put the rows of tests.mutations.planted.table() there"


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(
    "mutation", MUTATIONS[: times(ci=1, proof=len(MUTATIONS))], ids=lambda mutation: mutation.what
)
def test_a_planted_fault_is_found(mutation: Mutation, tree: Path) -> None:
    assert run(mutation.found_by, tree) == 0, "it is red without the fault"
    spoiled = tree / mutation.path
    good = spoiled.read_text()
    spoiled.write_text(planted_text(mutation))
    try:
        assert run(mutation.found_by, tree) == TESTS_FAILED
    finally:
        spoiled.write_text(good)


def run(test: str, tree: Path) -> int:
    """Exit code of a test in that tree; of those over every adapter, without that to Kubernetes,
    whose own faults have tests of their own."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    if "/kubernetes/" not in test:
        command += ["-k", "not kubernetes"]
    done = subprocess.run(command, cwd=tree, capture_output=True, check=False)  # noqa: S603 - ours
    return done.returncode
