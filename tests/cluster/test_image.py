"""The image out of the Dockerfile: small, not root, nothing that builds, and it says how it is."""

import pytest

from tests.cluster.images import Image

pytestmark = pytest.mark.cluster
SIZE_MAX = 200 << 20
"""On top of its base."""


def test_it_adds_less_than_200_mib_to_its_base(server_image: Image) -> None:
    base, *ours = server_image.layers
    assert 0 < sum(ours) < SIZE_MAX, f"{sum(ours) / (1 << 20):.0f} MiB on {base / (1 << 20):.0f}"


def test_it_runs_dallyd_as_nobody_in_particular(server_image: Image) -> None:
    config = server_image.config
    assert config["User"] == "10001:10001"
    assert (config["Entrypoint"], config["Cmd"]) == (["dallyd"], ["serve"])
    assert "8470/tcp" in config["ExposedPorts"]
    assert "/livez" in str(config["Healthcheck"]["Test"])


def test_nothing_in_it_builds(server_image: Image) -> None:
    files = set(server_image.files())
    assert "opt/dally/bin/dallyd" in files
    assert "opt/dally/bin/dally" in files
    names = {path.rpartition("/")[2] for path in files}
    assert not names & {"pip", "pip3", "setuptools", "gcc", "cc", "make", "wheel", "git"}
