"""The lock files: makes them (`make lock`) and checks that they still answer pyproject.toml.

`requirements.lock` has everything, `requirements-demo.lock` only what the service and the NumPy
example need, `requirements-server.lock` what the image needs, in the same versions. They hold
versions and hashes and no addresses.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[1]
FULL = "requirements.lock"
PARTS = {
    "requirements-demo.lock": ("examples", "build"),
    "requirements-server.lock": ("build", "kubernetes"),
}
"""Lock files that hold a part, with the extras of it."""

_PIN = re.compile(r"^([A-Za-z0-9._-]+)(\[[^]]*\])?==(\S+)")
_ADDRESS = re.compile(r"https?://|--index-url|--find-links|--extra-index-url")
_DIRECT = "dally (pyproject.toml)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One locked package."""

    name: str
    version: str
    hashes: frozenset[str]
    is_direct: bool
    """Whether pyproject.toml itself asks for it."""


def make(*options: str) -> None:
    """Write the lock files anew; versions that still fit stay, unless options say otherwise."""
    _compile(FULL, "--all-extras", *options)
    for name, extras in PARTS.items():
        given = [option for extra in extras for option in ("--extra", extra)]
        _compile(name, *given, "--constraints", FULL, *options)


def problems(root: Path = ROOT) -> list[str]:
    """What is wrong with the lock files; empty if they are fresh. Needs no network."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    full = pins((root / FULL).read_text())
    everything = [*project["dependencies"], *(line for lines in extras.values() for line in lines)]
    found = list(_not_answered(FULL, full, _requirements(everything)))
    for name, parts in PARTS.items():
        part = pins((root / name).read_text())
        wanted = [*project["dependencies"], *(line for each in parts for line in extras[each])]
        found += _not_answered(name, part, _requirements(wanted))
        found += (
            f"{name}: {pin.name} {pin.version} differs from {FULL}"
            for pin in _differing(part, full)
        )
    found += (
        f"{name}: holds an address"
        for name in (FULL, *PARTS)
        if _ADDRESS.search((root / name).read_text())
    )
    return found


def pins(text: str) -> list[Pin]:
    """The packages of a lock file; one may stand there more than once, for different Pythons."""
    entries = re.split(r"\n(?=[A-Za-z0-9])", text)
    return [
        Pin(
            name=canonicalize_name(pinned[1]),
            version=pinned[3],
            hashes=frozenset(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry)),
            is_direct=_DIRECT in entry,
        )
        for entry in entries
        if (pinned := _PIN.match(entry))
    ]


def _compile(output: str, *options: str) -> None:
    command = [
        *("uv", "pip", "compile", "pyproject.toml", "--output-file", output, *options),
        *("--universal", "--python-version", "3.11", "--generate-hashes", "--no-emit-index-url"),
        *("--custom-compile-command", "make lock", "--quiet"),
    ]
    subprocess.run([sys.executable, "-m", *command], cwd=ROOT, check=True)  # noqa: S603 - our own command


def _requirements(lines: list[str]) -> list[Requirement]:
    return [Requirement(line) for line in lines]


def _not_answered(file: str, locked: list[Pin], wanted: list[Requirement]) -> Iterator[str]:
    for requirement in wanted:
        versions = [pin for pin in locked if pin.name == canonicalize_name(requirement.name)]
        if not versions:
            yield f"{file}: {requirement} is missing"
        for pin in versions:
            if not requirement.specifier.contains(Version(pin.version), prereleases=True):
                yield f"{file}: {pin.name} {pin.version} is not {requirement.specifier}"
    names = {canonicalize_name(requirement.name) for requirement in wanted}
    for pin in locked:
        if pin.is_direct and pin.name not in names:
            yield f"{file}: pyproject.toml no longer asks for {pin.name}"
        if not pin.hashes:
            yield f"{file}: {pin.name} {pin.version} has no hash"


def _differing(some: list[Pin], whole: list[Pin]) -> Iterator[Pin]:
    known = {(pin.name, pin.version, pin.hashes) for pin in whole}
    return (pin for pin in some if (pin.name, pin.version, pin.hashes) not in known)


def main(arguments: list[str]) -> None:
    """`make` writes the lock files, `upgrade` with new versions; `check` says what is wrong."""
    match arguments:
        case ["make"]:
            make()
        case ["upgrade"]:
            make("--upgrade")
        case ["check"]:
            if found := problems():
                sys.exit("\n".join([*found, "Run `make lock` and commit what it writes."]))
        case _:
            sys.exit("usage: python -m tools.lock make | upgrade | check")


if __name__ == "__main__":
    main(sys.argv[1:])
