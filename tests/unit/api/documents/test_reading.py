"""JSON and YAML become plain values, or are refused with a reason and a place."""

import pytest

from api.documents.document import DEPTH_MAX, NODES_MAX, Json, MalformedError, Place
from api.documents.reading import read_document


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("a: 1", {"a": 1}, id="a whole number"),
        pytest.param("a: -1", {"a": -1}, id="a negative number"),
        pytest.param("a: 1.5", {"a": 1.5}, id="a number with a fraction"),
        pytest.param("a: 1e-4", {"a": 1e-4}, id="an exponent without a point"),
        pytest.param("a: '1'", {"a": "1"}, id="quotes make text"),
        pytest.param("a: true", {"a": True}, id="true"),
        pytest.param("a: no", {"a": "no"}, id="Norway is a string"),
        pytest.param("a: on", {"a": "on"}, id="on is a string"),
        pytest.param("a: 12:30:00", {"a": "12:30:00"}, id="no base 60"),
        pytest.param("a: 0777", {"a": "0777"}, id="no octal"),
        pytest.param("a: 0x1F", {"a": "0x1F"}, id="no hexadecimal"),
        pytest.param("a: 1_000", {"a": "1_000"}, id="no underscores"),
        pytest.param("a: 2026-11-30", {"a": "2026-11-30"}, id="no dates"),
        pytest.param("a: ~", {"a": None}, id="nothing"),
        pytest.param("a:", {"a": None}, id="an empty value"),
        pytest.param("on: 1", {"on": 1}, id="keys are words"),
        pytest.param("1: x", {"1": "x"}, id="numbers as keys are words"),
        pytest.param("'<<': x", {"<<": "x"}, id="a quoted merge key is a key"),
        pytest.param("a: |\n  x\n  y\n", {"a": "x\ny\n"}, id="a block of text"),
        pytest.param("[a, {b: c}]", ["a", {"b": "c"}], id="flow style"),
        pytest.param("---\na: 1\n", {"a": 1}, id="one document with a marker"),
        pytest.param("\ufeffa: 1", {"a": 1}, id="a byte order mark"),
    ],
)
def test_yaml_means_what_its_core_schema_says(text: str, value: Json) -> None:
    assert read_document(text.encode(), is_yaml=True).value == value


