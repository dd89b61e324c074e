"""What a worker is started with: variables, folders, GPUs, ports; and what is refused."""

import os
import stat
from pathlib import Path

import pytest

from scheduler.domain.ids import RoleName
from scheduler.domain.job import Launcher, Outcome, Role
from scheduler.ports.cluster import WorkerState
from tests.gangs import an_order
from tests.local.executor import KEY, Executor, an_executor, settings, sh
from tests.polling import wait_until


def variables(log: str) -> dict[str, str]:
    """What `env` has printed."""
    return dict(line.split("=", 1) for line in log.splitlines())


def test_a_worker_sees_its_contract_and_nothing_of_the_server(tmp_path: Path) -> None:
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/srv/someone",
        "LANG": "C.UTF-8",
        "DALLYD_DATABASE_URL": "postgresql://user:password@host/db",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "PYTHONPATH": "/opt/server",
    }
    with an_executor(tmp_path, settings(tmp_path, environ=environ)) as executor:
        order = an_order(command=("env",), env={"MINE": "$(DALLY_JOB_NAME)!", "LANG": "C"})
        found = variables(executor.run(order))
    contract = {name for name in found if name.startswith("DALLY_")}
    assert set(found) - contract == {
        "PATH",
        "HOME",
        "LANG",
        "MINE",
        "PYTHONUNBUFFERED",
        "MASTER_ADDR",
        "MASTER_PORT",
        "RANK",
        "WORLD_SIZE",
        "LOCAL_RANK",
        "CUDA_VISIBLE_DEVICES",
        "CUDA_DEVICE_ORDER",
    }
    assert (found["MINE"], found["LANG"]) == ("job-1!", "C")
    told = {name: found[name] for name in ("DALLY_API_TOKEN", "DALLY_API_URL")}
    assert list(told.values()) == ["token-of-job-1/0", "http://127.0.0.1:1"]


def test_the_servers_own_python_comes_first(executor: Executor) -> None:
    found = executor.run(an_order(command=("python3", "-c", "import numpy; print('numpy')")))
    assert found == "numpy\n"


def test_commands_are_not_read_by_a_shell(executor: Executor) -> None:
    order = an_order(command=("printf", "%s|", "$HOME", "a b", "*", "; exit 1", "$(DALLY_RANK)"))
    assert executor.run(order) == "$HOME|a b|*|; exit 1|0|"


