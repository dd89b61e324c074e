"""What a job file leaves out is filled in: from the job for its roles, else by default."""

from api.documents.document import Json
from api.job_files.spec_mapping import to_spec
from scheduler.domain.ids import QueueName
from scheduler.domain.instants import seconds
from scheduler.domain.job import CheckpointRequest, JobSpec
from scheduler.domain.resources import NOTHING, Resources
from tests.unit.api.job_files.reading import a_document, read

GIB = 1024**3


def spec_of(fields: dict[str, Json]) -> JobSpec:
    """The spec that a file with these fields says."""
    file = read(a_document(fields))
    return to_spec(file.spec, labels={}, default_queue=QueueName("default"))


def test_the_smallest_file_is_one_worker_in_the_default_queue() -> None:
    spec = spec_of({})

    assert (spec.queue, spec.workers, spec.gpus) == ("default", 1, 8)
    assert [role.name for role in spec.roles] == ["worker"]
    assert (spec.priority, spec.success_policy, spec.is_preemptible) == ("normal", "all", False)
    assert spec.checkpoint == CheckpointRequest()
    assert spec.roles[0].resources == NOTHING


def test_an_empty_checkpoint_section_declares_one_with_the_default_grace() -> None:
    checkpoint = spec_of({"checkpoint": {}}).checkpoint

    assert checkpoint == CheckpointRequest(is_declared=True)
    assert checkpoint.grace == seconds(120)


def test_a_role_takes_from_the_job_what_it_does_not_say_itself() -> None:
    spec = spec_of(
        {
            "gpusPerWorker": None,
            "command": ["job"],
            "env": {"A": "job", "B": "job"},
            "resources": {"memory": "1Gi"},
            "topology": {"spread": {"by": "rack", "workersMax": 2}},
            "roles": [
                {"name": "plain", "workers": 1, "gpusPerWorker": 1},
                {
                    "name": "own",
                    "workers": 1,
                    "gpusPerWorker": 0,
                    "command": ["own"],
                    "env": {"B": "own", "C": "own"},
                    "resources": {"memory": "2Gi"},
                },
            ],
        }
    )
    plain, own = spec.roles

    assert (plain.command, own.command) == (("job",), ("own",))
    assert plain.env == {"A": "job", "B": "job"}
    assert own.env == {"A": "job", "B": "own", "C": "own"}
    assert plain.resources == Resources(memory_bytes=GIB)
    assert own.resources == Resources(memory_bytes=2 * GIB)
    assert (plain.spread_by, own.spread_by) == (None, "rack"), "only roles without GPUs"
