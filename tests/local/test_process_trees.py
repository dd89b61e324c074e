"""A worker is a whole tree of processes: it is signalled, killed and buried as one."""

import os
import signal
import sys

import pytest

from scheduler.adapters.local.folders import WorkerFolder
from scheduler.adapters.local.processes import Children
from scheduler.domain.job import Launcher, Outcome
from scheduler.ports.cluster import WorkerState
from tests.gangs import an_order
from tests.local.executor import Executor, is_alive, sh
from tests.polling import wait_until

# Starts a grandchild in a session of its own and without environment, and says its number.
HIDES_A_GRANDCHILD = "env -i setsid sh -c 'echo grandchild $$; exec sleep 600' &"


def grandchild_of(executor: Executor) -> int:
    """The process id that a worker has said."""
    executor.wait_for_log("grandchild ")
    wait_until(lambda: executor.log().count("\n") >= 1, "the whole line is there")
    return int(executor.log().split("grandchild ")[1].split()[0])


def supervisor_of(executor: Executor) -> int:
    """Process id of the supervisor of rank 0."""
    claim = (executor.worker_folder() / "claim").read_text()
    return int(claim.split("pid=")[1].split()[0])


def test_what_the_command_leaves_behind_ends_with_it(executor: Executor) -> None:
    executor.launch(an_order(command=sh(f"{HIDES_A_GRANDCHILD} sleep 0.2; exit 4")))
    grandchild = grandchild_of(executor)
    (end,) = executor.ends()
    assert end.exit_code == 4
    assert not is_alive(grandchild)


def test_a_killed_supervisor_takes_its_worker_along(executor: Executor) -> None:
    executor.launch(an_order(command=sh("setsid sh -c 'echo grandchild $$; sleep 600' & wait")))
    grandchild = grandchild_of(executor)
    os.kill(supervisor_of(executor), signal.SIGKILL)
    (end,) = executor.ends()
    assert (end.state, end.outcome) == (WorkerState.GONE, Outcome.WORKER_LOST)
    assert end.message == "its supervisor was killed or the machine was restarted"
    assert end.exit_code is None
    assert not is_alive(grandchild)


def test_a_lost_worker_stays_lost_for_a_new_executor(executor: Executor) -> None:
    executor.launch(an_order(command=sh("echo up; sleep 600")))
    executor.wait_for_log("up")
    os.kill(supervisor_of(executor), signal.SIGKILL)
    (before,) = executor.ends()
    executor.cluster.close()
    executor.cluster.start()
    assert executor.reports() == [before]


def test_a_restart_of_the_machine_means_that_the_workers_are_gone(executor: Executor) -> None:
    executor.launch(an_order(command=sh("echo up; sleep 600")))
    executor.wait_for_log("up")
    executor.cluster.close()
    os.kill(supervisor_of(executor), signal.SIGKILL)
    claim = executor.worker_folder() / "claim"
    lines = [line for line in claim.read_text().splitlines() if not line.startswith("boot=")]
    claim.write_text("\n".join([*lines, "boot=the-boot-before"]) + "\n")
    executor.cluster.start()
    (end,) = executor.ends()
    assert end.state is WorkerState.GONE


def test_a_process_that_took_over_a_number_is_not_touched(executor: Executor) -> None:
    executor.launch(an_order(command=sh("echo up; sleep 600")))
    executor.wait_for_log("up")
    os.kill(supervisor_of(executor), signal.SIGKILL)
    executor.ends()
    executor.cluster.close()
    stranger = os.posix_spawn("/bin/sleep", ["sleep", "600"], {}, setpgroup=0)
    folder = executor.worker_folder()
    (folder / "run").write_text(f"pid={stranger}\nticks=1\nstarted_at=1\n")
    (folder / "gone").unlink()
    executor.cluster.start()
    executor.ends()
    assert is_alive(stranger)
    os.kill(stranger, signal.SIGKILL)
    os.waitpid(stranger, 0)


@pytest.mark.parametrize("launcher", ["", "setsid"])
def test_the_whole_tree_hears_the_stop_and_gets_its_grace(
    executor: Executor, launcher: str
) -> None:
    # The shell dies of the signal at once; its child needs a moment to save its work.
    child = "trap 'sleep 0.3; echo saved; exit 0' TERM; echo up; while :; do sleep 0.01; done"
    executor.launch(an_order(command=sh(f'{launcher} sh -c "{child}"; echo not-reached')))
    executor.wait_for_log("up")
    executor.stop()
    (end,) = executor.ends()
    assert end.exit_code == 143
    assert "saved" in executor.log()
    assert "not-reached" not in executor.log()


