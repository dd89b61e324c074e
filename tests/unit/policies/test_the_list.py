"""What a scheduling policy has to show, and that a test of that name shows each of it.

T1   timers of zero are `dally-nowait`         T9   the tuner finds constant waits; naive collapses
T2   infinite timers: nobody runs wider        T9b  waits never served leave timers bounded
T3   larger than a rack: starts at once        T10  same seed, same run
T4   refused before the timer, taken at it     T11  shortage alone makes nobody take a wide offer
T5   a declined offer serves a later job       T12  a gang of the whole cluster starts in a day
T6   nobody is stopped in turns; bounds        T13  who only computes ends in bounded time
T7   GPUs conserved, waits and runs add up     T14  what is declared changes no eviction and no rank
T8   without communication nobody waits        T15  a study tells no durations

The machine of tests/simulation/test_policy_machine.py shows T6 and T7 once more, step by step.
"""

import re

import pytest

from tests.source_tree import ROOT

NAMED = [f"t{number}" for number in range(1, 16)] + ["t9b"]


@pytest.mark.parametrize("name", NAMED)
def test_each_of_the_list_is_shown_by_a_test_named_after_it(name: str) -> None:
    found = [
        file.name
        for file in (ROOT / "tests").rglob("test_*.py")
        if re.search(rf"^def test_{name}_", file.read_text(), re.MULTILINE)
    ]
    assert found
