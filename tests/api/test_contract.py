"""The description, the examples in it, and the job files of the reference page hold."""

from collections.abc import Iterator

import pytest
from pydantic import JsonValue
from starlette.testclient import TestClient

from api.app import create_app
from api.documents.document import Document
from api.job_files.schemas import JobFile
from api.jobs.schemas import CancelRequest, HoldRequest, ProgressReport
from api.nodes.schemas import CordonRequest
from api.policy.schemas import PolicyChange
from api.profiles.files import ProfileFile
from api.tokens.schemas import TokenRequest
from api.wire import Wire
from tests.api.front_door import JOBS, FrontDoor
from tests.unit.api.job_files.reading import read
from tools.reference.job_file import EXAMPLES

MODELS: dict[str, type[Wire]] = {
    model.__name__: model
    for model in (
        JobFile,
        CancelRequest,
        CordonRequest,
        HoldRequest,
        PolicyChange,
        ProfileFile,
        ProgressReport,
        TokenRequest,
    )
}


def operations() -> Iterator[tuple[str, dict[str, JsonValue]]]:
    """Every operation with its method and path."""
    schema = create_app(FrontDoor().deps).openapi()
    assert isinstance(schema["paths"], dict)
    for path, methods in schema["paths"].items():
        assert isinstance(methods, dict)
        for method, operation in methods.items():
            assert isinstance(operation, dict)
            yield f"{method.upper()} {path}", operation


def bodies() -> Iterator[tuple[str, str, JsonValue]]:
    """Model and example of every body."""
    for name, operation in operations():
        body = operation.get("requestBody")
        content = body.get("content") if isinstance(body, dict) else {}
        assert isinstance(content, dict)
        for media_type, part in content.items():
            assert isinstance(part, dict)
            schema = part["schema"]
            assert isinstance(schema, dict)
            model = str(schema["$ref"]).rpartition("/")[2]
            yield f"{name} as {media_type}", model, part["example"]


@pytest.mark.parametrize(
    ("model", "example"), [pytest.param(m, e, id=name) for name, m, e in bodies()]
)
def test_the_example_of_a_body_is_valid(model: str, example: JsonValue) -> None:
    assert MODELS[model].model_validate(example, by_alias=True, by_name=False)
    if model == "JobFile":
        assert isinstance(example, dict)
        assert read(Document(value=dict(example))).metadata.name


def test_operations_have_stable_ids_of_their_own_and_a_problem() -> None:
    found = dict(operations())
    ids = [operation["operationId"] for operation in found.values()]

    assert len(set(ids)) == len(ids)
    for operation in found.values():
        responses = operation["responses"]
        assert isinstance(responses, dict)
        assert "default" in responses


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_job_files_of_the_reference_page_are_accepted(title: str, admin: TestClient) -> None:
    answer = admin.post(JOBS, content=EXAMPLES[title], headers={"Content-Type": "application/yaml"})

    assert answer.status_code == 201, answer.text


def test_the_smallest_file_has_twelve_lines_at_most() -> None:
    assert len(EXAMPLES["The smallest file"].splitlines()) <= 12


def test_the_schema_explains_every_field_a_user_may_write(admin: TestClient) -> None:
    schema = admin.get("/api/v1/schema").json()

    spec = schema["$defs"]["JobRequest"]["properties"]
    assert spec["workers"]["description"].startswith("Size of the gang; default 1.")
    assert spec["priority"]["default"] == "normal"
