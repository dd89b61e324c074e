"""The gangs that are submitted: drawn from one seed, each with steps for so many seconds."""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from api.documents.document import Json

ROOT = Path(__file__).resolve().parents[3]

WORKERS = {1: 6, 2: 6, 3: 2, 4: 6, 6: 2, 8: 5}
"""Workers of a gang (a slot each) with their weights."""

MODELS = ("resnet50", "vgg16", "bert-base", "gpt2-small", "deepspeech2")
"""Of the network model's table; their steps take between a tenth of a second and a few."""

LOAD = 0.9

WORKER = ("python3", "-c", f"from {__package__}.worker import main; raise SystemExit(main())")
"""What every worker runs, with its arguments behind it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What is drawn of a job before anybody has said how long its steps take."""

    name: str
    arrival_s: float
    """Since the first one."""
    workers: int
    model: str
    length_s: float
    """About so long it is to run at its closest tier."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PacedJob:
    """A job as it is submitted."""

    name: str
    workers: int
    model: str
    steps: int
    step_s: Mapping[str, float]
    """By tier, as the service predicts it; what its workers keep to."""

    @property
    def best_step_s(self) -> float:
        """At its closest tier."""
        return min(self.step_s.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSize:
    """How much is drawn."""

    jobs: int
    length_median_s: float
    length_max_s: float
    looks: tuple[int, ...]
    """A snapshot is taken after so many jobs."""
    length_min_s: float = 3.0


FULL = WorkloadSize(jobs=36, length_median_s=18.0, length_max_s=60.0, looks=(12, 18, 24))
QUICK = WorkloadSize(jobs=8, length_median_s=5.0, length_max_s=8.0, looks=(5,))


def drawn(size: WorkloadSize, *, slots: int, seed: int) -> tuple[Shape, ...]:
    """Jobs by arrival, such that they would keep the slots busy at LOAD until the last arrival."""
    rng = random.Random(seed)
    lengths_s = [_length_s(size, rng) for _ in range(size.jobs)]
    workers = rng.choices(list(WORKERS), weights=list(WORKERS.values()), k=size.jobs)
    gaps = [0.0, *(rng.expovariate(1.0) for _ in range(size.jobs - 1))]
    work = sum(length_s * count for length_s, count in zip(lengths_s, workers, strict=True))
    scale = work / (LOAD * slots) / sum(gaps)
    return tuple(
        Shape(
            name=f"gang-{number:02d}",
            arrival_s=scale * sum(gaps[: number + 1]),
            workers=workers[number],
            model=rng.choice(MODELS),
            length_s=lengths_s[number],
        )
        for number in range(size.jobs)
    )


def _length_s(size: WorkloadSize, rng: random.Random) -> float:
    drawn_s = size.length_median_s * rng.lognormvariate(0.0, 0.7)
    return min(size.length_max_s, max(size.length_min_s, drawn_s))


def paced(shape: Shape, step_s: Mapping[str, float]) -> PacedJob:
    """The job with as many steps as fit its length at its closest tier."""
    return PacedJob(
        name=shape.name,
        workers=shape.workers,
        model=shape.model,
        steps=max(1, round(shape.length_s / min(step_s.values()))),
        step_s=step_s,
    )


def job_file(job: PacedJob, racks: Mapping[str, str]) -> Json:
    """The job file; `racks` names the rack of each node."""
    paces = [f"{tier}={step_s!r}" for tier, step_s in job.step_s.items()]
    command: list[Json] = [*WORKER, str(job.steps), _pairs(racks), *paces]
    return _file(
        job.name,
        job.workers,
        job.model,
        command=command,
        # All lose at most the step they are in; the service may stop them for others.
        checkpoint={"every": "1s", "grace": "10s", "restartCost": "1s"},
        duration={"iterations": job.steps},
        env={"PYTHONPATH": "$(DALLY_SERVER_DIR):$(DALLY_SERVER_DIR)/runtime"},
    )


def question(shape: Shape) -> Json:
    """A job file of that shape, to ask how long its steps take."""
    return _file(shape.name, shape.workers, shape.model, command=["true"])


def _file(name: str, workers: int, model: str, **spec: Json) -> Json:
    return {
        "apiVersion": "dally/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "workers": workers,
            "gpusPerWorker": 1,
            "communication": {"model": model},
            **spec,
        },
    }


def _pairs(mapping: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(mapping.items()))
