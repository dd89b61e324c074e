"""Every planted fault turns a test red, and without it the test is green."""

import shutil
from collections.abc import Iterator

import pytest

from tests.cluster.control_plane import ReachedControlPlane
from tests.mutations.planted import CORE_MUTATIONS, MUTATIONS, table
from tests.mutations.planted_kubernetes import KUBERNETES_MUTATIONS
from tests.mutations.planting import GREEN, RED, Mutation, SpoiledTree, planted_text
from tests.proof import is_long
from tests.source_tree import ROOT

QUICK = frozenset(
    {
        "a claim is written without the leader's epoch",
        "K4: what was seen is seen anew",
        "K26: names are published when pods are ready",
    }
)
"""Planted by CI too."""


def to_plant(mutations: tuple[Mutation, ...]) -> list[Mutation]:
    """Those of this run."""
    return [mutation for mutation in mutations if is_long() or mutation.what in QUICK]


@pytest.fixture(scope="module")
def tree(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SpoiledTree]:
    """A copy of the sources, in which the tests of all faults that are to come are green."""
    folder = tmp_path_factory.mktemp("tree")
    copy = SpoiledTree(folder)
    tests = {
        mutation.found_by
        for item in request.session.items
        if isinstance(item, pytest.Function) and "tree" in item.fixturenames
        for mutation in item.callspec.params.values()
        if isinstance(mutation, Mutation)
    }
    of_kubernetes = {test for test in tests if "/kubernetes/" in test}
    for group in (of_kubernetes, tests - of_kubernetes):
        assert not group or copy.verdict(group) == GREEN
    yield copy
    shutil.rmtree(folder)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.what)
def test_a_planted_fault_still_has_its_place_and_its_test(mutation: Mutation) -> None:
    assert planted_text(mutation)
    path, _, name = mutation.found_by.partition("::")
    assert f"def {name}(" in (ROOT / path).read_text()


def test_the_faults_that_ci_plants_exist() -> None:
    assert {mutation.what for mutation in MUTATIONS} >= QUICK


def test_the_page_lists_the_planted_faults() -> None:
    page = (ROOT / "docs" / "proof.md").read_text()
    assert "\n".join(table()) in page, "put the rows of tests.mutations.planted.table() there"


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize("mutation", to_plant(CORE_MUTATIONS), ids=lambda mutation: mutation.what)
def test_a_planted_fault_is_found(mutation: Mutation, tree: SpoiledTree) -> None:
    with tree.with_fault(mutation):
        assert tree.verdict([mutation.found_by]) == RED


@pytest.mark.proof
@pytest.mark.slow
@pytest.mark.parametrize(
    "mutation", to_plant(KUBERNETES_MUTATIONS), ids=lambda mutation: mutation.what
)
def test_a_fault_planted_into_the_kubernetes_adapter_is_found(
    mutation: Mutation, tree: SpoiledTree, control_plane: ReachedControlPlane
) -> None:
    kubeconfig = None if mutation.restarts_api_server else control_plane.kubeconfig
    with tree.with_fault(mutation):
        assert tree.verdict([mutation.found_by], kubeconfig=kubeconfig) == RED
