"""Nodes closed and opened again from the command line, on the local executor."""

from collections.abc import Iterator

import pytest

from tests.cli.conftest import Dally, job_text


@pytest.fixture
def node(dally: Dally) -> Iterator[str]:
    """A node of the server; it is open before and after."""
    name = dally("get", "nodes", "--no-headers").out.split()[0]
    dally("uncordon", name)
    yield name
    dally("uncordon", name)


def test_a_node_is_cordoned_and_opened_again(dally: Dally, node: str) -> None:
    assert dally("cordon", node, "--reason", "firmware").lines == [f"node/{node} cordoned"]
    assert "Ready,Cordoned" in dally("get", "nodes").out
    assert "yes, by admin: firmware" in dally("describe", "node", node).out
    assert dally("uncordon", f"node/{node}").lines == [f"node/{node} uncordoned"]
    assert "Cordoned" not in dally("get", "nodes").out


@pytest.mark.parametrize("noun", ["node", "nodes", "no"])
def test_the_noun_may_stand_before_the_name(dally: Dally, node: str, noun: str) -> None:
    assert dally("cordon", noun, node).lines == [f"node/{node} cordoned"]
    assert dally("uncordon", noun, node).lines == [f"node/{node} uncordoned"]


def test_a_drained_node_is_left_by_its_gangs(dally: Dally, node: str) -> None:
    others = [line.split()[0] for line in dally("get", "nodes", "--no-headers").lines]
    for other in others:
        if other != node:
            dally("cordon", other)
    spec = {"command": ["sleep", "600"], "gpusPerWorker": 1, "checkpoint": {"grace": "1s"}}
    dally("apply", "-f", "-", stdin=job_text("leaver", **spec))
    dally("wait", "leaver", "--for=phase=Running", "--timeout=60s")
    done = dally("drain", node, "--wait", "--reason", "firmware")
    assert done.lines == [f"node/{node} draining", f"node/{node} drained"]
    assert "Ready,Drained" in dally("get", "nodes").out
    told = dally("events", "--for", "job/leaver").out
    assert f"node {node} is drained by admin: firmware" in told
    assert "Pending" in dally("get", "job", "leaver").out
    dally("cancel", "leaver", "--wait")
    for other in others:
        dally("uncordon", other)


def test_a_node_that_is_not_there_is_told(dally: Dally) -> None:
    answer = dally("drain", "nowhere")
    assert answer.code == 1
    assert "nowhere" in answer.err
