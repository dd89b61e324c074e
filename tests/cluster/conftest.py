"""What tests on whole nodes share: one cluster for the run, with our images on its nodes."""

from collections.abc import Iterator

import pytest

from tests.cluster.images import EXAMPLES, SERVER, Image, built
from tests.cluster.nodes_world import NodesWorld
from tests.cluster.tools import programs
from tests.cluster.whole_cluster import WholeCluster
from tests.helm.helm_program import HELM, Helm


@pytest.fixture(scope="session")
def server_image() -> Image:
    """The image of the server, out of the Dockerfile."""
    return built(SERVER)


@pytest.fixture(scope="session")
def examples_image() -> Image:
    """The image of the examples with Debian's PyTorch."""
    return built(EXAMPLES)


@pytest.fixture(scope="session")
def whole_cluster(server_image: Image, examples_image: Image) -> Iterator[WholeCluster]:
    """Four nodes in two racks that have both images."""
    with WholeCluster(images=[server_image.archive, examples_image.archive]) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def helm_on_nodes(whole_cluster: WholeCluster, tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm with that cluster."""
    return Helm(
        program=programs(HELM)["helm"],
        home=tmp_path_factory.mktemp("helm"),
        kubeconfig=whole_cluster.kubeconfig,
    )


@pytest.fixture
def world(whole_cluster: WholeCluster, server_image: Image) -> Iterator[NodesWorld]:
    """A namespace on whole nodes, for the suites of the ports."""
    made = NodesWorld(whole_cluster, server_image.reference)
    yield made
    made.close()
