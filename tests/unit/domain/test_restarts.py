"""What stopping a gang costs, and how long it runs undisturbed."""

import pytest

from scheduler.domain.instants import Duration
from scheduler.domain.job import CheckpointRequest
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.restarts import QUANTUM_MAX, bears_another_in, quantum
from tests.builders import a_job


@pytest.mark.parametrize("number", [1e9, 1e308])
def test_a_quantum_without_end_is_ten_years(number: float) -> None:
    # Stores may hold numbers that are refused by now.
    assert quantum(a_job().spec, PolicyKnobs(quantum_restarts=number)) == QUANTUM_MAX
    assert quantum(a_job().spec, PolicyKnobs(quantum_checkpoints=number)) == QUANTUM_MAX


@pytest.mark.parametrize("share", [1e-12, 1e-300, 5e-324])
def test_where_hardly_anything_may_be_lost_no_time_is_told_at_which_it_may_be(share: float) -> None:
    saves = CheckpointRequest(path="/ckpt", is_declared=True)
    knobs = PolicyKnobs(lost_share_max=share)
    job = a_job("j", checkpoint=saves)
    assert bears_another_in(job, Duration(10), Duration(10), knobs) is None
