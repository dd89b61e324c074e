"""A stopped example saves its state, and its next attempt goes on from there."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scheduler.ports.cluster import GangOrder
from tests.examples.frameworks import JAX, MPI, NUMPY, PYTORCH, Example
from tests.gangs import an_order
from tests.local.executor import Executor, an_executor, settings
from tests.polling import wait_until
from tests.source_tree import ROOT

RUN_S_MAX = 300.0
ENDLESS = 10_000_000


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[Executor]:
    """An executor whose server was started in the checkout."""
    with an_executor(tmp_path, replace(settings(tmp_path), server_dir=ROOT)) as made:
        yield made


def is_over(executor: Executor, order: GangOrder) -> bool:
    """Whether every worker has ended."""
    reports = executor.reports(order.attempt)
    return len(reports) == order.spec.workers and all(r.ended_at for r in reports)


def wait_for_end(executor: Executor, order: GangOrder) -> None:
    """Until every worker has ended."""
    wait_until(lambda: is_over(executor, order), "all have left", deadline_s=RUN_S_MAX)


def an_attempt(example: Example, number: int, *options: str) -> GangOrder:
    """A gang of the example whose command has more options."""
    spec = example.spec()
    role = replace(spec.roles[0], command=(*spec.roles[0].command, *options))
    order = an_order(
        job=example.name, number=number, nodes={"n0": example.workers}, are_gpus_chosen=False
    )
    reservations = tuple(replace(held, role=role.name) for held in order.reservations)
    return replace(order, spec=replace(spec, roles=(role,)), reservations=reservations)


@pytest.mark.slow
@pytest.mark.parametrize("example", [NUMPY, PYTORCH, JAX, MPI], ids=lambda example: example.name)
def test_a_stopped_training_goes_on_where_it_was(executor: Executor, example: Example) -> None:
    example.require()
    first = an_attempt(example, 0, "--steps", str(ENDLESS), "--checkpoint-steps", "10")
    executor.launch(first)
    wait_until(
        lambda: "step 10 of" in executor.log(first.attempt) or is_over(executor, first),
        "ten steps are done",
        deadline_s=RUN_S_MAX,
    )
    executor.stop(first.attempt)
    wait_for_end(executor, first)
    log = executor.log(first.attempt)
    stopped_at = re.search(r"stopped after step (\d+); the checkpoint is written", log)
    assert stopped_at, log
    step = int(stopped_at[1])

    second = an_attempt(example, 1, "--steps", str(step + 20), "--accuracy-min", "0")
    executor.launch(second)
    wait_for_end(executor, second)
    log = executor.log(second.attempt)
    assert {report.exit_code for report in executor.reports(second.attempt)} == {0}, log
    assert f"resumed at step {step} in attempt 1" in log
    assert "workers hold equal weights" in log
