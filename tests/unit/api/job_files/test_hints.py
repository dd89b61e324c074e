"""A field that stands in the wrong place, or has another scheduler's name, is told where to go."""

import pytest

from api.documents.document import Json
from tests.unit.api.job_files.reading import a_document, problems


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        pytest.param({"grace": "1m"}, "it belongs to spec.checkpoint", id="grace"),
        pytest.param({"maxRestarts": 3}, "it belongs to spec.failurePolicy", id="restarts"),
        pytest.param({"labels": {}}, "it belongs to metadata", id="labels"),
        pytest.param({"kind": "Job"}, "it belongs to the top level", id="kind"),
        pytest.param({"cpus": 1}, "spec.resources or spec.roles.resources", id="two places"),
        pytest.param({"topology": {"pool": "a"}}, "it belongs to spec or", id="one level too deep"),
        pytest.param({"replicas": 2}, 'did you mean "workers"?', id="replicas"),
        pytest.param({"gpus": 2}, 'did you mean "gpusPerWorker"?', id="gpus"),
        pytest.param({"nodes": 2}, 'did you mean "workers"?', id="nodes"),
        pytest.param({"gpus_per_worker": 2}, 'did you mean "gpusPerWorker"?', id="snake case"),
        pytest.param({"topology": {"gpus": 2}}, "valid: required", id="no such word here"),
    ],
)
def test_an_unknown_field_comes_with_a_hint(spec: dict[str, Json], hint: str) -> None:
    (problem,) = problems(a_document(spec))
    assert problem.reason == "UnknownField"
    assert problem.detail.startswith("is not a field here; ")
    assert hint in problem.detail
