"""`dally-sim explain`: the life of one job of a run."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from scheduler.domain.instants import SECOND
from simulator.commands.failing import told_as_errors
from simulator.commands.showing import console
from simulator.outcome import JobOutcome
from simulator.run_folder import StoredRun, read_run


def explain(
    run: Annotated[
        Path, typer.Argument(exists=True, file_okay=False, help="Folder of `dally-sim run --out`.")
    ],
    job: Annotated[str, typer.Argument(help="Name of the job: the run's, or the trace's own.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """Tell the life of one job: offers declined, timers, tiers, step times, preemptions."""
    with told_as_errors():
        stored = read_run(run)
        found = stored.job(job)
        events = list(stored.events(found.name))
    if as_json:
        for event in events:
            typer.echo(json.dumps(event))
        return
    shown = console()
    facts = Table(show_header=False, box=None)
    for name, value in _facts(found, stored):
        facts.add_row(name, value)
    shown.print(facts)
    table = Table("after s", "what", "how", box=None)
    for event in events:
        since_s = float(str(event["at_s"])) - found.arrival / SECOND
        table.add_row(f"{since_s:,.0f}", str(event["event"]), str(event["message"]))
    shown.print(table)


def _facts(job: JobOutcome, run: StoredRun) -> Iterator[tuple[str, str]]:
    yield "job", job.name + (f" ({job.recorded_as} in the trace)" if job.recorded_as else "")
    yield "policy", run.policy
    yield "GPUs", f"{job.gpus}"
    if job.model:
        yield "profile", f"{job.model}, drawn by the seed unless the trace names it"
    yield "completion", f"{job.jct / SECOND:,.0f} s; alone at its closest tier {_s(job.ideal)}"
    yield "waited", f"{_s(job.wait)} for its first GPUs, {_s(job.queueing)} in all"
    yield "held GPUs", ", ".join(f"{_s(held)} at {tier}" for tier, held in job.held_by_tier.items())
    yield "exposed communication", _s(job.exposed)
    yield "lost work", _s(job.lost)
    moves = f"{job.preemptions} preemptions, {job.upgrades} upgrades, {job.failures} lost nodes"
    yield "stopped", moves


def _s(duration: int) -> str:
    return f"{duration / SECOND:,.0f} s"
