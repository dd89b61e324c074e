"""`dally-sim trace inspect | convert | make`."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from simulator.commands.failing import told_as_errors
from simulator.errors import OptionError, TraceError
from simulator.traces import json_lines
from simulator.traces.formats import (
    FORMATS,
    TraceFormat,
    format_named,
    format_of,
    read_trace,
    stream,
)
from simulator.traces.inspecting import TraceSummary, summarise
from simulator.traces.job import Changed, Dropped, Parsed, TraceJob
from simulator.workload import PHILLY_MIX, Arrivals, drawn_jobs, fitted_to, load_of

trace_app = typer.Typer(help="Look at traces, or make JSON lines of them.", no_args_is_help=True)

TraceFile = Annotated[
    Path,
    typer.Argument(exists=True, dir_okay=False, readable=True, help="The trace; .gz is read too."),
]
FormatName = Annotated[
    str | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Its format, if not to be guessed: " + ", ".join(each.name for each in FORMATS),
    ),
]


def chosen_format(path: Path, name: str | None) -> TraceFormat:
    """The format that was named, else the one the file looks like."""
    return format_named(name) if name else format_of(path)


@trace_app.command(
    epilog="Examples: `dally-sim trace inspect philly.csv`, "
    "`dally-sim trace inspect cluster06.csv --gpus 128 --json`"
)
def inspect(
    trace: TraceFile,
    format: FormatName = None,
    gpus: Annotated[
        int | None, typer.Option(min=1, help="GPUs of a cluster, to show the load on it.")
    ] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show counts, GPU demand, run times and load of a trace, and what was dropped and why."""
    with told_as_errors():
        chosen = chosen_format(trace, format)
        summary = summarise(_with_a_job(stream(trace, chosen), trace))
    if as_json:
        typer.echo(json.dumps(_as_object(summary, chosen, gpus)))
    else:
        _show(summary, chosen, gpus)


@trace_app.command(
    epilog="Examples: `dally-sim trace convert philly.csv philly.jsonl`, "
    "`dally-sim trace convert log.swf --format swf > jobs.jsonl`"
)
def convert(
    trace: TraceFile,
    out: Annotated[
        Path | None, typer.Argument(dir_okay=False, help="The file to write; else stdout.")
    ] = None,
    format: FormatName = None,
) -> None:
    """Write the jobs of a trace as JSON lines, in the order of the file; tell what was dropped."""
    kept = 0
    dropped: dict[str, int] = {}
    with told_as_errors():
        if out is not None and out.exists() and out.samefile(trace):
            # Opening it to write would empty it before the first line is read.
            raise OptionError("OUT", f"{out} is the trace itself; name another file")
        lines = _lines(stream(trace, chosen_format(trace, format)), dropped)
        if out is None:
            for line in lines:
                typer.echo(line)
                kept += 1
        else:
            kept = _write_whole(out, lines)
    told = "".join(f", {count} dropped as {reason}" for reason, count in sorted(dropped.items()))
    typer.echo(f"{kept} jobs{told}", err=True)


@trace_app.command(
    epilog="Examples: `dally-sim trace make jobs.jsonl --jobs 5000 --gpus 512 --load 0.9`, "
    "`dally-sim trace make --arrivals bursty --like philly.csv --jobs 100 --gpus 64`"
)
def make(
    out: Annotated[
        Path | None, typer.Argument(dir_okay=False, help="The file to write; else stdout.")
    ] = None,
    arrivals: Annotated[Arrivals, typer.Option(help="How jobs arrive.")] = Arrivals.POISSON,
    like: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Trace to fit demands and run times to; else Philly."
        ),
    ] = None,
    *,
    jobs: Annotated[int, typer.Option(min=1, help="Number of jobs.")] = 1000,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the cluster the load is for.")] = 512,
    load: Annotated[float, typer.Option(help="GPU time asked for over GPU time there is.")] = 0.8,
    seed: Annotated[int, typer.Option(help="The one number behind all chance.")] = 0,
) -> None:
    """Write a synthetic workload, drawn from a seed, as JSON lines."""
    with told_as_errors():
        mix = PHILLY_MIX
        if like is not None:
            mix = fitted_to(read_trace(like).jobs, source=like.name)
        drawn = drawn_jobs(mix, arrivals, jobs=jobs, gpus=gpus, load=load, seed=seed)
        text = "".join(json_lines.written(job) + "\n" for job in drawn)
        if out is None:
            typer.echo(text, nl=False)
        else:
            out.write_text(text, encoding="utf-8")
    typer.echo(f"{jobs} jobs like {mix.source}, load {load_of(drawn, gpus=gpus):.3f}", err=True)


