"""The results of many runs in one small file, which is kept beside the code: one line for each
variant in a cell, numbers to six digits. What `report` prints of it is what the page shows.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from bench.study.classes import classes_of
from bench.study.plan import SIZE_FILE, run_name
from bench.study.reading import BrokenRunError, CellRuns, Stored, cell_of, number

FILE = "results.jsonl"
METRICS = (
    "jct_mean_s",
    "jct_p95_s",
    "jct_p99_s",
    "makespan_s",
    "queueing_mean_s",
    "exposed_communication_gpu_s",
    "preemptions_per_job",
    "fairness_p99",
)
DIGITS = 6


def pack(cells: list[CellRuns], folder: Path, *, size: str) -> Path:
    """Write the file, and beside it what size the runs have (a line of `size.json`)."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SIZE_FILE).write_text(size, encoding="utf-8")
    file = folder / FILE
    lines = [json.dumps(line, separators=(",", ":")) for cell in cells for line in _lines(cell)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def unpack(packed: Path, folder: Path) -> int:
    """Write the runs of a packed file as `run` writes them, so that it goes on from there; those
    that the folder has stay. Returns how many were written.
    """
    for name in (FILE, SIZE_FILE):
        if not (packed / name).exists():
            raise BrokenRunError(f"{packed} holds no {name}")
    size, there = (packed / SIZE_FILE).read_text(encoding="utf-8"), folder / SIZE_FILE
    if there.exists() and there.read_text(encoding="utf-8") != size:
        raise BrokenRunError(f"{folder} holds runs of another size than {packed}: {size.strip()}")
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    there.write_text(size, encoding="utf-8")
    written = 0
    for run in unpacked(packed):
        name = run_name(cell_of(run), str(run["variant"]), round(number(run, "seed")))
        file = folder / "runs" / f"{name}.json"
        if not file.exists():
            file.write_text(json.dumps(run) + "\n", encoding="utf-8")
            written += 1
    return written


def unpacked(folder: Path) -> Iterator[Stored]:
    """The runs of a packed file, as `run` writes each; none if there is no such file."""
    file = folder / FILE
    if not file.exists():
        return
    for text in file.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        shared = {name: line[name] for name in SHARED}
        for seed, (values, weeks, *classes) in line["seeds"].items():
            metrics = dict(zip(METRICS, values, strict=True))
            kept = {"classes": classes[0]} if classes else {}
            yield {**shared, **metrics, "seed": int(seed), "weeks": weeks, **kept}


SHARED = (
    "workload",
    "load",
    "congestion",
    "trouble",
    "variant",
    "knows_lengths",
    "is_ablation",
    "jobs",
)


def _lines(cell: CellRuns) -> Iterator[Mapping[str, object]]:
    for _, runs in sorted(cell.by_variant.items()):
        first = next(iter(runs.values()))
        seeds = {
            str(seed): [
                [_short(number(run, name)) for name in METRICS],
                _weeks(run),
                *_classes(run),
            ]
            for seed, run in sorted(runs.items())
        }
        yield {**{name: first[name] for name in SHARED}, "seeds": seeds}


def _weeks(run: Stored) -> list[list[float]]:
    weeks = run["weeks"]
    assert isinstance(weeks, list)
    return [[count, _short(total)] for count, total in weeks]


def _classes(run: Stored) -> Iterator[Mapping[str, list[float]]]:
    """Once, if the run tells of them."""
    found = classes_of(run)
    if found:
        yield {gpus: [_short(value) for value in values] for gpus, values in found.items()}


def _short(value: float) -> float:
    short = float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short
