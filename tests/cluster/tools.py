"""The programs of a Kubernetes cluster, built once from pinned Go modules and kept in a cache.

A set of programs is a folder of `_tools` with go.mod and go.sum, which fix every version by hash.
Its build is kept under a hash of those files, so that a change of versions makes a new one.
"""

import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.not_run import not_run

SOURCES = Path(__file__).with_name("_tools")
GO_NEEDED = (1, 26)
BUILD_S_MAX = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolSet:
    """Programs that one Go module builds."""

    name: str
    """Folder below `_tools`."""
    packages: tuple[str, ...]
    tags: str = ""


KUBERNETES = ToolSet(
    name="kubernetes",
    packages=tuple(
        f"k8s.io/kubernetes/cmd/{program}"
        for program in ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    ),
)
ETCD = ToolSet(name="etcd", packages=(".",))


class CanNotBuildError(Exception):
    """Go is missing, or says why it can not build."""


def programs(*sets: ToolSet) -> dict[str, Path]:
    """Paths of the programs of these sets by name; built now if they have not been yet.

    Where they can not be built, the test is reported as not run.
    """
    try:
        return {path.name: path for each in sets for path in _built(each).iterdir()}
    except CanNotBuildError as error:
        not_run(f"no programs of Kubernetes: {error}")


def _built(tools: ToolSet) -> Path:
    target = cache() / f"{tools.name}-{_digest(tools)}"
    if target.is_dir():
        return target
    with locked(target.with_suffix(".lock")):
        if not target.is_dir():
            _build(tools, target)
    return target


def _build(tools: ToolSet, target: Path) -> None:
    go = go_program()
    sys.stderr.write(f"\nBuilding {tools.name} for the cluster tests, once; this takes minutes.\n")
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        new = Path(scratch) / "bin"
        new.mkdir()
        flags = f"-s -w {_version_flags(tools)}"
        command = [go, "build", "-mod=readonly", "-ldflags", flags, "-tags", tools.tags]
        done = subprocess.run(  # noqa: S603 - fixed words
            [*command, "-o", f"{new}/", *tools.packages],
            cwd=SOURCES / tools.name,
            env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", "GOWORK": "off"},
            capture_output=True,
            text=True,
            timeout=BUILD_S_MAX,
            check=False,
        )
        if done.returncode:
            raise CanNotBuildError(done.stderr.strip().splitlines()[-1] if done.stderr else "go")
        new.rename(target)


def _version_flags(tools: ToolSet) -> str:
    """What makes the programs say their version; Kubernetes' own release does it likewise."""
    text = (SOURCES / tools.name / "go.mod").read_text()
    match = re.search(r"k8s\.io/kubernetes v(\d+)\.(\d+)\.(\d+)", text)
    if match is None:
        return ""
    major, minor, patch = match.groups()
    values = {"gitMajor": major, "gitMinor": minor, "gitVersion": f"v{major}.{minor}.{patch}"}
    package = "k8s.io/component-base/version"
    return " ".join(f"-X {package}.{name}={value}" for name, value in values.items())


def go_program() -> str:
    """A Go that is new enough: the system's, or the one of the virtual environment."""
    beside_python = str(Path(sys.executable).with_name("go"))
    for candidate in ("go", beside_python):
        found = shutil.which(candidate)
        if found is not None and _version(found) >= GO_NEEDED:
            return found
    raise CanNotBuildError(f"no Go {'.'.join(map(str, GO_NEEDED))} or newer")


def _version(go: str) -> tuple[int, ...]:
    command = [go, "env", "GOVERSION"]
    environment = {**os.environ, "GOTOOLCHAIN": "local"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    match = re.match(r"go(\d+)\.(\d+)", done.stdout)
    return tuple(int(part) for part in match.groups()) if match else ()


def cache() -> Path:
    """Where built programs are kept."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(root) / "dally-cluster-tools"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _digest(tools: ToolSet) -> str:
    digest = hashlib.sha256(f"{platform.machine()} {tools} {_version_flags(tools)}".encode())
    for source in sorted((SOURCES / tools.name).iterdir()):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One build at a time: another run waits and then finds it done."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
