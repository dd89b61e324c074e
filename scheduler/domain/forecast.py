"""What will become of live jobs: what is asked, what is to be different, and what is told."""

from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.domain.ids import JobId
from scheduler.domain.instants import Duration, Instant
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.links import FabricPlan
from scheduler.domain.placement import Placement
from scheduler.domain.snapshot import Snapshot


class LengthFrom(StrEnum):
    """Where the guess of a job's remaining run time comes from."""

    ITERATIONS = "iterations"
    """The job declares how many it runs."""
    PAST_JOBS = "past-jobs"
    """What jobs of its queue and size took."""
    DEFAULT = "default"
    """Too few of them have ended: `residual_default`, or as long as it has run."""
    RUN_TIME_MAX = "max-runtime"
    """It is stopped then, and was taken to run for longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What is to be different from the live cluster."""

    knobs: PolicyKnobs | None = None
    """None: those that hold."""
    policy: str = ""
    """Empty: the one that the knobs name."""
    nodes_more: int = 0
    """Copies of the last node, in order though that may be cordoned or down."""


NOTHING_ELSE = WhatIf()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """One job of the live cluster."""

    job_id: JobId
    name: str
    gpus: int
    is_running: bool
    starts_at: Instant | None
    """When it next gets GPUs; for one that holds some now. None if nothing will start it."""
    ends_at: Instant | None
    """None if it does not start, or never ends."""
    placement: Placement | None
    """Where it starts, or runs."""
    remaining: Duration
    """The run time it was taken to need at its closest tier, alone."""
    length_from: LengthFrom


@dataclass(frozen=True, slots=True, kw_only=True)
class ForecastQuestion:
    """All that a forecast of one job depends on."""

    snapshot: Snapshot
    """Holds the job, running or pending."""
    about: JobId
    what_if: WhatIf = NOTHING_ELSE
    links: FabricPlan = field(default_factory=FabricPlan)
    """As the configuration names them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What becomes of the job that was asked about."""

    prediction: Prediction
    jobs_running: int
    """Others that hold GPUs."""
    jobs_waiting: int
    """Others that wait for some."""
