"""A gang that is stopped, for another one or by its user, saves, leaves, and goes on from there."""

from pathlib import Path

from tests.kubernetes.served import ServedCluster
from tests.polling import wait_until

JOBS = "/api/v1/projects/default/jobs"
COUNTING = """
[ $DALLY_RANK = 0 ] || { trap 'exit 143' TERM; sleep 3600 & wait; }
step=$(cat $KEPT 2>/dev/null || echo 0)
trap 'echo $step > $KEPT; echo "saved $step"; exit 143' TERM
echo "begins at $step"
while [ $step -lt 100000 ]; do step=$((step + 1)); sleep 0.1; done
"""
"""Rank 0 counts, saves when it is asked to stop, and goes on from there."""


class Counting:
    """A gang that needs every GPU there is, and keeps its count in a file."""

    def __init__(self, served: ServedCluster, kept: Path) -> None:
        self._served = served
        self._kept = kept

    def submit(self) -> None:
        """Once more."""
        self._served.submit(
            "large",
            *("sh", "-c", COUNTING),
            workers=4,
            gpusPerWorker=2,
            env={"KEPT": str(self._kept)},
            checkpoint={"grace": "60s"},
        )

    def number(self, word: str) -> int:
        """The number that its latest attempt has said after a word; -1 before it has."""
        log = self._served.server.request("GET", f"{JOBS}/large/logs?rank=0").text
        _, is_said, rest = log.partition(f"{word} ")
        return int(rest.split()[0]) if is_said else -1

    def wait_until_it_begins(self, step: int) -> None:
        """There, and nowhere else."""
        wait_until(lambda: self.number("begins at") >= 0, "it begins")
        assert self.number("begins at") == step


def order(served: ServedCluster, name: str, verb: str, **body: object) -> None:
    """An order that is taken."""
    answer = served.server.request("POST", f"{JOBS}/{name}/{verb}", body=body)
    assert answer.is_success, answer.text


def test_a_stopped_gang_goes_on_from_its_checkpoint_whoever_stopped_it(
    served: ServedCluster, tmp_path: Path
) -> None:
    served.add_nodes(4, gpus=2, nodes_in_rack=2)
    served.server.start()
    knobs = {"knobs": {"policy": "sjf"}}
    assert served.server.request("PATCH", "/api/v1/policy", body=knobs).is_success
    large = Counting(served, tmp_path / "kept")
    large.submit()
    large.wait_until_it_begins(0)

    served.submit("small", "sh", "-c", "exec sleep 600", gpusPerWorker=1)
    served.wait_for("small", "Running")
    (first,) = served.server.request("GET", f"{JOBS}/large/attempts").json()["items"]
    assert (first["outcome"], served.status("large")["phase"]) == ("Preempted", "Pending")
    saved = large.number("saved")
    assert saved >= 0, "it was told to stop and not killed"

    order(served, "large", "hold")
    order(served, "small", "cancel", now=True)
    served.wait_for("small", "Cancelled")
    assert served.status("large")["phase"] == "Held"
    order(served, "large", "release")
    served.wait_for("large", "Running")
    large.wait_until_it_begins(saved)

    order(served, "large", "cancel")
    served.wait_for("large", "Cancelled")
    saved_again = large.number("saved")
    assert saved_again >= saved
    assert served.server.request("DELETE", f"{JOBS}/large").is_success
    large.submit()
    large.wait_until_it_begins(saved_again)
