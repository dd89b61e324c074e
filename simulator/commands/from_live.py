"""`dally-sim from-live`: what a live cluster will do next, as it is or otherwise."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from scheduler.domain.codec import DecodeError, from_json
from scheduler.domain.forecast import Prediction, WhatIf
from scheduler.domain.instants import SECOND, Instant
from scheduler.domain.snapshot import Snapshot
from scheduler.knob_settings import knob_fields
from simulator.commands import options as opts
from simulator.commands.failing import told_as_errors
from simulator.commands.showing import console
from simulator.errors import OptionError
from simulator.forecasting import forecast
from simulator.staging import check_policy

NOTHING_STARTS_IT = "nothing will start it"


def from_live(
    snapshot: Annotated[
        Path,
        typer.Argument(
            exists=True, dir_okay=False, help="What `dallyd admin snapshot` has written."
        ),
    ],
    *,
    policy: Annotated[str, typer.Option(help="Another policy than the one that runs.")] = "",
    settings: opts.Settings = None,
    more_nodes: Annotated[
        int, typer.Option(min=0, help="So many nodes more, each like the last one.")
    ] = 0,
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object a line for each job.")
    ] = False,
) -> None:
    """Predict starts and ends of the jobs of a live cluster, also under another policy, with
    other knobs or more nodes. As good as what is known of how long jobs run."""
    with told_as_errors():
        if policy:
            check_policy(policy)
        state = _read(snapshot)
        if more_nodes and not state.nodes:
            raise OptionError("--more-nodes", "the cluster has no node that they could be like")
        said = opts.knobs_of(settings or ())
        _tell_overruled(state, said)
        knobs = replace(state.knobs, **said)  # type: ignore[arg-type]  # read by name
        what_if = WhatIf(knobs=knobs, policy=policy, nodes_more=more_nodes)
        predictions = forecast(state, what_if=what_if)
    if as_json:
        for prediction in predictions:
            typer.echo(json.dumps(_facts(prediction, state.now)))
        return
    table = Table("job", "GPUs", "starts in s", "ends in s", "taken to need s", "from", box=None)
    for prediction in predictions:
        starts = _in_s(prediction.starts_at, state.now)
        ends = _in_s(prediction.ends_at, state.now)
        table.add_row(
            prediction.name,
            f"{prediction.gpus}",
            "runs" if prediction.is_running else _words(starts),
            _words(ends),
            f"{prediction.remaining / SECOND:,.0f}",
            str(prediction.length_from),
        )
    console().print(table)


def _tell_overruled(state: Snapshot, said: Mapping[str, object]) -> None:
    """A queue's own knob stays: whoever sets one for the cluster should know."""
    for name, queue in sorted(state.queues.items()):
        kept = said.keys() & {*queue.knobs.seeded, *queue.knobs.changed}
        own = [written for written, field in knob_fields().items() if field in kept]
        if own:
            typer.echo(f"note: queue {name} keeps its own {', '.join(own)}", err=True)


def _read(path: Path) -> Snapshot:
    try:
        return from_json(Snapshot, path.read_text(encoding="utf-8"))
    except (DecodeError, UnicodeDecodeError) as error:
        raise OptionError("SNAPSHOT", f"{path.name} is no snapshot: {error}") from error


def _facts(prediction: Prediction, now: Instant) -> Mapping[str, object]:
    return {
        "job": prediction.name,
        "id": prediction.job_id,
        "gpus": prediction.gpus,
        "is_running": prediction.is_running,
        "starts_in_s": _in_s(prediction.starts_at, now),
        "ends_in_s": _in_s(prediction.ends_at, now),
        "remaining_s": prediction.remaining / SECOND,
        "length_from": prediction.length_from,
    }


def _in_s(at: Instant | None, now: Instant) -> float | None:
    return None if at is None else (at - now) / SECOND


def _words(seconds: float | None) -> str:
    return NOTHING_STARTS_IT if seconds is None else f"{seconds:,.0f}"
