"""What a planted fault is, and a copy of the sources to plant it into."""

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.control_plane import JOINS
from tests.source_tree import ROOT, files

TOOLS = Path("tests/cluster/_tools")
"""With the locks of Go modules, which are no text of ours."""
GREEN, RED = "green", "red"
DEADLINE_S = "30"
"""The same with the fault and without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One fault: `old` stands exactly once in the file and is replaced."""

    what: str
    path: str
    old: str
    new: str
    found_by: str
    """Node id of a test, without parameters."""
    restarts_api_server: bool = False
    """The test does, so it can not share a control plane."""


def planted_text(mutation: Mutation) -> str:
    """The file with the fault in it."""
    text = (ROOT / mutation.path).read_text()
    assert text.count(mutation.old) == 1, f"{mutation.path} has changed: {mutation.what}"
    return text.replace(mutation.old, mutation.new)


class SpoiledTree:
    """A copy of the sources."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for path in files():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / path, folder / path)
        shutil.copytree(ROOT / TOOLS, folder / TOOLS, dirs_exist_ok=True)

    @contextmanager
    def with_fault(self, mutation: Mutation) -> Iterator[None]:
        """The fault is in it meanwhile."""
        spoiled = self._folder / mutation.path
        good = spoiled.read_text()
        _replace(spoiled, planted_text(mutation))
        try:
            yield
        finally:
            _replace(spoiled, good)

    def verdict(self, tests: Collection[str], *, kubeconfig: Path | None = None) -> str:
        """GREEN or RED; else what pytest said: the tests did not run. Of those over every adapter,
        that to Kubernetes is left out: its own faults have tests of their own.

        `kubeconfig`: of a control plane that they are to use instead of starting one."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        if not any("/kubernetes/" in test for test in tests):
            command += ["-k", "not kubernetes"]
        # A test that is left out would look as if it had passed; one repetition shows enough.
        env = {
            **os.environ,
            "CI": "true",
            "PROOF": "",
            "DALLY_TEST_DEADLINE_S": DEADLINE_S,
            JOINS: str(kubeconfig or ""),
        }
        done = subprocess.run(  # noqa: S603 - ours
            [*command, *sorted(tests)],
            cwd=self._folder,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 0:
            return GREEN
        # What could not even be set up is an error, not a failure.
        has_failed = any(line.startswith("FAILED ") for line in done.stdout.splitlines())
        return RED if has_failed else done.stdout + done.stderr


def _replace(source: Path, text: str) -> None:
    """Write a module anew. What was compiled of it goes: of two versions that are as long and
    written in one second, Python would take one for the other."""
    source.write_text(text)
    for compiled in (source.parent / "__pycache__").glob(f"{source.stem}.*.pyc"):
        compiled.unlink()