def test_under_mpi_the_stop_spares_mpirun(executor: Executor) -> None:
    # Stands for mpirun: dies of the signal, or ends with what it has started.
    mpirun = executor.folder / "mpirun"
    mpirun.write_text('#!/bin/sh\nsh -c "$1"\necho mpirun ended\n')
    mpirun.chmod(0o755)
    child = "trap 'echo saved; exit 0' TERM; echo up; while :; do sleep 0.01; done"
    executor.launch(an_order(command=(str(mpirun), child), launcher=Launcher.MPI))
    executor.wait_for_log("up")
    executor.stop()
    assert executor.ends()[0].exit_code == 0
    assert "saved\nmpirun ended\n" in executor.log()


def test_an_mpirun_that_has_started_nothing_is_stopped(executor: Executor) -> None:
    mpirun = executor.folder / "mpirun"
    mpirun.symlink_to("/bin/sleep")
    executor.launch(an_order(command=(str(mpirun), "600"), launcher=Launcher.MPI))
    wait_until(lambda: [r.state for r in executor.reports()] == [WorkerState.RUNNING], "it runs")
    executor.stop()
    assert executor.ends()[0].exit_code == 143


def test_a_stubborn_tree_is_killed_whole(executor: Executor) -> None:
    script = f"trap '' TERM; {HIDES_A_GRANDCHILD} while :; do sleep 0.01; done"
    executor.launch(an_order(command=sh(script)))
    grandchild = grandchild_of(executor)
    executor.stop(grace_s=0.2)
    (end,) = executor.ends()
    assert end.exit_code == 137
    assert not is_alive(grandchild)


def test_a_suspended_worker_wakes_up_for_the_stop(executor: Executor) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo up; kill -STOP $$; while :; do sleep 0.01; done"
    executor.launch(an_order(command=sh(script)))
    executor.wait_for_log("up")
    executor.stop()
    (end,) = executor.ends()
    assert end.exit_code == 0
    assert executor.log().endswith("bye\n")


def test_a_stop_signal_to_the_supervisor_reaches_the_worker(executor: Executor) -> None:
    script = "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done"
    executor.launch(an_order(command=sh(script)))
    executor.wait_for_log("up")
    os.kill(supervisor_of(executor), signal.SIGTERM)
    (end,) = executor.ends()
    assert end.exit_code == 3
    assert executor.log().endswith("bye\n")


def test_a_worker_that_writes_without_end_can_be_stopped(executor: Executor) -> None:
    executor.launch(an_order(command=("yes", "and another line of output")))
    executor.wait_for_log("another")
    executor.stop()
    (end,) = executor.ends()
    assert end.exit_code == 143


def test_workers_see_default_signals(executor: Executor) -> None:
    status = executor.run(an_order(command=("cat", "/proc/self/status")))
    masks = dict(line.split(":\t") for line in status.splitlines() if line.startswith("Sig"))
    # The numbers from 32 on belong to the C library.
    assert [int(masks[name], 16) & 0x7FFF_FFFF for name in ("SigBlk", "SigIgn")] == [0, 0]


def test_a_worker_has_no_files_of_the_server_open(executor: Executor) -> None:
    found = executor.run(an_order(command=("ls", "-1", "/proc/self/fd")))
    assert sorted(found.split()) == ["0", "1", "2", "3"]  # 3 is the folder that ls reads


def test_supervisors_have_nothing_to_complain_about(executor: Executor) -> None:
    executor.run(an_order())
    assert (executor.worker_folder() / "supervisor.err").read_text() == ""


def test_of_many_supervisors_one_takes_the_worker(executor: Executor) -> None:
    runs = executor.folder / "runs"
    executor.cluster.prepare(an_order(command=sh(f"echo run >> {runs}")))
    wait_until(lambda: len(executor.reports()) == 1, "the worker is made")
    others = Children(sys.executable)
    worker = WorkerFolder(executor.worker_folder())
    late = [others.spawn(worker) for _ in range(5)]
    wait_until(lambda: not any(map(others.is_alive, late)), "the late ones have left")
    executor.launch(an_order())
    executor.ends()
    later = others.spawn(worker)
    wait_until(lambda: not others.is_alive(later), "and the last one")
    assert runs.read_text() == "run\n"


def test_a_worker_whose_supervisor_died_is_not_run_again(executor: Executor) -> None:
    runs = executor.folder / "runs"
    executor.launch(an_order(command=sh(f"echo run >> {runs}; kill -9 $PPID; sleep 600")))
    executor.ends()
    others = Children(sys.executable)
    another = others.spawn(WorkerFolder(executor.worker_folder()))
    wait_until(lambda: not others.is_alive(another), "it has left")
    assert runs.read_text() == "run\n"


@pytest.mark.parametrize("stream", ["1", "2"])
def test_both_outputs_are_in_the_log(executor: Executor, stream: str) -> None:
    assert executor.run(an_order(command=sh(f"echo words >&{stream}"))) == "words\n"
