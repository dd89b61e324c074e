"""Knobs as people type them."""

import pytest

from scheduler.knob_assignments import AssignmentError, assigned


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("k=true", True, id="switch"),
        pytest.param("k=True", "True", id="no switch"),
        pytest.param("k=8", 8, id="whole"),
        pytest.param("k=-0.5", -0.5, id="number"),
        pytest.param("k=1e3", 1000.0, id="with an exponent"),
        pytest.param("k=8h", "8h", id="time"),
        pytest.param("k=1_0", "1_0", id="what only Python takes for a number"),
        pytest.param("k=nan", "nan", id="no number"),
        pytest.param("k=1e999", "1e999", id="beyond all numbers"),
        pytest.param("k=" + "9" * 20, "9" * 20, id="too long a number"),
        pytest.param("k=1.2.3", "1.2.3", id="two points"),
        pytest.param("k=a=b", "a=b", id="an equals sign in the value"),
    ],
)
def test_values_are_read_as_what_they_look_like(text: str, value: object) -> None:
    found = assigned([text])["k"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        pytest.param(["k"], "'k' is not KNOB=VALUE", id="no value"),
        pytest.param(["k="], "is not KNOB=VALUE", id="empty value"),
        pytest.param(["=1"], "is not KNOB=VALUE", id="no name"),
        pytest.param([""], "is not KNOB=VALUE", id="nothing"),
        pytest.param(["k=1", "l=2", "k=1"], "'k' is named twice", id="twice"),
        pytest.param(["x" * 500], "'" + "x" * 80 + "' is not KNOB=VALUE", id="long"),
    ],
)
def test_what_is_no_assignment_is_told(texts: list[str], message: str) -> None:
    with pytest.raises(AssignmentError) as caught:
        assigned(texts)
    assert message in str(caught.value)


def test_nothing_said_is_nothing_set() -> None:
    assert assigned([]) == {}
