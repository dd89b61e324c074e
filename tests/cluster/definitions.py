"""Custom resource definitions of others, as their projects publish them: pinned by hash."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.api_objects import ApiObjects
from tests.cluster.tools import CanNotBuildError, cache, go_program
from tests.not_run import not_run
from tests.polling import wait_until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DOWNLOAD_S_MAX = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedModule:
    """A Go module whose files hold definitions."""

    path: str
    version: str
    sum: str
    """Hash of its content, as go.sum has it."""
    files: tuple[str, ...]


PUBLISHED = (
    PublishedModule(
        path="sigs.k8s.io/gateway-api",
        version="v1.4.0",
        sum="h1:ZwlNM6zOHq0h3WUX2gfByPs2yAEsy/EenYJB78jpQfQ=",
        files=("config/crd/standard/gateway.networking.k8s.io_httproutes.yaml",),
    ),
    PublishedModule(
        path="github.com/prometheus-operator/prometheus-operator",
        version="v0.86.1",
        sum="h1:pHUuiRErcFb3nFDox7RxoxpEN0FyT24GtYOkr2GBu04=",
        files=(
            "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
            "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
        ),
    ),
)


def add_definitions(objects: ApiObjects) -> None:
    """Have the API server know the kinds; until it serves them."""
    for module in PUBLISHED:
        folder = _content(module)
        for file in module.files:
            definition: dict[str, Any] = yaml.safe_load((folder / file).read_text())
            name = f"{DEFINITIONS}/{definition['metadata']['name']}"
            if objects.find(name) is None:
                objects.create(DEFINITIONS, definition)
            wait_until(lambda name=name: _is_served(objects, name), f"{name} is served")  # type: ignore[misc]  # a default


def _is_served(objects: ApiObjects, name: str) -> bool:
    found = objects.find(name) or {}
    conditions = found.get("status", {}).get("conditions") or []
    return any((c["type"], c["status"]) == ("Established", "True") for c in conditions)


def _content(module: PublishedModule) -> Path:
    """The module's files; its hash must be the one that is written here."""
    try:
        go = go_program()
    except CanNotBuildError as error:
        not_run(f"no definitions of custom resources: {error}")
    done = subprocess.run(  # noqa: S603 - fixed words
        [go, "mod", "download", "-json", f"{module.path}@{module.version}"],
        cwd=cache(),
        # Not every version is in the public database of hashes: the one above is compared.
        env={**os.environ, "GONOSUMDB": module.path, "GOWORK": "off", "GOFLAGS": ""},
        capture_output=True,
        text=True,
        timeout=DOWNLOAD_S_MAX,
        check=False,
    )
    if done.returncode:
        not_run(f"no definitions of custom resources: {done.stderr.strip() or done.stdout}")
    said = json.loads(done.stdout)
    assert said["Sum"] == module.sum, said
    return Path(said["Dir"])
