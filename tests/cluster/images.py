"""The project's images, built from its Dockerfiles without a registry and without Docker.

The base is made by mmdebstrap out of Debian's packages; buildah runs the Dockerfile in a chroot.
What is made is kept in the user's cache under a hash of all that went into it.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from server.release import VERSION
from tests.cluster.in_memory import put_in_memory, take_out_of_memory
from tests.cluster.node_programs import require_root
from tests.cluster.tools import cache, locked
from tests.not_run import not_run
from tests.source_tree import ROOT

SUITE = "bookworm"
BASE = "localhost/dally-base"
CERTIFICATES = "/etc/ssl/certs"
BUILD_S_MAX = 1_800


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageRecipe:
    """A Dockerfile of the project and the Debian packages its base needs."""

    name: str
    dockerfile: str
    packages: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    """Patterns of files of the packages that the base does without."""

    @property
    def reference(self) -> str:
        """What pods call it."""
        return f"docker.io/library/{self.name}:{VERSION}"


SERVER = ImageRecipe(
    name="dally",
    dockerfile="Dockerfile",
    packages=("python3", "python3-venv", "ca-certificates"),
)
EXAMPLES = ImageRecipe(
    name="dally-examples",
    dockerfile="examples/Dockerfile",
    packages=(
        *("python3", "ca-certificates", "python3-torch", "python3-sklearn"),
        *("openmpi-bin", "python3-mpi4py"),
    ),
    # Debian's packages have everything, and a compiler besides.
    arguments=("PACKAGES=",),
    left_out=(
        *("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/include/*"),
        *("/usr/lib/gcc/*", "*.a", "*/torch/bin/test*", "*/dri/*", "*-lto-dump-*"),
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Image:
    """A built image in a docker-archive."""

    reference: str
    archive: Path

    @property
    def layers(self) -> tuple[int, ...]:
        """Bytes of each layer, the base first."""
        with tarfile.open(self.archive) as tar:
            return tuple(tar.getmember(name).size for name in self._manifest(tar)["Layers"])

    @property
    def config(self) -> dict[str, Any]:
        """User, entry, environment, health check."""
        with tarfile.open(self.archive) as tar:
            found: dict[str, Any] = _json(tar, self._manifest(tar)["Config"])["config"]
            return found

    def files(self) -> Iterator[str]:
        """Every path that the Dockerfile added to the base."""
        with tarfile.open(self.archive) as tar:
            for name in self._manifest(tar)["Layers"][1:]:
                layer = tar.extractfile(name)
                with tarfile.open(fileobj=layer) as files:
                    yield from files.getnames()

    @staticmethod
    def _manifest(tar: tarfile.TarFile) -> dict[str, Any]:
        found: dict[str, Any] = _json(tar, "manifest.json")[0]
        return found


LONGEST_RUN_S = 2 * 3600
"""An image that nobody has asked for since is used by no run of another checkout any more."""


def built(recipe: ImageRecipe) -> Image:
    """The image, built now if anything that goes into it has changed.

    Where it can not be built, the test is reported as not run.
    """
    require_root()
    missing = [name for name in ("buildah", "mmdebstrap") if shutil.which(name) is None]
    if missing:
        not_run(f"images need the Debian packages {' '.join(missing)}")
    folder = cache() / "images"
    folder.mkdir(exist_ok=True)
    digest = _digest(recipe)
    archive = folder / f"{recipe.name}-{digest}.tar"
    with locked(folder / f"{recipe.name}.lock"):
        if not archive.exists():
            for old in folder.glob(f"{recipe.name}-{'?' * 16}.tar"):
                if old.stat().st_mtime < time.time() - LONGEST_RUN_S:
                    old.unlink()
            new = archive.with_suffix(".new")
            _build(recipe, new)
            # Or an image would be kept under the name of what it was not made of.
            assert _digest(recipe) == digest, "the sources have changed while the image was built"
            new.rename(archive)
        archive.touch()
    return Image(reference=recipe.reference, archive=archive)


def _build(recipe: ImageRecipe, new: Path) -> None:
    base = _base(recipe)
    _say(f"Building the image {recipe.reference}.")
    with _store() as buildah:
        container = buildah("from", "scratch")
        buildah("add", "--quiet", container, str(base), "/")
        buildah("commit", "--quiet", container, BASE)
        arguments = [
            word for each in (f"BASE={BASE}", *recipe.arguments) for word in ("--build-arg", each)
        ]
        buildah(
            *("bud", "--quiet", "--isolation", "chroot", "--network", "host"),
            # OCI's own format knows no health check.
            *("--format", "docker", "--volume", f"{CERTIFICATES}:{CERTIFICATES}:ro", *arguments),
            *("--file", str(ROOT / recipe.dockerfile), "--tag", recipe.reference, str(ROOT)),
        )
        new.unlink(missing_ok=True)
        buildah("push", "--quiet", recipe.reference, f"docker-archive:{new}:{recipe.reference}")


def _base(recipe: ImageRecipe) -> Path:
    """A Debian with the recipe's packages as a tar file."""
    packages, left_out = recipe.packages, recipe.left_out
    told = " ".join((SUITE, *packages, *left_out))
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    base = cache() / "images" / f"base-{digest}.tar"
    if not base.exists():
        _say(f"Making a Debian base with {', '.join(packages)}.")
        new = base.with_name(f"new-{base.name}")
        options = [f"--dpkgopt=path-exclude={pattern}" for pattern in left_out]
        options.append(f"--include={','.join(packages)}")
        _run("mmdebstrap", "--quiet", "--variant=minbase", *options, SUITE, str(new))
        new.rename(base)
    return base


class _Buildah:
    """buildah with a store of its own."""

    def __init__(self, folder: Path) -> None:
        store, state = folder / "store", folder / "state"
        self._command = ["buildah", "--root", str(store), "--runroot", str(state)]
        self._command += ["--storage-driver", "vfs"]

    def __call__(self, *arguments: str) -> str:
        return _run(*self._command, *arguments).strip()


@contextmanager
def _store() -> Iterator[_Buildah]:
    with tempfile.TemporaryDirectory(prefix="dally-image-") as folder:
        is_in_memory = put_in_memory(Path(folder))
        try:
            yield _Buildah(Path(folder))
        finally:
            if is_in_memory:
                take_out_of_memory(Path(folder))


def _run(*command: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own words
        command,
        env={**os.environ, "TMPDIR": tempfile.gettempdir()},
        capture_output=True,
        text=True,
        timeout=BUILD_S_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{command[0]}: {done.stderr[-3000:]}"
    return done.stdout


def _digest(recipe: ImageRecipe) -> str:
    digest = hashlib.sha256(f"{SUITE} {recipe}".encode())
    for path in sorted(_ingredients(ROOT / recipe.dockerfile)):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _ingredients(dockerfile: Path) -> Iterator[Path]:
    """The Dockerfile, and all that it copies from the checkout."""
    yield from (dockerfile, ROOT / ".dockerignore")
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", dockerfile.read_text(), re.MULTILINE):
        for source in sources.split():
            entry = ROOT / source
            for path in entry.rglob("*") if entry.is_dir() else [entry]:
                is_made = "__pycache__" in path.parts or ".egg-info" in str(path)
                if path.is_file() and not is_made:
                    yield path


def _json(tar: tarfile.TarFile, name: str) -> Any:
    file = tar.extractfile(name)
    assert file is not None
    return json.loads(file.read())


def _say(text: str) -> None:
    sys.stderr.write(f"\n{text}\n")
