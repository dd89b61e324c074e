"""`explain`: walks the JSON schema that the server publishes, so that it can not go stale."""

from collections.abc import Iterator
from difflib import get_close_matches

from pydantic import JsonValue

from cli.failures import CommandError

Node = dict[str, JsonValue]

DEPTH_MAX = 8


def find_field(schema: JsonValue, path: str) -> Node:
    """The schema of `job.spec.topology` and the like. Raises CommandError with the nearest name."""
    first, *rest = path.split(".")
    if first.lower() not in ("job", "jobs", "jo"):
        raise CommandError(
            f"only the job file is explained, not {first!r}",
            reason="UnknownField",
            way_out="dally explain job",
        )
    node = _resolved(schema, schema)
    for depth, name in enumerate(rest):
        fields = _fields(schema, node)
        if name not in fields:
            near = get_close_matches(name, fields, n=1)
            parent = ".".join((first, *rest[:depth]))
            raise CommandError(
                f"{parent} has no field {name!r}"
                + (f"; did you mean {near[0]!r}?" if near else ""),
                reason="UnknownField",
                way_out=f"dally explain {parent}",
            )
        node = fields[name]
    return node


def describe_field(
    schema: JsonValue, node: Node, *, path: str, is_recursive: bool
) -> Iterator[str]:
    """Lines about a field and the ones in it."""
    yield f"{path}  <{_type(schema, node)}>{_default(node)}"
    yield from _text(node, indent="  ")
    fields = _fields(schema, node)
    if fields:
        yield ""
        yield "FIELDS:"
        yield from _list(schema, fields, indent="  ", is_recursive=is_recursive, depth=0)


def _list(
    schema: JsonValue, fields: dict[str, Node], *, indent: str, is_recursive: bool, depth: int
) -> Iterator[str]:
    for name, node in fields.items():
        yield f"{indent}{name}  <{_type(schema, node)}>{_default(node)}"
        yield from _text(node, indent=indent + "    ")
        inner = _fields(schema, node)
        if is_recursive and inner and depth < DEPTH_MAX:
            yield from _list(
                schema, inner, indent=indent + "  ", is_recursive=True, depth=depth + 1
            )


def _resolved(schema: JsonValue, node: JsonValue) -> Node:
    assert isinstance(node, dict)
    reference = node.get("$ref")
    if isinstance(reference, str) and isinstance(schema, dict):
        definitions = schema.get("$defs")
        assert isinstance(definitions, dict)
        return {**_resolved(schema, definitions[reference.rpartition("/")[2]]), **_own(node)}
    return node


def _own(node: Node) -> Node:
    return {key: value for key, value in node.items() if key != "$ref"}


def _variants(schema: JsonValue, node: Node) -> list[Node]:
    choices = node.get("anyOf")
    if not isinstance(choices, list):
        return [node]
    resolved = (_resolved(schema, choice) for choice in choices)
    return [choice for choice in resolved if choice.get("type") != "null"]


def _fields(schema: JsonValue, node: Node) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for variant in _variants(schema, node):
        whole = _resolved(schema, variant)
        if "items" in whole:
            found |= _fields(schema, _resolved(schema, whole["items"]))
        properties = whole.get("properties")
        if isinstance(properties, dict):
            found |= {name: _resolved(schema, inner) for name, inner in properties.items()}
    return found


def _type(schema: JsonValue, node: Node) -> str:
    names: list[str] = []
    for variant in _variants(schema, node):
        options = variant.get("enum")
        if isinstance(options, list):
            names.append("|".join(str(option) for option in options))
        elif "items" in variant:
            names.append("list of " + _type(schema, _resolved(schema, variant["items"])))
        else:
            names.append(str(variant.get("const", variant.get("type", "any"))))
    return " or ".join(dict.fromkeys(names))


def _default(node: Node) -> str:
    default = node.get("default")
    return "" if default in (None, "", [], {}) else f" (default {default})"


def _text(node: Node, *, indent: str) -> Iterator[str]:
    text = node.get("description")
    if isinstance(text, str):
        for text_line in text.splitlines():
            yield indent + text_line.strip()
