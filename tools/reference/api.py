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
Every route except `/livez`, `/readyz`, `/version` and `/errors/REASON` wants
`Authorization: Bearer TOKEN`; what belongs to a project the token may not see answers 404.
[Errors](errors.md) are problem bodies. The contract is in [openapi.json](../../api/openapi.json).

**Lists** are pages: give `limit` (at most 500), and the `continue` of one page to get the next. A
token of `continue` belongs to its filters and does not expire. `labelSelector` and `fieldSelector`
are `key=value` pairs joined by commas; the fields are `metadata.name`, `spec.queue` and
`status.phase`. Parameters that a route does not know are refused.

**Watches**: `watch=true` keeps a list of jobs or events open, as server-sent events or, with
`Accept: application/x-ndjson`, as a line of JSON each. The `resourceVersion` of a list, or of the
last event read (`Last-Event-ID`), says where to begin; without one a watch of jobs begins with all
that are there. A version that is no longer kept ends the watch with the reason `Gone`: list again.
A job's own `resourceVersion` names a version of that job, and is no place to begin.

**Logs** are plain text, server-sent events or lines of JSON. With `follow=true` and no `attempt`
the stream goes on over all attempts until the job ends. Plain text has no heartbeat.

**Submitting once**: repeated with the same `Idempotency-Key` and body, a POST of a job repeats its
answer for 24 hours; with another body it is refused. `dryRun=All` checks and stores nothing.

**Applying** (PUT): 201 with a new job, 200 with the equal one that is there, 409 naming the fields
that differ: a job does not change once it is submitted. Variables whose names look like those of
secrets are shown masked; applied again, the mask stands for the stored value.

**Deleting** removes a job that has ended. With `cancel=true` a waiting job is cancelled and removed
at once; one that runs is cancelled, the answer is 202, and the deletion is to be repeated.

**Limits**: bodies of 1 MiB, nested 32 deep, with 10,000 values; per token 100 requests a second
(bursts of 400; admin tokens are not counted) and 300 open streams. Who is over gets 429 and
`Retry-After`."""


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
