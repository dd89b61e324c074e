"""Helm, built from its pinned module."""

import pytest

from tests.cluster.tools import programs
from tests.helm.helm_program import HELM, Helm


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm without a cluster."""
    return Helm(program=programs(HELM)["helm"], home=tmp_path_factory.mktemp("helm"))
