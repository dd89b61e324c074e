"""Patterns of users find step times in lines, and none can stall the server."""

import pytest

from api.job_files.step_patterns import StepPatternError, step_pattern


@pytest.mark.parametrize(
    ("pattern", "line", "step_s"),
    [
        pytest.param("iter_time[=: ]+([0-9.]+)", "[3] iter_time: 0.25 s", 0.25, id="a number"),
        pytest.param(r"time=(\S+)", "time=2.5e-1", 0.25, id="with an exponent"),
        pytest.param("(?:a|(b))", "a", None, id="a group that took no part"),
        pytest.param("t=(.*)", "t=nan", None, id="not a number"),
        pytest.param("t=(.*)", "t=inf", None, id="no end"),
        pytest.param("t=(.*)", "t=-1", None, id="negative"),
        pytest.param("t=(.*)", "é", None, id="no match"),
    ],
)
def test_the_first_group_is_the_step_time(pattern: str, line: str, step_s: float | None) -> None:
    assert step_pattern(pattern).step_s(line) == step_s


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        pytest.param("(", "RE2: missing", id="open"),
        pytest.param("(a)\\1", "RE2: invalid escape", id="back-reference"),
        pytest.param("((a{100}){100}){100}", "RE2: invalid repetition", id="explodes"),
        pytest.param("a", "no group", id="nothing to read"),
    ],
)
def test_a_pattern_that_can_not_be_used_says_why(pattern: str, said: str) -> None:
    with pytest.raises(StepPatternError, match=said):
        step_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*$", "^(.*?,){25}x", "(x+x+)+y"])
def test_patterns_that_stall_other_engines_come_to_an_end(pattern: str) -> None:
    line = "a" * 2000 + "," * 2000
    assert step_pattern(pattern).step_s(line) is None
