"""Reads job files of tests in surroundings that a test may change."""

from api.documents.document import Document, Json
from api.documents.reading import read_document
from api.job_files.reading import read_job_file
from api.job_files.rules import Surroundings
from api.job_files.schemas import JobFile
from scheduler.domain.errors import InvalidSpecError, SpecProblem
from scheduler.domain.ids import ProjectName, QueueName

QUEUES = (QueueName("default"), QueueName("team-a"))

AROUND = Surroundings(
    project=ProjectName("default"),
    queues=QUEUES,
    all_queues=(*QUEUES, QueueName("team-b")),
    priorities={"low": -1, "normal": 0, "high": 1},
    levels=("rack", "spine"),
    pools=("h100", "cpu"),
)


def a_document(spec: dict[str, Json] | None = None, **metadata: Json) -> Document:
    """A valid file with these fields of `spec` added, replaced, or removed where they are None."""
    fields: dict[str, Json] = {"gpusPerWorker": 8, "command": ["python", "train.py"]}
    fields.update(spec or {})
    value: dict[str, Json] = {
        "apiVersion": "dally/v1",
        "kind": "Job",
        "metadata": {"name": "train", **metadata},
        "spec": {name: field for name, field in fields.items() if field is not None},
    }
    return Document(value=value)


def read(document: Document, around: Surroundings = AROUND) -> JobFile:
    """The checked file."""
    return read_job_file(document, around)


def problems(document: Document, around: Surroundings = AROUND) -> tuple[SpecProblem, ...]:
    """What is wrong with a file; nothing if it can be read."""
    try:
        read_job_file(document, around)
    except InvalidSpecError as error:
        return error.problems
    return ()


def yaml_problems(text: str) -> list[tuple[int, str, str]]:
    """Line, pointer and reason of everything that is wrong with a YAML file."""
    document = read_document(text.encode(), is_yaml=True)
    found = []
    for problem in problems(document):
        place = document.place(problem.pointer)
        found.append((place.line if place else 0, problem.pointer, problem.reason))
    return found
