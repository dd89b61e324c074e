"""Wire types of features that have not landed: read and checked, then refused by name."""

from typing import Annotated, Literal

from pydantic import Field

from api.job_files.scalars import LabelValue, Name, Positive
from api.wire import Wire


class Elastic(Wire):
    """A gang whose size may change while it runs."""

    min_workers: Positive
    max_workers: Positive


class Dependency(Wire):
    """A job that must have come to a phase first."""

    job: Name
    phase: Literal["Succeeded", "Failed", "Cancelled"] = "Succeeded"


class Array(Wire):
    """One file, many jobs."""

    matrix: Annotated[dict[LabelValue, list[float | int | str]], Field(max_length=16)] = Field(
        default_factory=dict
    )
    count: Positive | None = None
    parallelism: Positive | None = None
    failures_max: Annotated[int, Field(ge=0)] | None = None
