"""Turns an order into the folder of a gang: places, environments, commands."""

import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from scheduler.adapters.local import folders
from scheduler.adapters.local.folders import GangFolder, Layout, WorkerPlace
from scheduler.adapters.local.port_numbers import PortNumbers
from scheduler.adapters.local.supervisor import records
from scheduler.domain.ids import Rank
from scheduler.domain.job import Launcher, Outcome
from scheduler.domain.reservation import AttemptKey, Reservation
from scheduler.domain.topology import Node
from scheduler.domain.worker_environment import (
    GangFacts,
    WorkerAddress,
    hostfile_text,
    worker_command,
    worker_environment,
)
from scheduler.ports.cluster import GangOrder

HOST = "127.0.0.1"

INHERITED = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "CUDA_HOME",
)
"""All that a worker gets of the server's environment, which may hold secrets."""


MPI_LAUNCHERS = ("mpirun", "mpiexec", "orterun", "prterun", "mpiexec.hydra")
"""Not signalled at a stop: mpirun would pass it on late and kill its processes 2 s after it."""


class RefusedError(Exception):
    """The gang can not be made as ordered; `outcome` and the text say why."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        super().__init__(message)
        self.outcome = outcome
        self.message = message


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSettings:
    """What the server says about every gang."""

    nodes: tuple[Node, ...]
    """Each with the numbers of its GPUs; see machine.py."""
    api_url: str = ""
    attempt_token: Callable[[AttemptKey], str]
    server_dir: Path
    """Where the server was started: job files may name it, and relative folders count from it."""
    environment: Mapping[str, str]
    """What every worker inherits."""
    python: str = sys.executable
    """Interpreter of the supervisors."""
    log_bytes_max: int = 64 << 20
    """Of each worker's log, so many last bytes are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InUse:
    """What living workers hold."""

    ports: frozenset[int] = field(default_factory=frozenset)
    gpus: frozenset[int] = field(default_factory=frozenset)


def inherited(environ: Mapping[str, str], *, python: str) -> dict[str, str]:
    """What workers get of the server's environment; the folder of `python` leads their PATH."""
    kept = {name: environ[name] for name in INHERITED if name in environ}
    path = f"{Path(python).parent}{os.pathsep}{kept.get('PATH', os.defpath)}"
    return {**kept, "PATH": path, "PYTHONUNBUFFERED": "1"}


