"""The real helm, built from a pinned Go module, and the chart as it renders it."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.tools import ToolSet
from tests.source_tree import ROOT

HELM = ToolSet(name="helm", packages=("helm.sh/helm/v4/cmd/helm",))
CHART = ROOT / "helm"
RELEASE, NAMESPACE = "dally", "dally-system"
HELM_S_MAX = 600

Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Helm:
    """The program, with a home of its own and perhaps a cluster."""

    program: Path
    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """What it prints; HelmError with what it says when it fails."""
        done = self.try_run(*arguments, values=values)
        if done.returncode:
            raise HelmError(done.stderr.strip() or done.stdout.strip())
        return done.stdout

    def try_run(
        self, *arguments: str, values: Mapping[str, Any] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """How it ended."""
        given = [] if values is None else ["--values", "-"]
        return subprocess.run(  # noqa: S603 - the tests' own words
            [self.program, *arguments, *given],
            input=yaml.safe_dump(dict(values or {})),
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=HELM_S_MAX,
            check=False,
        )

    def template(self, values: Mapping[str, Any], *arguments: str) -> list[Manifest]:
        """Everything the chart makes of these values, hooks and tests too."""
        text = self.run(
            "template", RELEASE, str(CHART), "--namespace", NAMESPACE, *arguments, values=values
        )
        return [manifest for manifest in yaml.safe_load_all(text) if manifest]

    @property
    def _environment(self) -> dict[str, str]:
        folders = {
            f"HELM_{kind}_HOME": str(self.home / kind.lower())
            for kind in ("CACHE", "CONFIG", "DATA")
        }
        kubeconfig = str(self.kubeconfig or self.home / "none")
        return {**os.environ, **folders, "KUBECONFIG": kubeconfig}


class HelmError(Exception):
    """Helm refused."""


def of_kind(manifests: Sequence[Manifest], kind: str) -> list[Manifest]:
    """Those of one kind."""
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def the(manifests: Sequence[Manifest], kind: str, name: str = "") -> Manifest:
    """The one of a kind (and of a name)."""
    (found,) = [
        manifest
        for manifest in of_kind(manifests, kind)
        if not name or manifest["metadata"]["name"] == name
    ]
    return found


def pods_of(manifests: Sequence[Manifest]) -> list[tuple[str, Manifest]]:
    """Kind and name of everything that makes pods, with the pod's spec."""
    return [
        (
            f"{manifest['kind']} {manifest['metadata']['name']}",
            manifest["spec"]["template"]["spec"] if manifest["kind"] != "Pod" else manifest["spec"],
        )
        for manifest in manifests
        if manifest["kind"] in ("Deployment", "Job", "Pod")
    ]
