"""Arrays read element by element."""

from io import StringIO

import pytest

from simulator.errors import TraceError
from simulator.traces.json_array import Element, elements


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("[]", [], id="empty"),
        pytest.param(" [ 1 ,\n 2]", [Element(1, 1), Element(2, 2)], id="numbers"),
        pytest.param(
            '[{"a": [1]}\n,\n"x"]\n', [Element(1, {"a": [1]}), Element(3, "x")], id="nested"
        ),
    ],
)
def test_elements_come_with_the_line_they_start_on(text: str, expected: list[Element]) -> None:
    assert list(elements(StringIO(text), "t")) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{}", "t:1: is not a JSON array", id="an object"),
        pytest.param("[1 2]", "t:1: expected `,`", id="no comma"),
        pytest.param("[1,\n", "t:2: not JSON", id="ends early"),
        pytest.param("[1,\n2,\n]", "t:3: not JSON", id="comma before the end"),
    ],
)
def test_what_is_no_array_is_an_error_with_its_line(text: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        list(elements(StringIO(text), "t"))


def test_an_element_longer_than_one_read_comes_whole() -> None:
    text = "x" * 300_000
    assert [each.value for each in elements(StringIO(f'["{text}", 12345]'), "t")] == [text, 12345]
