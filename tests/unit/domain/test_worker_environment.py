"""What a worker finds in its environment, launcher by launcher, and which names are ours."""

import json
import re
from pathlib import Path

import pytest

from scheduler.domain.copying import replace
from scheduler.domain.ids import Rank, RoleName
from scheduler.domain.instants import Instant
from scheduler.domain.job import Launcher, Role
from scheduler.domain.worker_environment import (
    RESERVED_NAMES,
    GangFacts,
    MpiRelay,
    WorkerAddress,
    expanded,
    hostfile_text,
    is_reserved,
    worker_command,
    worker_environment,
)
from scheduler.ports.cluster import GangOrder
from tests.gangs import an_order

REFERENCE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "worker-environment.md"

NEVER_SET = {"LD_PRELOAD", "NVIDIA_VISIBLE_DEVICES"}


def facts(order: GangOrder, *, hosts: list[str] | None = None) -> GangFacts:
    return GangFacts(
        attempt=order.attempt,
        project=order.project,
        name=order.name,
        spec=order.spec,
        reservations=order.reservations,
        addresses=tuple(
            WorkerAddress(host=host, port=29500 + rank)
            for rank, host in enumerate(hosts or ["10.0.0.1"] * len(order.reservations))
        ),
        hostfile="/job/hostfile",
        checkpoint_dir="/ckpt",
        deadline=order.deadline,
        server_dir="/srv/checkout",
        api_url="http://dallyd:8080",
        api_token="secret",  # noqa: S106 - a word, not a secret
    )


def roles(*parts: tuple[str, int, int]) -> tuple[Role, ...]:
    return tuple(
        Role(name=RoleName(name), workers=workers, gpus_per_worker=gpus, command=(name,))
        for name, workers, gpus in parts
    )


def test_every_worker_knows_its_job_and_its_place_in_the_gang() -> None:
    order = an_order(nodes={"n0": 1, "n1": 1}, gpus_per_worker=2, deadline=Instant(5_900_000))
    found = worker_environment(facts(order, hosts=["a", "b"]), Rank(1), devices=("2", "3"))
    assert found == {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "2,3",
        "DALLY_API_TOKEN": "secret",
        "DALLY_API_URL": "http://dallyd:8080",
        "DALLY_ATTEMPT": "0",
        "DALLY_CHECKPOINT_DIR": "/ckpt",
        "DALLY_DEADLINE": "5",
        "DALLY_GPUS_PER_WORKER": "2",
        "DALLY_GRACE_SECONDS": "120",
        "DALLY_HOSTFILE": "/job/hostfile",
        "DALLY_HOSTS": "a,b",
        "DALLY_JOB_NAME": "job-1",
        "DALLY_JOB_UID": "job-1",
        "DALLY_NODE": "n1",
        "DALLY_PROJECT": "default",
        "DALLY_QUEUE": "default",
        "DALLY_RANK": "1",
        "DALLY_ROLE": "worker",
        "DALLY_ROLE_RANK": "1",
        "DALLY_SERVER_DIR": "/srv/checkout",
        "DALLY_WORKERS": "2",
        "LOCAL_RANK": "0",
        "MASTER_ADDR": "a",
        "MASTER_PORT": "29500",
        "RANK": "1",
        "WORLD_SIZE": "2",
    }


