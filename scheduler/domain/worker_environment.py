"""The variables every worker finds in its environment: one contract for all clusters.

worker variables   DALLY_*          always
rendezvous         MASTER_*         always; RANK, WORLD_SIZE, LOCAL_RANK unless mpirun sets its own
per launcher       PET_*  JAX_*  TF_CONFIG  OMPI_* and the hostfile of MPI
devices            CUDA_VISIBLE_DEVICES, where we choose the GPUs

docs/reference/worker-environment.md says what each of them means.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby

from scheduler.domain.ids import JobName, ProjectName, Rank, RoleName
from scheduler.domain.instants import Instant, in_seconds
from scheduler.domain.job import JobSpec, Launcher, Role
from scheduler.domain.reservation import AttemptKey, Reservation

RESERVED_PREFIX = "DALLY_"

RESERVED_NAMES = frozenset(
    {
        "CUDA_DEVICE_ORDER",
        "CUDA_VISIBLE_DEVICES",
        "HYDRA_HOST_FILE",
        "I_MPI_HYDRA_HOST_FILE",
        "JAX_COORDINATOR_ADDRESS",
        "JAX_NUM_PROCESSES",
        "JAX_PROCESS_ID",
        "LD_PRELOAD",
        "LOCAL_RANK",
        "MASTER_ADDR",
        "MASTER_PORT",
        "NVIDIA_VISIBLE_DEVICES",
        "OMPI_MCA_orte_default_hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames",
        "OMPI_MCA_plm_rsh_agent",
        "OMPI_MCA_plm_rsh_no_tree_spawn",
        "PET_MASTER_ADDR",
        "PET_MASTER_PORT",
        "PET_NNODES",
        "PET_NODE_RANK",
        "PET_NPROC_PER_NODE",
        "RANK",
        "TF_CONFIG",
        "WORLD_SIZE",
    }
)
"""Names besides the prefix that a job file may not set.

LD_PRELOAD and NVIDIA_VISIBLE_DEVICES are never set by us: the first could replace what surrounds
the worker, the second shows a container GPUs that were given to others.
"""

_REFERENCE = re.compile(r"(\$?)\$\(([A-Za-z_][A-Za-z0-9_.]*)\)")


def is_reserved(name: str) -> bool:
    """Whether the service keeps this variable for itself, whatever the job's launcher is."""
    return name.startswith(RESERVED_PREFIX) or name in RESERVED_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerAddress:
    """Where the other workers reach a worker."""

    host: str
    port: int
    """Free for this worker on its host; rank 0's is the port of the rendezvous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MpiRelay:
    """How mpirun reaches the other workers where each is a machine of its own, without sshd."""

    port: int
    """At which the agent of each worker listens."""
    secret: str
    """Known to the workers of this attempt alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangFacts:
    """What a gang's environments are made of."""

    attempt: AttemptKey
    project: ProjectName
    name: JobName
    spec: JobSpec
    reservations: tuple[Reservation, ...]
    """One per rank, in rank order."""
    addresses: tuple[WorkerAddress, ...]
    """One per rank, in rank order."""
    hostfile: str
    """Path at which every worker finds the text of `hostfile_text`."""
    checkpoint_dir: str = ""
    """The same in every attempt of a job; empty where nothing outlives an attempt."""
    deadline: Instant | None = None
    server_dir: str = ""
    """Where the server was started; empty where workers do not see its files."""
    api_url: str = ""
    """Empty where workers can not reach the service."""
    api_token: str = ""
    mpi_relay: MpiRelay | None = None
    """None where all workers are on one machine."""