def _write_whole(out: Path, lines: Iterable[str]) -> int:
    """Write all lines or none, whatever was there before; returns how many."""
    # A link, such as /dev/stdout, and what is no file must stay what they are.
    is_plain = not out.is_symlink() and (out.is_file() or not out.exists())
    part = out.with_name(f".{out.name}.part") if is_plain else out
    kept = 0
    try:
        with part.open("w", encoding="utf-8") as file:
            for line in lines:
                file.write(line + "\n")
                kept += 1
        if part != out:
            part.replace(out)
    finally:
        if part != out:
            part.unlink(missing_ok=True)
    return kept


def _lines(parsed: Iterable[Parsed], dropped: dict[str, int]) -> Iterator[str]:
    for each in parsed:
        match each:
            case Dropped():
                dropped[each.reason] = dropped.get(each.reason, 0) + 1
            case Changed():
                yield json_lines.written(each.job)
            case TraceJob():
                yield json_lines.written(each)


def _with_a_job(parsed: Iterator[Parsed], path: Path) -> Iterator[Parsed]:
    """The same rows, after making sure that one of them is a job."""
    before: list[Parsed] = []
    for each in parsed:
        before.append(each)
        if not isinstance(each, Dropped):
            return chain(before, parsed)
    raise TraceError(path.name, 0, f"has no job ({len(before)} rows dropped)")


def _as_object(summary: TraceSummary, format: TraceFormat, gpus: int | None) -> dict[str, object]:
    facts = asdict(summary)
    facts["format"] = format.name
    facts["load"] = summary.load_on(gpus) if gpus else None
    return facts


def _show(summary: TraceSummary, format: TraceFormat, gpus: int | None) -> None:
    console = Console()
    facts = Table(show_header=False, box=None)
    for name, value in _facts(summary, format, gpus):
        facts.add_row(name, value)
    console.print(facts)
    demands = Table("GPUs", "jobs", "share", "GPU-hours", "median run time s", box=None)
    for demand in summary.demands:
        demands.add_row(
            str(demand.gpus),
            f"{demand.jobs:,}",
            f"{demand.jobs / summary.jobs:.1%}",
            f"{demand.gpu_hours:,.0f}",
            f"{demand.duration_p50_s:,.0f}",
        )
    console.print(demands)


def _facts(
    summary: TraceSummary, format: TraceFormat, gpus: int | None
) -> Iterator[tuple[str, str]]:
    yield "format", f"{format.name} ({format.about})"
    yield "jobs", f"{summary.jobs:,}"
    yield "dropped", _counted(summary.dropped)
    yield "changed", _counted(summary.changed)
    yield "span", f"{summary.span_days:.1f} days"
    yield "GPU-hours", f"{summary.gpu_hours:,.0f}"
    yield "busy GPUs", f"{summary.busy_gpus_mean:,.0f} mean, {summary.busy_gpus_peak:,} peak"
    if gpus:
        yield f"load on {gpus:,} GPUs", f"{summary.load_on(gpus):.3f}"
    quantiles = ", ".join(
        f"p{round(q * 100)} {value:,.0f}" for q, value in summary.duration_quantiles_s.items()
    )
    yield "run time s", f"mean {summary.duration_mean_s:,.0f}, {quantiles}"
    yield "longest s", f"{summary.duration_max_s:,.0f}"
    yield "gaps", f"variation {summary.gap_cv:.2f} (1 is Poisson)"
    yield "names", f"{summary.users} users, {summary.queues} queues, {summary.models} models"
    yield "ended", _counted(summary.statuses)


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items()) or "none"
