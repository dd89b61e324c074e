"""api/openapi.json and docs/reference/api.md, from the application itself."""

import json
from collections.abc import Iterator

from pydantic import JsonValue

from api.app import create_app
from api.dependencies import ApiDependencies
from cli.release import version_of_client
from scheduler.adapters.memory.clock import ManualClock
from scheduler.adapters.memory.job_store import MemoryStore
from scheduler.domain.instants import Instant
from tools.reference import markdown

Node = dict[str, JsonValue]

_TEXT = """Bodies are JSON (job files may be YAML); names are camelCase, times RFC 3339 in UTC.
Every route except `/livez`, `/readyz` and `/version` wants `Authorization: Bearer TOKEN`. Lists
are pages: give `limit`, and the `continue` of one page to get the next. [Errors](errors.md) are
problem bodies. The whole contract is in [openapi.json](../../api/openapi.json)."""


def openapi() -> str:
    """The contract as JSON."""
    return json.dumps(_schema(), indent=2, sort_keys=True) + "\n"


def page() -> str:
    """Every route with its parameters, by tag."""
    lines = markdown.head("The REST API", _TEXT)
    by_tag: dict[str, list[list[str]]] = {}
    for tag, row in _rows(_schema()):
        by_tag.setdefault(tag, []).append(row)
    for tag, rows in by_tag.items():
        lines += [f"## {tag}", ""]
        lines += markdown.table(("request", "does", "parameters"), rows)
    return markdown.page(lines)


def _schema() -> Node:
    store = MemoryStore()
    app = create_app(
        ApiDependencies(
            store=store,
            accounts=store,
            clock=ManualClock(Instant(0)),
            new_id=str,
            secret=b"",
            version=version_of_client(),
        )
    )
    return app.openapi()


def _rows(schema: Node) -> Iterator[tuple[str, list[str]]]:
    paths = schema["paths"]
    assert isinstance(paths, dict)
    for path, methods in paths.items():
        assert isinstance(methods, dict)
        for method, operation in methods.items():
            assert isinstance(operation, dict)
            tags = operation.get("tags")
            tag = str(tags[0]) if isinstance(tags, list) else "server"
            text = str(operation.get("description") or operation.get("summary") or "")
            request = markdown.code(f"{method.upper()} {path}")
            yield tag, [request, text, _parameters(operation)]


def _parameters(operation: Node) -> str:
    """Names of query and header parameters; those of the path stand in the path."""
    found = operation.get("parameters")
    parameters = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    shown = (one for one in parameters if one.get("in") != "path")
    return ", ".join(markdown.code(str(one["name"])) for one in shown)