def worker_environment(
    gang: GangFacts, rank: Rank, *, devices: tuple[str, ...] | None = None
) -> dict[str, str]:
    """All variables of one worker, the user's included.

    `devices` are the GPUs it may use, by their numbers in the order of the PCI bus; None where the
    cluster hides the others itself.
    """
    contract = {
        **_identity(gang, rank),
        **_gang_shape(gang, rank),
        **_service(gang),
        **_rendezvous(gang, rank),
        **_LAUNCHERS[gang.spec.launcher](gang, rank),
    }
    if devices is not None:
        contract["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
        contract["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    # Reserved names are refused at submission; a job from before a name was reserved loses it here.
    users = {
        name: expanded(value, contract)
        for name, value in _role(gang, rank).env.items()
        if not is_reserved(name)
    }
    return {**users, **contract}


def worker_command(gang: GangFacts, rank: Rank, environment: Mapping[str, str]) -> tuple[str, ...]:
    """What a worker runs: its role's command with the worker's variables filled in.

    Where mpirun needs a way to the other workers, rank 0 alone runs it, and the others an agent.
    """
    command = tuple(expanded(word, environment) for word in _role(gang, rank).command)
    if gang.spec.launcher is not Launcher.MPI or gang.mpi_relay is None:
        return command
    return (*_MPI_RUNTIME, "lead", "--", *command) if rank == 0 else (*_MPI_RUNTIME, "agent")


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """`text` with `$(NAME)` replaced; unknown names stay, `$$(NAME)` gives a plain `$(NAME)`."""

    def replacement(match: re.Match[str]) -> str:
        escape, name = match.groups()
        if escape:
            return f"$({name})"
        return variables.get(name, match.group())

    return _REFERENCE.sub(replacement, text)


def hostfile_text(gang: GangFacts) -> str:
    """The hosts of a gang as mpirun reads them: one line a host with its slots, in rank order."""
    slots = [
        (address.host, max(1, reservation.gpus))
        for address, reservation in zip(gang.addresses, gang.reservations, strict=True)
    ]
    return "".join(
        f"{host} slots={sum(count for _, count in group)}\n"
        for host, group in groupby(slots, key=lambda slot: slot[0])
    )


def _role(gang: GangFacts, rank: Rank) -> Role:
    name = gang.reservations[rank].role
    return next(role for role in gang.spec.roles if role.name == name)


def _rank_in_role(gang: GangFacts, rank: Rank) -> int:
    role = gang.reservations[rank].role
    return rank - next(held.rank for held in gang.reservations if held.role == role)


def _identity(gang: GangFacts, rank: Rank) -> dict[str, str]:
    reservation = gang.reservations[rank]
    return {
        "DALLY_JOB_NAME": gang.name,
        "DALLY_JOB_UID": gang.attempt.job_id,
        "DALLY_PROJECT": gang.project,
        "DALLY_QUEUE": gang.spec.queue,
        "DALLY_ATTEMPT": str(gang.attempt.number),
        "DALLY_RANK": str(rank),
        "DALLY_ROLE": reservation.role,
        "DALLY_ROLE_RANK": str(_rank_in_role(gang, rank)),
        "DALLY_NODE": reservation.node,
    }


def _gang_shape(gang: GangFacts, rank: Rank) -> dict[str, str]:
    return {
        "DALLY_WORKERS": str(gang.spec.workers),
        "DALLY_GPUS_PER_WORKER": str(gang.reservations[rank].gpus),
        "DALLY_HOSTS": ",".join(address.host for address in gang.addresses),
        "DALLY_HOSTFILE": gang.hostfile,
    }


def _service(gang: GangFacts) -> dict[str, str]:
    variables = {"DALLY_GRACE_SECONDS": f"{in_seconds(gang.spec.checkpoint.grace):g}"}
    if gang.checkpoint_dir:
        variables["DALLY_CHECKPOINT_DIR"] = gang.checkpoint_dir
    if gang.deadline is not None:
        variables["DALLY_DEADLINE"] = str(gang.deadline // 1_000_000)
    if gang.server_dir:
        variables["DALLY_SERVER_DIR"] = gang.server_dir
    if gang.api_url:
        variables["DALLY_API_URL"] = gang.api_url
        variables["DALLY_API_TOKEN"] = gang.api_token
    return variables


def _rendezvous(gang: GangFacts, rank: Rank) -> dict[str, str]:
    variables = {
        "MASTER_ADDR": gang.addresses[0].host,
        "MASTER_PORT": str(gang.addresses[0].port),
    }
    # What mpirun starts would inherit the number of the worker that runs mpirun.
    if gang.spec.launcher is not Launcher.MPI:
        variables |= {
            "RANK": str(rank),
            "WORLD_SIZE": str(gang.spec.workers),
            "LOCAL_RANK": "0",
        }
    return variables


def _plain(_gang: GangFacts, _rank: Rank) -> dict[str, str]:
    return {}


def _torchrun(gang: GangFacts, rank: Rank) -> dict[str, str]:
    return {
        "PET_NNODES": str(gang.spec.workers),
        "PET_NODE_RANK": str(rank),
        "PET_NPROC_PER_NODE": str(max(1, gang.reservations[rank].gpus)),
        "PET_MASTER_ADDR": gang.addresses[0].host,
        "PET_MASTER_PORT": str(gang.addresses[0].port),
    }


def _jax(gang: GangFacts, rank: Rank) -> dict[str, str]:
    return {
        "JAX_COORDINATOR_ADDRESS": f"{gang.addresses[0].host}:{gang.addresses[0].port}",
        "JAX_NUM_PROCESSES": str(gang.spec.workers),
        "JAX_PROCESS_ID": str(rank),
    }


def _tf(gang: GangFacts, rank: Rank) -> dict[str, str]:
    cluster: dict[RoleName, list[str]] = {}
    for address, reservation in zip(gang.addresses, gang.reservations, strict=True):
        cluster.setdefault(reservation.role, []).append(f"{address.host}:{address.port}")
    task = {"type": gang.reservations[rank].role, "index": _rank_in_role(gang, rank)}
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def _mpi(gang: GangFacts, _rank: Rank) -> dict[str, str]:
    variables = {
        "OMPI_MCA_orte_default_hostfile": gang.hostfile,
        "HYDRA_HOST_FILE": gang.hostfile,
        "I_MPI_HYDRA_HOST_FILE": gang.hostfile,
    }
    if gang.mpi_relay is not None:
        variables |= {
            "DALLY_MPI_PORT": str(gang.mpi_relay.port),
            "DALLY_MPI_SECRET": gang.mpi_relay.secret,
            "OMPI_MCA_plm_rsh_agent": " ".join((*_MPI_RUNTIME, "rsh")),
            # Only rank 0 asks the agents, so that none of them has to wait for another one.
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            # Without its domain a worker's name resolves nowhere but in its own pod.
            "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
        }
    return variables


_MPI_RUNTIME = ("python3", "-m", "dally_runtime.mpi")
"""In the image of the job; see runtime/dally_runtime/mpi."""


_LAUNCHERS: Mapping[Launcher, Callable[[GangFacts, Rank], dict[str, str]]] = {
    Launcher.PLAIN: _plain,
    Launcher.TORCHRUN: _torchrun,
    Launcher.JAX: _jax,
    Launcher.TF: _tf,
    Launcher.MPI: _mpi,
}