def test_what_holds_the_token_is_for_the_servers_user_alone(executor: Executor) -> None:
    executor.run(an_order())
    folder = executor.worker_folder()
    assert stat.S_IMODE((folder / "spec").stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(executor.data.stat().st_mode) == 0o700


def test_without_a_folder_a_gang_gets_one_of_its_own(executor: Executor) -> None:
    found = executor.run(an_order(command=("pwd",)))
    assert found.strip() == str(executor.data / "attempts" / "job-1-a0" / "work")


@pytest.mark.parametrize("is_absolute", [True, False])
def test_a_given_folder_is_used(executor: Executor, *, is_absolute: bool) -> None:
    folder = executor.folder / "code"
    folder.mkdir()
    given = str(folder) if is_absolute else "code"
    assert executor.run(an_order(command=("pwd",), working_dir=given)).strip() == str(folder)


def test_a_program_beside_the_job_is_found(executor: Executor) -> None:
    program = executor.folder / "train.sh"
    program.write_text("#!/bin/sh\necho trained\n")
    program.chmod(0o755)
    order = an_order(command=("./train.sh",), working_dir=str(executor.folder))
    assert executor.run(order) == "trained\n"


@pytest.mark.parametrize(
    ("command", "working_dir", "message"),
    [
        pytest.param(("no-such-command",), "", "no such command: no-such-command", id="no command"),
        pytest.param(("./train.sh",), "", "no such command: ./train.sh", id="no program"),
        pytest.param(
            ("./README",), "/etc/..", "no such command: ./README", id="no such file in the folder"
        ),
        pytest.param(("/etc",), "", "not an executable file: /etc", id="a folder"),
        pytest.param(
            ("true",), "/no/such/folder", "no such working folder: /no/such/folder", id="no folder"
        ),
        pytest.param(("true", "a\0b"), "", "a NUL in the command or the environment", id="a NUL"),
    ],
)
def test_what_can_not_run_is_refused_before_anything_runs(
    executor: Executor, command: tuple[str, ...], working_dir: str, message: str
) -> None:
    executor.launch(an_order(command=command, working_dir=working_dir))
    (end,) = executor.ends()
    assert (end.state, end.outcome) == (WorkerState.REFUSED, Outcome.LAUNCH_FAILED)
    assert end.message == message


def test_a_file_that_is_no_program_is_refused(executor: Executor) -> None:
    notes = executor.folder / "notes"
    notes.write_text("not a program")
    notes.chmod(0o644)
    executor.launch(an_order(command=(str(notes),)))
    (end,) = executor.ends()
    assert (end.state, end.message) == (
        WorkerState.REFUSED,
        f"not an executable file: {notes}",
    )


def test_a_program_of_an_unknown_kind_fails_at_its_start(executor: Executor) -> None:
    program = executor.folder / "train"
    program.write_bytes(b"\x7fNOT A PROGRAM")
    program.chmod(0o755)
    executor.launch(an_order(command=(str(program),)))
    (end,) = executor.ends()
    assert (end.state, end.outcome, end.exit_code) == (
        WorkerState.ENDED,
        Outcome.LAUNCH_FAILED,
        126,
    )
    assert end.message == f"{program}: Exec format error"


def test_gpus_are_shown_by_number(executor: Executor) -> None:
    order = an_order(nodes={"n0": 1}, gpus_per_worker=2, command=sh("echo $CUDA_VISIBLE_DEVICES"))
    assert executor.run(order) == "0,1\n"


def test_a_worker_without_gpus_sees_none(executor: Executor) -> None:
    order = an_order(gpus_per_worker=0, command=sh("echo [$CUDA_VISIBLE_DEVICES]"))
    assert executor.run(order) == "[]\n"


def test_gpus_nobody_reserved_by_number_are_chosen(executor: Executor) -> None:
    for job, place in (("job-1", "8,9,10"), ("job-2", "11,12,13")):
        order = an_order(
            job=job,
            nodes={"n1": 1},
            gpus_per_worker=3,
            command=sh("echo $CUDA_VISIBLE_DEVICES; exec sleep 600"),
            are_gpus_chosen=False,
        )
        executor.launch(order)
        executor.wait_for_log(place, order.attempt)


def test_no_gpu_is_given_twice(executor: Executor) -> None:
    executor.launch(an_order(gpus_per_worker=4, command=sh("exec sleep 600")))
    wait_until(lambda: len(executor.reports()) == 1, "the first gang is made")
    second = executor.launch(an_order(job="job-2", gpus_per_worker=4))
    (end,) = executor.ends(second)
    assert (end.state, end.outcome) == (WorkerState.REFUSED, Outcome.ADMISSION_REJECTED)
    assert end.message == "node n0 has not 4 free GPUs for rank 0"
    executor.stop(grace_s=0)
    executor.ends()
    third = executor.launch(an_order(job="job-3", gpus_per_worker=4))
    assert executor.ends(third)[0].exit_code == 0


def test_a_node_that_is_not_configured_any_more_is_refused(executor: Executor) -> None:
    executor.launch(an_order(nodes={"n7": 1}))
    (end,) = executor.ends()
    assert (end.state, end.message) == (WorkerState.REFUSED, "no node named n7")


def test_each_gang_has_its_own_rendezvous(executor: Executor) -> None:
    ports: list[str] = []
    for job in ("job-1", "job-2", "job-3"):
        order = an_order(
            job=job,
            nodes={"n0": 2},
            gpus_per_worker=0,
            command=sh("echo $MASTER_ADDR:$MASTER_PORT; exec sleep 600"),
        )
        executor.launch(order)
        for rank in (0, 1):
            executor.wait_for_log("\n", order.attempt, rank)
        assert executor.log(order.attempt, 0) == executor.log(order.attempt, 1)
        ports.append(executor.log(order.attempt).strip())
    assert len(set(ports)) == 3
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_a_jobs_own_checkpoint_folder_outlives_its_attempts(executor: Executor) -> None:
    write = sh("echo step 7 > $DALLY_CHECKPOINT_DIR/latest; exit 1")
    executor.launch(an_order(command=write))
    executor.ends()
    read = an_order(number=1, command=sh("cat $DALLY_CHECKPOINT_DIR/latest"))
    assert executor.run(read) == "step 7\n"


def test_a_given_checkpoint_path_is_passed_on(executor: Executor) -> None:
    order = an_order(command=sh("echo $DALLY_CHECKPOINT_DIR"), checkpoint_path="/ckpt/run1")
    assert executor.run(order) == "/ckpt/run1\n"


def test_under_mpi_rank_0_runs_for_all_and_the_others_hold_their_slots(executor: Executor) -> None:
    order = an_order(
        nodes={"n0": 2, "n1": 1},
        gpus_per_worker=2,
        launcher=Launcher.MPI,
        command=sh("cat $DALLY_HOSTFILE; echo $CUDA_VISIBLE_DEVICES"),
        are_gpus_chosen=False,
    )
    executor.launch(order)
    ends = executor.ends(workers=3)
    assert [(end.state, end.exit_code) for end in ends] == [(WorkerState.ENDED, 0)] * 3
    assert executor.log() == "127.0.0.1 slots=6\n0,1,2,3,8,9\n"
    assert executor.log(rank=1) == ""


def test_a_holder_can_be_stopped(executor: Executor) -> None:
    order = an_order(nodes={"n0": 2}, launcher=Launcher.MPI, command=sh("echo up; exec sleep 600"))
    executor.launch(order)
    executor.wait_for_log("up")
    executor.stop()
    assert [end.exit_code for end in executor.ends(workers=2)] == [143, 143]


def test_roles_run_their_own_commands(executor: Executor) -> None:
    parts = tuple(
        Role(
            name=RoleName(name),
            workers=workers,
            gpus_per_worker=0,
            command=sh("echo $DALLY_ROLE $DALLY_ROLE_RANK $DALLY_RANK"),
        )
        for name, workers in (("chief", 1), ("ps", 2))
    )
    executor.launch(an_order(nodes={"n0": 3}, roles=parts))
    executor.ends(workers=3)
    assert [executor.log(KEY, rank) for rank in range(3)] == [
        "chief 0 0\n",
        "ps 0 1\n",
        "ps 1 2\n",
    ]


def test_a_supervisor_that_can_not_start_is_told(tmp_path: Path) -> None:
    with an_executor(tmp_path, settings(tmp_path, python="/bin/false")) as executor:
        executor.launch(an_order())
        (end,) = executor.ends()
        assert (end.state, end.outcome) == (WorkerState.REFUSED, Outcome.LAUNCH_FAILED)
        assert end.message.startswith("its supervisor can not be started")


def test_what_the_disk_refuses_is_tried_again(
    executor: Executor, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = executor.data / "attempts"
    away = executor.data / "away"
    attempts.rename(away)
    executor.launch(an_order())
    wait_until(lambda: "local_publish_failed" in caplog.text, "a try has failed")
    away.rename(attempts)
    assert executor.ends()[0].exit_code == 0
