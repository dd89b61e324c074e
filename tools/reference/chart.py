"""helm/README.md: every value of the chart with the comment that stands above it in values.yaml."""

import json
from collections.abc import Iterator
from pathlib import Path

import yaml

from tools.reference import markdown

VALUES = Path(__file__).resolve().parents[2] / "helm" / "values.yaml"

_TEXT = """Installs `dallyd` on Kubernetes 1.30 or newer, with SQLite on a volume or an external
PostgreSQL. The [guide](../docs/installing.md) says how, step by step.

```sh
helm install dally helm/ --namespace dally --create-namespace
helm test dally --namespace dally
```

A value that is not listed here is refused. `config` is dallyd.yaml, as
[its page](../docs/reference/configuration.md) describes it."""


def page() -> str:
    """The whole page."""
    rows = (
        (markdown.code(path), markdown.code(default), means)
        for path, default, means in values(VALUES.read_text())
    )
    lines = [
        *markdown.head("The Helm chart", _TEXT),
        "## Values",
        "",
        *markdown.table(("value", "default", "means"), rows),
    ]
    return markdown.page(lines)


def values(text: str) -> Iterator[tuple[str, str, str]]:
    """Path, default and comment of every value that has a comment."""
    lines = text.splitlines()
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    yield from _values(root, (), lines)


def uncommented(text: str) -> tuple[str, ...]:
    """Values for which no comment speaks: neither their own nor that of what they are part of."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(root, yaml.MappingNode)
    said = {path for path, _, _ in values(text)}
    return tuple(
        path
        for path in _leaves(root, ())
        if not any(path == known or path.startswith(f"{known}.") for known in said)
    )


def _values(
    node: yaml.MappingNode, within: tuple[str, ...], lines: list[str]
) -> Iterator[tuple[str, str, str]]:
    for key, value in node.value:
        path = (*within, key.value)
        comment = _comment_above(key.start_mark.line, lines)
        if comment:
            yield ".".join(path), _default(value), comment
        elif isinstance(value, yaml.MappingNode):
            yield from _values(value, path, lines)


def _leaves(node: yaml.MappingNode, within: tuple[str, ...]) -> Iterator[str]:
    for key, value in node.value:
        path = (*within, key.value)
        if isinstance(value, yaml.MappingNode) and value.value:
            yield from _leaves(value, path)
        else:
            yield ".".join(path)


def _comment_above(line: int, lines: list[str]) -> str:
    words: list[str] = []
    while line and lines[line - 1].lstrip().startswith("#"):
        line -= 1
        words.insert(0, lines[line].lstrip(" #"))
    return " ".join(words)


def _default(node: yaml.Node) -> str:
    return json.dumps(yaml.SafeLoader("").construct_object(node, deep=True))