@pytest.mark.parametrize(
    ("launcher", "gpus", "added"),
    [
        pytest.param(Launcher.PLAIN, 1, {}, id="plain adds nothing"),
        pytest.param(
            Launcher.TORCHRUN,
            4,
            {
                "PET_NNODES": "2",
                "PET_NODE_RANK": "1",
                "PET_NPROC_PER_NODE": "4",
                "PET_MASTER_ADDR": "a",
                "PET_MASTER_PORT": "29500",
            },
            id="torchrun starts one process a GPU",
        ),
        pytest.param(
            Launcher.TORCHRUN,
            0,
            {
                "PET_NNODES": "2",
                "PET_NODE_RANK": "1",
                "PET_NPROC_PER_NODE": "1",
                "PET_MASTER_ADDR": "a",
                "PET_MASTER_PORT": "29500",
            },
            id="torchrun starts one process without GPUs",
        ),
        pytest.param(
            Launcher.JAX,
            1,
            {
                "JAX_COORDINATOR_ADDRESS": "a:29500",
                "JAX_NUM_PROCESSES": "2",
                "JAX_PROCESS_ID": "1",
            },
            id="jax finds its coordinator",
        ),
        pytest.param(
            Launcher.MPI,
            1,
            {
                "OMPI_MCA_orte_default_hostfile": "/job/hostfile",
                "HYDRA_HOST_FILE": "/job/hostfile",
                "I_MPI_HYDRA_HOST_FILE": "/job/hostfile",
            },
            id="mpirun finds its hosts",
        ),
    ],
)
def test_each_launcher_adds_its_own_variables(
    launcher: Launcher, gpus: int, added: dict[str, str]
) -> None:
    order = an_order(nodes={"n0": 1, "n1": 1}, gpus_per_worker=gpus, launcher=launcher)
    found = worker_environment(facts(order, hosts=["a", "b"]), Rank(1))
    others = {
        name: value
        for name, value in found.items()
        if not name.startswith(("DALLY_", "MASTER_"))
        and name not in ("RANK", "WORLD_SIZE", "LOCAL_RANK")
    }
    assert others == added


def test_where_workers_are_machines_mpirun_reaches_them_by_agents() -> None:
    order = an_order(nodes={"n0": 1, "n1": 1}, launcher=Launcher.MPI, command=("mpirun", "train"))
    relay = MpiRelay(port=9, secret="told to nobody else")  # noqa: S106 - a word, not a secret
    gang = replace(facts(order, hosts=["a", "b"]), mpi_relay=relay)
    found = worker_environment(gang, Rank(1))
    assert {name: value for name, value in found.items() if "OMPI" in name or "MPI_" in name} == {
        "DALLY_MPI_PORT": "9",
        "DALLY_MPI_SECRET": "told to nobody else",
        "I_MPI_HYDRA_HOST_FILE": "/job/hostfile",
        "OMPI_MCA_orte_default_hostfile": "/job/hostfile",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
        "OMPI_MCA_plm_rsh_agent": "python3 -m dally_runtime.mpi rsh",
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
    }
    runtime = ("python3", "-m", "dally_runtime.mpi")
    assert worker_command(gang, Rank(0), found) == (*runtime, "lead", "--", "mpirun", "train")
    assert worker_command(gang, Rank(1), found) == (*runtime, "agent")
    on_one_machine = replace(gang, mpi_relay=None)
    assert worker_command(on_one_machine, Rank(1), found) == ("mpirun", "train")


def test_processes_of_mpirun_do_not_inherit_the_rank_of_the_worker_that_runs_it() -> None:
    order = an_order(launcher=Launcher.MPI)
    assert not {"RANK", "WORLD_SIZE", "LOCAL_RANK"} & set(worker_environment(facts(order), Rank(0)))


def test_tensorflow_finds_its_cluster_by_role() -> None:
    order = an_order(roles=roles(("chief", 1, 0), ("worker", 2, 1)), launcher=Launcher.TF)
    found = worker_environment(facts(order, hosts=["a", "b", "c"]), Rank(2))
    assert json.loads(found["TF_CONFIG"]) == {
        "cluster": {"chief": ["a:29500"], "worker": ["b:29501", "c:29502"]},
        "task": {"type": "worker", "index": 1},
    }
    assert (found["DALLY_ROLE"], found["DALLY_ROLE_RANK"]) == ("worker", "1")


def test_a_worker_without_gpus_is_shown_none() -> None:
    order = an_order(gpus_per_worker=0)
    assert worker_environment(facts(order), Rank(0), devices=())["CUDA_VISIBLE_DEVICES"] == ""
    assert "CUDA_VISIBLE_DEVICES" not in worker_environment(facts(order), Rank(0))


