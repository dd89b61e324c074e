"""Start, adoption, refusal of a second executor, and what is told when the thread dies."""

import shutil
from pathlib import Path

import pytest

from scheduler.adapters.local.cluster import LocalCluster
from scheduler.adapters.local.folders import Layout
from scheduler.adapters.local.gang_making import GangMaker, InUse
from scheduler.domain.errors import AlreadyServingError, ClusterUnavailableError
from scheduler.ports.cluster import WorkerState
from tests.contract.cluster_worlds import WallClock
from tests.gangs import an_order
from tests.local.executor import Executor, an_executor, is_alive, settings, sh
from tests.polling import wait_until


def test_a_second_executor_on_the_same_folder_is_refused(executor: Executor) -> None:
    second = LocalCluster(executor.folder / "data", WallClock(), settings(executor.folder))
    with pytest.raises(AlreadyServingError, match="another server runs workers from"):
        second.start()
    executor.cluster.close()
    second.start()
    second.close()
    executor.cluster.start()


def test_an_executor_that_is_not_started_is_unavailable(tmp_path: Path) -> None:
    cluster = LocalCluster(tmp_path, WallClock(), settings(tmp_path))
    with pytest.raises(ClusterUnavailableError, match="not started"):
        cluster.observe()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_dead_thread_is_not_hidden(tmp_path: Path) -> None:
    def break_down() -> None:
        raise RuntimeError("a bug")

    cluster = LocalCluster(tmp_path, WallClock(), settings(tmp_path), on_change=break_down)
    with cluster:
        cluster.prepare(an_order(command=("no-such-command",)))

        def is_dead() -> bool:
            try:
                cluster.observe()
            except ClusterUnavailableError as error:
                return "a bug" in str(error)
            return False

        wait_until(is_dead, "the failure is told")


def test_news_are_announced(tmp_path: Path) -> None:
    announced: list[int] = []
    cluster = LocalCluster(
        tmp_path, WallClock(), settings(tmp_path), on_change=lambda: announced.append(1)
    )
    with cluster:
        cluster.prepare(an_order(command=("no-such-command",)))
        wait_until(
            lambda: {r.state for r in cluster.observe().workers} == {WorkerState.REFUSED},
            "the gang is refused",
        )
    assert announced


def test_half_published_gangs_are_cleared_away(executor: Executor) -> None:
    executor.cluster.close()
    half = executor.data / "attempts" / ".new-job-9-a0"
    half.mkdir()
    (half / "gang.json").write_text("{")
    executor.cluster.start()
    assert not half.exists()


def test_a_gang_that_was_to_stop_before_it_was_made_is_never_made(executor: Executor) -> None:
    executor.cluster.close()
    order = an_order(command=sh("exec sleep 600"))
    # A server has published the gang and noted the stop, and died before it made a worker.
    folder = GangMaker(Layout(executor.folder / "data"), settings(executor.folder)).publish(
        order, InUse()
    )
    folder.mark_stopped(kill_at=0)
    executor.cluster.start()
    (end,) = executor.ends()
    assert (end.state, end.exit_code, end.started_at) == (WorkerState.ENDED, 143, None)


def test_an_unreadable_gang_does_not_stop_the_others(
    executor: Executor, caplog: pytest.LogCaptureFixture
) -> None:
    executor.run(an_order(job="good"))
    executor.run(an_order(job="torn"))
    executor.cluster.close()
    (executor.data / "attempts" / "torn-a0" / "gang.json").write_text("")
    executor.cluster.start()
    assert {report.attempt.job_id for report in executor.cluster.observe().workers} == {"good"}
    assert "local_gang_unreadable" in caplog.text


def test_the_data_of_a_running_gang_may_vanish(executor: Executor) -> None:
    executor.launch(an_order(command=sh("echo up $$; exec sleep 600")))
    executor.wait_for_log("\n")
    worker = int(executor.log().split()[1])
    executor.cluster.close()
    shutil.rmtree(executor.data / "attempts")
    executor.cluster.start()
    view = executor.cluster.observe()
    assert (view.workers, view.is_complete) == ((), True)
    wait_until(lambda: not is_alive(worker), "its supervisor has noticed and ended it")


def test_a_data_folder_with_blanks_and_symbols_works(tmp_path: Path) -> None:
    folder = tmp_path / "my data ümlaut 'quoted' $HOME"
    folder.mkdir()
    with an_executor(folder) as executor:
        found = executor.run(an_order(command=sh('cat "$DALLY_HOSTFILE"; pwd')))
        assert found.startswith("127.0.0.1 slots=1\n")
        assert found.strip().endswith("/attempts/job-1-a0/work")