MALFORMED = [
    pytest.param(False, b"", "MalformedBody", id="json: empty"),
    pytest.param(False, b" \n ", "MalformedBody", id="json: blank"),
    pytest.param(False, b"{", "MalformedBody", id="json: cut off"),
    pytest.param(False, b'{"a": 1,}', "MalformedBody", id="json: comma at the end"),
    pytest.param(False, b'{"a": 1} x', "MalformedBody", id="json: something after it"),
    pytest.param(False, b'{"a": 1, "a": 2}', "DuplicateKey", id="json: key twice"),
    pytest.param(False, b'{"a": {"b": 1, "b": 1}}', "DuplicateKey", id="json: inner key twice"),
    pytest.param(False, b"[NaN]", "InvalidNumber", id="json: NaN"),
    pytest.param(False, b"[Infinity]", "InvalidNumber", id="json: Infinity"),
    pytest.param(False, b"[-Infinity]", "InvalidNumber", id="json: minus Infinity"),
    pytest.param(False, b"[1e999]", "InvalidNumber", id="json: too large to be finite"),
    pytest.param(False, b"[" + b"9" * 20 + b"]", "InvalidNumber", id="json: 20 digits"),
    pytest.param(False, b"[" + b"9" * 100_000 + b"]", "InvalidNumber", id="json: 100k digits"),
    pytest.param(False, b"\xff\xfe", "MalformedBody", id="json: not UTF-8"),
    pytest.param(False, "{}".encode("utf-16"), "MalformedBody", id="json: UTF-16"),
    pytest.param(False, b"[" * (DEPTH_MAX + 1), "TooDeep", id="json: one level too deep"),
    pytest.param(False, b'{"a":' * (DEPTH_MAX + 1), "TooDeep", id="json: objects too deep"),
    pytest.param(False, b"[" + b"1," * NODES_MAX + b"1]", "TooManyValues", id="json: too many"),
    pytest.param(False, b'"' * 100_000, "MalformedBody", id="json: nothing but quotes"),
    pytest.param(False, b"[" + b'"a" ' * 30_000, "MalformedBody", id="json: no commas"),
    pytest.param(False, b'["' + b'a","' * NODES_MAX, "TooManyValues", id="json: many strings"),
    pytest.param(False, b'{"a":' + b'"a"' * 30_000, "MalformedBody", id="json: values in a row"),
    pytest.param(True, b"a: [1, 2", "MalformedBody", id="yaml: cut off"),
    pytest.param(True, b"a: b: c", "MalformedBody", id="yaml: two values"),
    pytest.param(True, b"a: 1\na: 2", "DuplicateKey", id="yaml: key twice"),
    pytest.param(True, b"a: &x 1\nb: *x", "AliasNotAllowed", id="yaml: alias"),
    pytest.param(True, b"a: &x 1", "AliasNotAllowed", id="yaml: anchor of a word"),
    pytest.param(True, b"a: &x [1]", "AliasNotAllowed", id="yaml: anchor of a list"),
    pytest.param(True, b"a: *x", "AliasNotAllowed", id="yaml: alias of nothing"),
    pytest.param(True, b"<<: {a: 1}", "AliasNotAllowed", id="yaml: merge key"),
    pytest.param(True, b"a: !!python/object:os.system x", "TagNotAllowed", id="yaml: object tag"),
    pytest.param(True, b"a: !!str 1", "TagNotAllowed", id="yaml: plain tag"),
    pytest.param(True, b"a: !mine {b: 1}", "TagNotAllowed", id="yaml: tag of a mapping"),
    pytest.param(True, b"a: 1\n---\nb: 2", "MultipleDocuments", id="yaml: two documents"),
    pytest.param(True, b"a: .nan", "InvalidNumber", id="yaml: nan"),
    pytest.param(True, b"a: -.inf", "InvalidNumber", id="yaml: infinity"),
    pytest.param(True, b"a: 1e999", "InvalidNumber", id="yaml: too large to be finite"),
    pytest.param(True, b"a: " + b"9" * 20, "InvalidNumber", id="yaml: 20 digits"),
    pytest.param(True, b"? [a, b]\n: c", "MalformedBody", id="yaml: a list as key"),
    pytest.param(True, b"[" * (DEPTH_MAX + 1), "TooDeep", id="yaml: one level too deep"),
    pytest.param(True, b"- " * 100_000, "TooDeep", id="yaml: 100k lists in lists"),
    pytest.param(True, b"[a, " * 1000, "TooDeep", id="yaml: deep with words between"),
    pytest.param(True, b"- a\n" * (NODES_MAX + 1), "TooManyValues", id="yaml: too many"),
    pytest.param(True, b"a: \x00", "MalformedBody", id="yaml: NUL"),
    pytest.param(True, b"\ta: 1", "MalformedBody", id="yaml: tab as indent"),
    pytest.param(True, b"%YAML 3.0\n---\na: 1", "MalformedBody", id="yaml: unknown version"),
]


@pytest.mark.parametrize(("is_yaml", "body", "reason"), MALFORMED)
def test_what_can_not_be_read_is_refused(is_yaml: bool, body: bytes, reason: str) -> None:  # noqa: FBT001 - a column of the table
    with pytest.raises(MalformedError) as caught:
        read_document(body, is_yaml=is_yaml)

    assert caught.value.reason == reason


def test_the_deepest_and_the_fullest_allowed_are_read() -> None:
    deep = b"[" * DEPTH_MAX + b"]" * DEPTH_MAX
    full = b"[" + b"1," * (NODES_MAX - 2) + b"1]"

    for body in (deep, full):
        assert read_document(body, is_yaml=False).value == read_document(body, is_yaml=True).value


def test_a_syntax_error_names_its_place() -> None:
    with pytest.raises(MalformedError) as caught:
        read_document(b"a: 1\nb: [1,\nc: 2\n", is_yaml=True)

    assert caught.value.place is not None
    assert caught.value.place.line >= 3


@pytest.mark.parametrize(
    ("pointer", "place"),
    [
        pytest.param("/spec", Place(2, 1), id="a key"),
        pytest.param("/spec/command/1", Place(4, 5), id="an item"),
        pytest.param("/spec/env/A~1B", Place(5, 9), id="a key with a slash"),
        pytest.param("/spec/missing", Place(2, 1), id="what is missing: where it belongs"),
        pytest.param("", None, id="the whole has no place"),
    ],
)
def test_yaml_knows_where_things_stand(pointer: str, place: Place | None) -> None:
    text = "kind: Job\nspec:\n  command: [a,\n    b]\n  env: {A/B: c}\n"

    assert read_document(text.encode(), is_yaml=True).place(pointer) == place
