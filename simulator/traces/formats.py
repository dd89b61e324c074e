"""Which trace formats there are, which one a file has, and reading a whole trace."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from scheduler.domain.instants import Duration
from simulator.errors import TraceError
from simulator.traces import alibaba, gavel, json_lines, philly, slurm, swf, tables
from simulator.traces.job import Changed, Dropped, Parsed, TraceJob
from simulator.traces.source import Head, head_of, open_text, told_if_unreadable


@dataclass(frozen=True, slots=True)
class TraceFormat:
    """One format: its name on the command line, how to know it, and its parser."""

    name: str
    about: str
    recognises: Callable[[Head], bool]
    parse: Callable[[TextIO, str], Iterator[Parsed]]
    repeats_names: bool = False
    """Whether rows of one name are jobs of their own; else the second one is an error."""


# Asked in this order: the more special formats stand before those whose columns they share.
FORMATS: tuple[TraceFormat, ...] = (
    TraceFormat("jsonl", "Dally's own JSON lines", json_lines.recognises, json_lines.parse),
    TraceFormat("philly-json", "Philly, public JSON", philly.recognises_json, philly.parse_json),
    TraceFormat("philly", "Philly, one row a job", philly.recognises_csv, philly.parse_csv),
    TraceFormat(
        "acme",
        "Acme (Seren, Kalos)",
        slurm.recognises_acme,
        slurm.parse_acme,
        repeats_names=True,
    ),
    TraceFormat(
        "helios", "Helios", slurm.recognises_helios, slurm.parse_helios, repeats_names=True
    ),
    TraceFormat(
        "openb", "Alibaba GPU v2023 pod list", alibaba.recognises_openb, alibaba.parse_openb
    ),
    TraceFormat("pai", "Alibaba PAI task table", alibaba.recognises_pai, alibaba.parse_pai),
    TraceFormat("muri", "Muri (milliseconds)", tables.recognises_muri, tables.parse_muri),
    TraceFormat(
        "tiresias",
        "Tiresias, ElasticFlow, Chronus",
        tables.recognises_tiresias,
        tables.parse_tiresias,
    ),
    TraceFormat("itp", "Microsoft ITP", tables.recognises_itp, tables.parse_itp),
    TraceFormat("gavel", "Gavel, 10 fields", gavel.recognises_gavel, gavel.parse_gavel),
    TraceFormat(
        "gavel-philly",
        "Gavel's Philly jobs, 7 fields",
        gavel.recognises_gavel_philly,
        gavel.parse_gavel_philly,
    ),
    TraceFormat(
        "shockwave", "Shockwave, 12 fields", gavel.recognises_shockwave, gavel.parse_shockwave
    ),
    TraceFormat("swf", "Standard Workload Format", swf.recognises, swf.parse),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A whole trace: jobs by arrival, the first one arriving at 0, and what was left out."""

    source: str
    format: str
    jobs: tuple[TraceJob, ...]
    dropped: Mapping[str, int]
    """Rows that are no job, by reason."""
    changed: Mapping[str, int]
    """Jobs kept after a change, by kind of change."""


def first_jobs(trace: Trace, jobs_max: int | None) -> Trace:
    """The first so many jobs of the trace; None for all."""
    return trace if jobs_max is None else replace(trace, jobs=trace.jobs[:jobs_max])


def format_named(name: str) -> TraceFormat:
    """The format of that name. Raises TraceError naming all if there is none."""
    for candidate in FORMATS:
        if candidate.name == name:
            return candidate
    known = ", ".join(each.name for each in FORMATS)
    raise TraceError("--format", 0, f"no format named {name!r}; there are {known}")


def format_of(path: Path) -> TraceFormat:
    """The format the file looks like. Raises TraceError if it looks like none."""
    head = head_of(path)
    for candidate in FORMATS:
        if candidate.recognises(head):
            return candidate
    if ".jsonl" in path.suffixes:
        # It says itself what it is; its parser names the row and the field that are wrong.
        return format_named("jsonl")
    known = ", ".join(each.name for each in FORMATS)
    raise TraceError(
        path.name, 1, f"looks like no trace format known ({known}); name one with --format"
    )


def stream(path: Path, format: TraceFormat) -> Iterator[Parsed]:
    """What the parser makes of the file, in file order, without keeping more than its names."""
    with told_if_unreadable(path.name), open_text(path) as text:
        found = format.parse(text, path.name)
        yield from found if format.repeats_names else _named_once(found, path.name)


def _named_once(found: Iterable[Parsed], source: str) -> Iterator[Parsed]:
    """The same, until two jobs have one name: whatever is told of either would be of both."""
    rows: dict[str, int] = {}
    for parsed in found:
        if not isinstance(parsed, Dropped):
            job = parsed.job if isinstance(parsed, Changed) else parsed
            first = rows.get(job.name)
            if first is not None:
                raise TraceError(
                    source, job.row, f"has the name of the job on line {first}: {job.name[:80]!r}"
                )
            rows[job.name] = job.row
        yield parsed


def read_trace(path: Path, format: TraceFormat | None = None) -> Trace:
    """The whole trace. Jobs that arrive together keep the order of the file."""
    chosen = format or format_of(path)
    jobs: list[TraceJob] = []
    dropped: Counter[str] = Counter()
    changed: Counter[str] = Counter()
    for parsed in stream(path, chosen):
        match parsed:
            case Dropped():
                dropped[parsed.reason] += 1
            case Changed():
                changed[parsed.change] += 1
                jobs.append(parsed.job)
            case TraceJob():
                jobs.append(parsed)
    if not jobs:
        raise TraceError(path.name, 0, f"has no job ({sum(dropped.values())} rows dropped)")
    jobs.sort(key=lambda job: (job.arrival, job.row))
    offset = Duration(-jobs[0].arrival)
    return Trace(
        source=path.name,
        format=chosen.name,
        jobs=tuple(job.moved_by(offset) for job in jobs) if offset else tuple(jobs),
        dropped=dict(sorted(dropped.items())),
        changed=dict(sorted(changed.items())),
    )
