"""Two failures of different jobs on one node are the node's; one bad job shuts no node."""

import pytest

from scheduler.adapters.kubernetes.suspicion import (
    GPU_UNHEALTHY,
    SUSPECT_NODE,
    Failure,
    Suspicion,
    SuspicionRules,
    Suspicions,
)
from scheduler.domain.ids import JobId, NodeName
from scheduler.domain.job import Outcome

ERROR, LOST, GPU = Outcome.USER_ERROR, Outcome.WORKER_LOST, Outcome.GPU_UNHEALTHY

Told = tuple[str, str, Outcome, float]
"""Node, job, outcome, second."""


def noted(*failures: Told) -> list[Suspicion | None]:
    """What each failure leads to."""
    suspicions = Suspicions(SuspicionRules(window_s=100))
    return [
        suspicions.note(Failure(node=NodeName(node), job=JobId(job), outcome=outcome, at_s=at_s))
        for node, job, outcome, at_s in failures
    ]


def reasons(*failures: Told) -> list[str]:
    """The reason each failure leads to."""
    return ["" if each is None else each.reason for each in noted(*failures)]


@pytest.mark.parametrize(
    ("failures", "last"),
    [
        pytest.param([("n", "a", ERROR, 0)], "", id="one failure"),
        pytest.param([("n", "a", ERROR, 0), ("n", "b", ERROR, 1)], SUSPECT_NODE, id="two jobs"),
        pytest.param([("n", "a", ERROR, 0), ("n", "a", ERROR, 1)], "", id="one bad job twice"),
        pytest.param([("n", "a", LOST, 0), ("n", "a", LOST, 1)], SUSPECT_NODE, id="lost twice"),
        pytest.param([("n", "a", GPU, 0), ("n", "a", GPU, 1)], GPU_UNHEALTHY, id="a bad GPU"),
        pytest.param([("n", "a", ERROR, 0), ("m", "b", ERROR, 1)], "", id="on two nodes"),
        pytest.param([("n", "a", ERROR, 0), ("n", "b", ERROR, 101)], "", id="too long ago"),
        pytest.param(
            [("n", "a", Outcome.IMAGE_PULL_FAILED, 0), ("n", "b", Outcome.LAUNCH_FAILED, 1)],
            "",
            id="images and commands",
        ),
        pytest.param(
            [("n", "a", Outcome.COMPLETED, 0), ("n", "b", Outcome.PREEMPTED, 1)],
            "",
            id="no failure",
        ),
    ],
)
def test_a_node_is_suspect_by_its_failures(failures: list[Told], last: str) -> None:
    assert reasons(*failures)[-1] == last
    assert not any(reasons(*failures)[:-1])


def test_it_takes_two_new_failures_after_the_time_is_over() -> None:
    pairs = [
        ("n", job, ERROR, at) for job, at in (("a", 0.0), ("b", 1.0), ("c", 60.0), ("d", 61.0))
    ]
    assert reasons(*pairs) == ["", SUSPECT_NODE, "", SUSPECT_NODE]


def test_what_no_program_is_to_blame_for_is_told_apart() -> None:
    lost = noted(("n", "a", LOST, 0), ("n", "a", LOST, 1))[-1]
    mixed = noted(("n", "a", ERROR, 0), ("n", "b", LOST, 1))[-1]
    after_error = noted(("n", "a", ERROR, 0), ("n", "a", LOST, 1), ("n", "a", LOST, 2))[-1]
    assert after_error == lost, "without the program's error it would be as suspect"
    assert lost == Suspicion(reason=SUSPECT_NODE, is_for_programs=False)
    assert mixed == Suspicion(reason=SUSPECT_NODE, is_for_programs=True)
