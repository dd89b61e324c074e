"""docs/reference/job-file.md: every field of a job file, from the wire types."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from api.job_files.schemas import JobFile
from tools.reference import markdown

Node = dict[str, JsonValue]

_TEXT = """YAML or JSON. A field that is not listed here is refused with the nearest valid name,
and all mistakes of a file are reported at once. A field whose feature has not landed is refused
with the reason `NotSupportedYet` and the version that brings it. `dally explain job.spec` shows
the same in a terminal."""


EXAMPLES: Mapping[str, str] = {
    "The smallest file": """\
apiVersion: dally/v1
kind: Job
metadata: {name: hello}
spec:
  gpusPerWorker: 1
  command: [python, train.py]
""",
    "Data-parallel training that checkpoints": """\
apiVersion: dally/v1
kind: Job
metadata: {name: resnet50, labels: {exp: a1}}
spec:
  workers: 4
  gpusPerWorker: 8
  launcher: torchrun
  command: [torchrun, train.py]
  resources: {cpus: 32, memory: 256Gi}
  checkpoint: {path: /ckpt/run1, every: 10m, grace: 120s}
  failurePolicy: {maxRestarts: 3, rules: [{onExitCodes: [3], action: Fail}]}
  duration: {maxRuntime: 24h}
""",
    "Roles: a chief, trainers and parameter servers": """\
apiVersion: dally/v1
kind: Job
metadata: {name: recommender}
spec:
  command: [python, train.py]
  launcher: tf
  roles:
    - {name: chief, workers: 1, gpusPerWorker: 0}
    - {name: trainer, workers: 8, gpusPerWorker: 8}
    - {name: ps, workers: 4, gpusPerWorker: 0, resources: {cpus: 48, memory: 400Gi}}
  successPolicy: {role: chief}
  communication: {strategy: ps, servers: 4, gradientBytes: 1.5Gi, computeSeconds: 0.12}
""",
}
"""Files that a test reads as the server does."""


def page() -> str:
    """The whole page: one table an object, in the order in which a reader meets them."""
    schema: Node = JobFile.model_json_schema(by_alias=True)
    lines = markdown.head("The job file", _TEXT)
    for title, text in EXAMPLES.items():
        lines += [f"## {title}", "", "```yaml", text.rstrip(), "```", ""]
    lines += ["Save one as `job.yaml` and submit it with `dally apply -f job.yaml`.", ""]
    for path, node in _objects(schema, "job", schema):
        lines += [f"## {path}", "", _text(node), ""]
        lines += markdown.table(
            ("field", "type", "default", "means"),
            (_field(schema, node, name) for name in _properties(node)),
        )
    return markdown.page(lines)


def _objects(schema: Node, path: str, node: Node) -> Iterator[tuple[str, Node]]:
    """Every object with fields, from the top, each with its dotted path."""
    yield path, node
    for name, inner in _properties(node).items():
        for kind in _kinds(schema, inner):
            if _properties(kind):
                yield from _objects(schema, f"{path}.{name}", kind)


def _field(schema: Node, owner: Node, name: str) -> tuple[str, str, str, str]:
    node = _properties(owner)[name]
    types = " or ".join(dict.fromkeys(_type(kind) for kind in _kinds(schema, node)))
    required = owner.get("required")
    is_required = isinstance(required, list) and name in required
    default = node.get("default")
    shown = "required" if is_required else _shown(default)
    return markdown.code(name), types, shown, _text(node)


def _shown(value: JsonValue) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value in (None, [], {}, "") else str(value)


def _kinds(schema: Node, node: Node) -> Iterator[Node]:
    """What a value may be, without null; of a list or a mapping, its elements."""
    choices = node.get("anyOf")
    for choice in choices if isinstance(choices, list) else [node]:
        assert isinstance(choice, dict)
        kind = _resolved(schema, choice)
        if kind.get("type") == "null":
            continue
        element = kind.get("items")
        yield _resolved(schema, element) | {"x-list": True} if isinstance(element, dict) else kind


def _resolved(schema: Node, node: Node) -> Node:
    reference = node.get("$ref")
    if not isinstance(reference, str):
        return node
    definitions = schema["$defs"]
    assert isinstance(definitions, dict)
    target = definitions[reference.rpartition("/")[2]]
    assert isinstance(target, dict)
    return _resolved(schema, target)


def _type(kind: Node) -> str:
    options = kind.get("enum")
    if isinstance(options, list):
        name = ", ".join(markdown.code(str(option)) for option in options)
    elif "const" in kind:
        name = markdown.code(_shown(kind["const"]))
    else:
        name = str(kind.get("type", "any"))
    return f"list of {name}" if kind.get("x-list") else name


def _properties(node: Node) -> dict[str, Node]:
    found = node.get("properties")
    if not isinstance(found, dict):
        return {}
    return {name: inner for name, inner in found.items() if isinstance(inner, dict)}


def _text(node: Node) -> str:
    text = node.get("description")
    return text if isinstance(text, str) else ""
