"""The examples, and what each needs that may not be here."""

import importlib.util
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml

from api.documents.reading import read_document
from api.job_files.reading import read_job_file
from api.job_files.rules import Surroundings
from api.job_files.spec_mapping import to_spec
from scheduler.domain.ids import ProjectName, QueueName
from scheduler.domain.job import JobSpec
from tests.not_run import not_run
from tests.source_tree import ROOT

EXAMPLES = ROOT / "examples"
SYSTEM_PYTHON = "/usr/bin/python3"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One job file of examples/."""

    file: str
    steps: int
    workers: int
    is_here: Callable[[], bool] = lambda: True
    needs: str = ""

    @property
    def path(self) -> Path:
        """Its job file."""
        return EXAMPLES / self.file

    @property
    def name(self) -> str:
        """The name of its job."""
        name: str = yaml.safe_load(self.path.read_text())["metadata"]["name"]
        return name

    def spec(self) -> JobSpec:
        """What its job file means."""
        queues = (QueueName("default"),)
        around = Surroundings(
            project=ProjectName("default"),
            queues=queues,
            all_queues=queues,
            priorities={"normal": 0},
        )
        file = read_job_file(read_document(self.path.read_bytes(), is_yaml=True), around)
        return to_spec(file.spec, labels={}, default_queue=queues[0])

    def require(self) -> None:
        """Report the test as not run if the framework is not here."""
        if not self.is_here():
            not_run(f"{self.file} needs {self.needs}: see debian-packages.txt")


def _system_has(*modules: str) -> bool:
    command = [SYSTEM_PYTHON, "-c", f"import {', '.join(modules)}"]
    try:
        return subprocess.run(command, check=False, capture_output=True).returncode == 0  # noqa: S603 - fixed words
    except FileNotFoundError:
        return False


def _has_torch() -> bool:
    return Path("/usr/bin/torchrun").exists() and _system_has("torch", "sklearn")


def _has_mpi() -> bool:
    return Path("/usr/bin/mpirun").exists() and _system_has("mpi4py", "sklearn")


def _has_jax() -> bool:
    return importlib.util.find_spec("jax") is not None


NUMPY = Example(file="numpy-ddp/job.yaml", steps=600, workers=4)
MINIMAL = Example(file="numpy-ddp/minimal.yaml", steps=600, workers=4)
PYTORCH = Example(
    file="pytorch-ddp/job.yaml",
    steps=300,
    workers=2,
    is_here=_has_torch,
    needs="python3-torch and python3-sklearn",
)
JAX = Example(file="jax/job.yaml", steps=120, workers=2, is_here=_has_jax, needs="jax")
MPI = Example(
    file="mpi/job.yaml",
    steps=400,
    workers=4,
    is_here=_has_mpi,
    needs="openmpi-bin, python3-mpi4py and python3-sklearn",
)

ALL = (NUMPY, MINIMAL, PYTORCH, JAX, MPI)