def test_what_does_not_apply_is_left_out() -> None:
    order = an_order()
    bare = GangFacts(
        attempt=order.attempt,
        project=order.project,
        name=order.name,
        spec=order.spec,
        reservations=order.reservations,
        addresses=(WorkerAddress(host="a", port=1),),
        hostfile="/h",
    )
    assert not {
        "DALLY_API_TOKEN",
        "DALLY_API_URL",
        "DALLY_CHECKPOINT_DIR",
        "DALLY_DEADLINE",
        "DALLY_SERVER_DIR",
    } & set(worker_environment(bare, Rank(0)))


def test_the_hostfile_has_a_line_a_host_with_a_slot_a_gpu() -> None:
    order = an_order(nodes={"n0": 2, "n1": 1}, gpus_per_worker=4)
    assert hostfile_text(facts(order, hosts=["a", "a", "b"])) == "a slots=8\nb slots=4\n"
    cpu_only = an_order(nodes={"n0": 2}, gpus_per_worker=0)
    assert hostfile_text(facts(cpu_only, hosts=["a", "a"])) == "a slots=2\n"


@pytest.mark.parametrize(
    ("text", "result"),
    [
        pytest.param("--rank=$(DALLY_RANK)", "--rank=3", id="a known name is filled in"),
        pytest.param("$(A)$(A)", "onetwoonetwo", id="every time"),
        pytest.param("$(NO_SUCH)", "$(NO_SUCH)", id="an unknown name stays"),
        pytest.param("$$(DALLY_RANK)", "$(DALLY_RANK)", id="two dollars escape"),
        pytest.param("$(B)", "$(A)", id="what is filled in is not looked at again"),
        pytest.param("$(date) $DALLY_RANK ${A}", "$(date) $DALLY_RANK ${A}", id="no shell"),
        pytest.param("$(param.lr)", "$(param.lr)", id="parameters are not variables"),
    ],
)
def test_references_are_expanded(text: str, result: str) -> None:
    variables = {"DALLY_RANK": "3", "A": "onetwo", "B": "$(A)"}
    assert expanded(text, variables) == result


def test_commands_and_user_variables_may_name_the_contract() -> None:
    order = an_order(
        command=("python", "train.py", "--out=$(OUT)", "$(DALLY_RANK)"),
        env={"OUT": "/data/$(DALLY_JOB_NAME)"},
    )
    environment = worker_environment(facts(order), Rank(0))
    assert environment["OUT"] == "/data/job-1"
    command = worker_command(facts(order), Rank(0), environment)
    assert command == ("python", "train.py", "--out=/data/job-1", "0")


def test_a_reserved_name_that_slipped_in_changes_nothing() -> None:
    order = an_order(env={"RANK": "7", "LD_PRELOAD": "/evil.so", "MINE": "1"})
    found = worker_environment(facts(order), Rank(0))
    assert (found["RANK"], found["MINE"], "LD_PRELOAD" in found) == ("0", "1", False)


@pytest.mark.parametrize(
    ("name", "reserved"),
    [
        ("RANK", True),
        ("DALLY_ANYTHING", True),
        ("LD_PRELOAD", True),
        ("PATH", False),
        ("rank", False),
        ("NCCL_DEBUG", False),
    ],
)
def test_names_are_reserved_exactly(name: str, *, reserved: bool) -> None:
    assert is_reserved(name) is reserved


def test_the_reference_names_every_variable_and_no_other() -> None:
    order = an_order(deadline=Instant(1))
    set_by_us: set[str] = set()
    for launcher in Launcher:
        gang = replace(
            facts(an_order(launcher=launcher, deadline=order.deadline)),
            mpi_relay=MpiRelay(port=1, secret="a word"),  # noqa: S106 - not a secret
        )
        set_by_us |= set(worker_environment(gang, Rank(0), devices=()))
    documented = set(re.findall(r"^\| `([A-Za-z_]+)` \|", REFERENCE.read_text(), re.MULTILINE))
    assert documented == set_by_us
    assert {name for name in set_by_us if not name.startswith("DALLY_")} == (
        RESERVED_NAMES - NEVER_SET
    )
