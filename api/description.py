"""What the OpenAPI description says beyond the routes' signatures: bodies, problems, tokens."""

from collections.abc import Sequence

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, JsonValue
from pydantic.json_schema import models_json_schema

from api.errors import PROBLEM_TYPE
from api.gate import is_public
from api.job_files.schemas import JobFile
from api.jobs.schemas import CancelRequest, HoldRequest, ProgressReport, WatchEvent
from api.nodes.schemas import CordonRequest
from api.policy.schemas import PolicyChange
from api.problems import Problem
from api.profiles.files import ProfileFile
from api.tokens.schemas import TokenRequest
from api.wire import Wire

Node = dict[str, JsonValue]

_MODELS: Sequence[type[BaseModel]] = (
    JobFile,
    CancelRequest,
    HoldRequest,
    ProgressReport,
    TokenRequest,
    PolicyChange,
    CordonRequest,
    ProfileFile,
    Problem,
    WatchEvent,
)
_UNUSED = ("HTTPValidationError", "ValidationError")
"""FastAPI's own bodies of errors, which this server never sends."""

_REFERENCE = "#/components/schemas/{model}"

_EXAMPLES: dict[type[Wire], Node] = {
    CordonRequest: {"reason": "new firmware"},
    JobFile: {
        "apiVersion": "dally/v1",
        "kind": "Job",
        "metadata": {"name": "resnet50", "labels": {"exp": "a1"}},
        "spec": {
            "workers": 4,
            "gpusPerWorker": 8,
            "launcher": "torchrun",
            "command": ["torchrun", "train.py"],
            "duration": {"maxRuntime": "24h"},
        },
    },
    CancelRequest: {"now": False, "reason": "wrong data set"},
    HoldRequest: {"reason": "not before the review"},
    ProgressReport: {"step": 100, "stepSeconds": 0.25, "loss": 1.5, "stepsTotal": 1000},
    PolicyChange: {"knobs": {"waitMax": "12h", "timers": None}, "reason": "long queue"},
    ProfileFile: {
        "apiVersion": "dally/v1",
        "kind": "Profile",
        "metadata": {"name": "our-net"},
        "spec": {
            "family": "vision",
            "parameters": 25_000_000,
            "precision": "bf16",
            "timings": [{"gpuModel": "H100", "batchPerGpu": 256, "stepSeconds": 0.09}],
        },
    },
    TokenRequest: {"name": "ada", "projects": ["default"], "expiresIn": "90d"},
}


def body_of(model: type[Wire], *, is_yaml_too: bool = False, is_required: bool = True) -> Node:
    """For `openapi_extra`: the body of a route that reads it itself, under a budget."""
    content: Node = {
        "schema": {"$ref": _REFERENCE.format(model=model.__name__)},
        "example": _EXAMPLES[model],
    }
    types = ["application/json", *(["application/yaml"] if is_yaml_too else [])]
    return {
        "requestBody": {
            "required": is_required,
            "content": dict.fromkeys(types, content),
        }
    }


def described(app: FastAPI) -> Node:
    """The whole description."""
    schema: Node = get_openapi(
        title=app.title,
        version=app.version,
        summary="Schedules gangs of distributed training jobs on GPU clusters",
        routes=app.routes,
        separate_input_output_schemas=False,
    )
    components = _node(schema, "components")
    definitions = models_json_schema(
        [(model, "validation") for model in _MODELS], ref_template=_REFERENCE
    )[1]["$defs"]
    schemas = _node(components, "schemas")
    for name in _UNUSED:
        schemas.pop(name, None)
    for name, definition in sorted(definitions.items()):
        schemas.setdefault(name, definition)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in _node(schema, "paths").items():
        assert isinstance(operations, dict)
        for operation in operations.values():
            assert isinstance(operation, dict)
            _finish(path, operation)
    return schema


def _finish(path: str, operation: Node) -> None:
    responses = _node(operation, "responses")
    # FastAPI describes its own body of a 422; ours is a problem like any other.
    responses.pop("422", None)
    responses["default"] = {
        "description": "A problem body (RFC 9457)",
        "content": {PROBLEM_TYPE: {"schema": {"$ref": _REFERENCE.format(model="Problem")}}},
    }
    if not is_public(path):
        operation["security"] = [{"token": []}]


def _node(parent: Node, name: str) -> Node:
    node = parent.setdefault(name, {})
    assert isinstance(node, dict)
    return node
