"""What a spec means survives being written as a job file and read again."""

import json
import re
from contextlib import suppress
from dataclasses import replace

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from api.documents.document import Document, Json, MalformedError
from api.documents.reading import read_document
from api.job_files.reading import read_job_file
from api.job_files.schemas import JobFile, JobFileMetadata
from api.job_files.spec_mapping import to_request, to_spec
from scheduler.control.fitting import EmptyCluster, Refusal
from scheduler.domain.errors import InvalidSpecError
from scheduler.domain.ids import LevelName, QueueName
from scheduler.domain.job import JobSpec, TopologyRequest
from tests.builders import a_cluster
from tests.unit.api.job_files.reading import AROUND
from tests.unit.api.job_files.specs import specs

local_specs = specs().map(lambda spec: replace(spec, volumes=(), secrets=(), pod_profile=""))
"""What workers that are processes can be told."""


class Yaml12(yaml.SafeDumper):
    """Quotes text that YAML 1.2 takes for a number: PyYAML leaves 0e0 bare, as 1.1 reads text."""


Yaml12.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9.]+[eE][-+]?[0-9]+"), list("-+.0123456789")
)


def as_file(spec: JobSpec) -> str:
    """The file that says `spec`."""
    metadata = JobFileMetadata(name="train", labels=dict(spec.labels))
    file = JobFile(metadata=metadata, spec=to_request(spec))
    return file.model_dump_json(by_alias=True, exclude_none=True)


def as_spec(text: str, *, is_yaml: bool) -> JobSpec:
    """The spec that a file says."""
    file = read_job_file(read_document(text.encode(), is_yaml=is_yaml), AROUND)
    return to_spec(file.spec, labels=dict(file.metadata.labels), default_queue=QueueName("default"))


@settings(max_examples=50)
@given(specs())
def test_a_request_says_the_same_as_its_spec(spec: JobSpec) -> None:
    labels = dict(spec.labels)

    assert to_spec(to_request(spec), labels=labels, default_queue=QueueName("default")) == spec


@settings(max_examples=50)
@given(local_specs)
def test_a_spec_survives_being_written_and_read(spec: JobSpec) -> None:
    assert as_spec(as_file(spec), is_yaml=False) == spec


@settings(max_examples=50)
@given(local_specs)
def test_yaml_says_the_same_as_json(spec: JobSpec) -> None:
    text = yaml.dump(json.loads(as_file(spec)), Dumper=Yaml12, allow_unicode=True)

    assert as_spec(text, is_yaml=True) == spec


@settings(max_examples=50)
@given(local_specs)
def test_defaults_are_filled_in_once(spec: JobSpec) -> None:
    once = as_file(spec)

    assert as_file(as_spec(once, is_yaml=False)) == once


@settings(max_examples=50)
@given(local_specs)
def test_no_accepted_spec_breaks_the_placing_of_gangs(spec: JobSpec) -> None:
    drawn = a_cluster("s1/rack1: 8 8\ns1/rack2: 8 4\ns2/rack3: 8")
    levels = [
        replace(level, name=LevelName(name))
        for level, name in zip(drawn.levels, AROUND.levels or (), strict=True)
    ]
    small = tuple(replace(role, workers=min(role.workers, 6)) for role in spec.roles)
    for gang in (spec, replace(spec, roles=small, topology=TopologyRequest(), pool=None)):
        cluster = EmptyCluster(levels, drawn.nodes)
        assert isinstance(cluster.refusal(gang), Refusal | None)


_FIELDS = [
    *("apiVersion", "kind", "metadata", "name", "labels", "spec", "workers", "gpusPerWorker"),
    *("command", "roles", "env", "topology", "required", "slices", "within", "communication"),
    *("parallel", "order", "checkpoint", "grace", "status", "unknown"),
]
_nearly_files = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 70_000) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_FIELDS), inner, max_size=5)
    ),
    max_leaves=20,
)


@given(_nearly_files)
def test_whatever_a_body_says_is_read_or_refused(value: Json) -> None:
    document = Document(value={"metadata": {"name": "a"}, "spec": value})

    with suppress(InvalidSpecError):
        assert read_job_file(document, AROUND).metadata.name == "a"


@given(st.binary(max_size=200) | st.text(alphabet="[]{}:,-?&*!|>'\"#% \n\ta1", max_size=60))
def test_whatever_bytes_come_are_read_or_refused(body: bytes | str) -> None:
    data = body if isinstance(body, bytes) else body.encode()
    for is_yaml in (False, True):
        with suppress(MalformedError):
            read_document(data, is_yaml=is_yaml)