class GangMaker:
    """Publishes gangs."""

    def __init__(self, layout: Layout, settings: GangSettings) -> None:
        self._layout = layout
        self._settings = settings
        self._ports = PortNumbers(sum(os.fsencode(layout.root)) * 97)
        self._gpus_by_node = {node.name: _indices(node) for node in settings.nodes}

    def publish(self, order: GangOrder, in_use: InUse) -> GangFolder:
        """Write the whole folder of a gang that is not there yet, then let it appear at once.

        A gang that can not be made appears too, with every worker refused. Raises OSError.
        """
        gang = self._layout.gang(order.attempt)
        new = GangFolder(order.attempt, gang.path.with_name(f".new-{gang.path.name}"))
        shutil.rmtree(new.path, ignore_errors=True)
        new.path.mkdir(mode=0o700)
        (new.path / folders.WORK).mkdir()
        refusal: RefusedError | None = None
        try:
            places = self._places(order, in_use)
            texts = self._spec_texts(order, places, gang)
        except RefusedError as error:
            refusal = error
            places = tuple(
                WorkerPlace(node=held.node, port=0, gpus=()) for held in order.reservations
            )
            texts = ("",) * len(places)
        new.write_places(places)
        for rank, text in enumerate(texts):
            worker = new.worker(rank)
            worker.path.mkdir(mode=0o700)
            os.mkfifo(worker.path / records.WAKE, 0o600)
            _write_private(worker.path / records.SPEC, text)
            if refusal:
                worker.mark_refused(refusal.outcome, refusal.message)
        new.path.rename(gang.path)
        return gang

    def _places(self, order: GangOrder, in_use: InUse) -> tuple[WorkerPlace, ...]:
        ports = self._ports.take(len(order.reservations), used=in_use.ports)
        taken = set(in_use.gpus)
        places: list[WorkerPlace] = []
        for held, port in zip(order.reservations, ports, strict=True):
            gpus = self._gpus_of(held, taken)
            taken.update(gpus)
            places.append(WorkerPlace(node=held.node, port=port, gpus=gpus))
        return tuple(places)

    def _gpus_of(self, held: Reservation, taken: set[int]) -> tuple[int, ...]:
        """The GPUs that were reserved, or the lowest free ones; never one that is in use."""
        if held.node not in self._gpus_by_node:
            raise RefusedError(Outcome.ADMISSION_REJECTED, f"no node named {held.node}")
        free = [gpu for gpu in self._gpus_by_node[held.node] if gpu not in taken]
        wanted = tuple(free[: held.gpus]) if held.gpu_indices is None else held.gpu_indices
        if len(wanted) < held.gpus or not set(wanted) <= set(free):
            message = f"node {held.node} has not {held.gpus} free GPUs for rank {held.rank}"
            raise RefusedError(Outcome.ADMISSION_REJECTED, message)
        return wanted

    def _spec_texts(
        self, order: GangOrder, places: tuple[WorkerPlace, ...], gang: GangFolder
    ) -> tuple[str, ...]:
        facts = GangFacts(
            attempt=order.attempt,
            project=order.project,
            name=order.name,
            spec=order.spec,
            reservations=order.reservations,
            addresses=tuple(WorkerAddress(host=HOST, port=place.port) for place in places),
            hostfile=str(gang.path / folders.HOSTFILE),
            checkpoint_dir=str(self._checkpoint_dir(order)),
            deadline=order.deadline,
            server_dir=str(self._settings.server_dir),
            api_url=self._settings.api_url,
            api_token=self._settings.attempt_token(order.attempt),
        )
        hostfile = gang.path.with_name(f".new-{gang.path.name}") / folders.HOSTFILE
        hostfile.write_text(hostfile_text(facts))
        return tuple(
            self._spec_text(facts, places, Rank(rank), gang) for rank in range(len(places))
        )

    def _spec_text(
        self, facts: GangFacts, places: tuple[WorkerPlace, ...], rank: Rank, gang: GangFolder
    ) -> str:
        gpus = places[rank].gpus
        records = [f"log_bytes_max={self._settings.log_bytes_max}"]
        if facts.spec.launcher is Launcher.MPI:
            # All workers are on this machine: rank 0 starts the processes of all of them.
            if rank == 0:
                gpus = tuple(gpu for place in places for gpu in place.gpus)
                records += [f"spared={name}" for name in MPI_LAUNCHERS]
            else:
                records.append(f"holds_until={gang.worker(0).path}")
        variables = worker_environment(facts, rank, devices=tuple(map(str, gpus)))
        environment = {**self._settings.environment, **variables}
        folder = self._settings.server_dir / facts.spec.working_dir
        records.append(f"folder={folder if facts.spec.working_dir else gang.path / folders.WORK}")
        records += [f"env={name}={value}" for name, value in environment.items()]
        records += [f"arg={word}" for word in worker_command(facts, rank, variables)]
        if any("\0" in record for record in records):
            raise RefusedError(Outcome.LAUNCH_FAILED, "a NUL in the command or the environment")
        return "".join(f"{record}\0" for record in records)

    def _checkpoint_dir(self, order: GangOrder) -> Path:
        """The job's path, or a folder of its own that outlives its attempts."""
        path = Path(order.spec.checkpoint.path or "checkpoint")
        if path.is_absolute():
            return path
        folder = self._layout.jobs / order.attempt.job_id / path
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder


def _indices(node: Node) -> tuple[int, ...]:
    assert node.gpu_indices is not None, f"{node.name}: its GPUs have no numbers"
    return node.gpu_indices


def _write_private(path: Path, text: str) -> None:
    """Write a file that only the server's user can read: it holds the attempt's token."""
    path.touch(mode=0o600, exist_ok=False)
    path.write_bytes(text.encode(errors="surrogateescape"))
