"""What stopping a gang costs, and how long it runs undisturbed."""

import pytest

from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.restarts import QUANTUM_MAX, quantum
from tests.builders import a_job


@pytest.mark.parametrize("number", [1e9, 1e308])
def test_a_quantum_without_end_is_ten_years(number: float) -> None:
    # Stores may hold numbers that are refused by now.
    assert quantum(a_job().spec, PolicyKnobs(quantum_restarts=number)) == QUANTUM_MAX
    assert quantum(a_job().spec, PolicyKnobs(quantum_checkpoints=number)) == QUANTUM_MAX
