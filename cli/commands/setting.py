"""`set policy`: change the policy's knobs while the service runs."""

from collections.abc import Sequence

import click
from pydantic import JsonValue

from api.policy.assignments import AssignmentError, assigned
from api.policy.schemas import PolicyView
from cli import output
from cli.client import Client, Parameters
from cli.command import DallyGroup, Session, command
from cli.root import dally

PATH = "/api/v1/policy"


set_group = DallyGroup("set", help="Change what the service goes by while it runs.")
dally.add_command(set_group)


@command(
    set_group,
    "policy",
    examples=(
        "dally set policy waitMax=12h timerQuantile=0.9",
        "dally set policy --queue default preemption=off --reason 'paper deadline'",
        "dally set policy --reset waitMax --reset timerQuantile",
        "dally set policy policy=dally clock=idle --dry-run",
    ),
)
@click.argument("assignments", metavar="KNOB=VALUE ...", nargs=-1)
@click.option("-q", "--queue", help="Set them in this queue alone.")
@click.option("--reset", "resets", multiple=True, help="Leave a knob to dallyd.yaml again.")
@click.option("--reason", default="", help="Told in the event.")
@click.option("--dry-run", is_flag=True, help="Show what would hold, and change nothing.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["json", "yaml"]),
    help="The policy after it, instead of what has changed.",
)
def set_policy(
    session: Session,
    *,
    assignments: tuple[str, ...],
    queue: str | None,
    resets: tuple[str, ...],
    reason: str,
    dry_run: bool,
    form: str | None,
) -> None:
    """Set knobs of the policy, for the cluster or one queue; they hold from the next cycle on."""
    knobs = _asked_for(assignments, resets)
    parameters: Parameters = {"queue": queue, "dryRun": "All" if dry_run else None}
    with session.connect() as client:
        before = _values(client, queue)
        answer = client.send(
            "PATCH", PATH, parameters=parameters, body={"knobs": knobs, "reason": reason}
        )
    match form:
        case "json":
            output.as_json(answer)
        case "yaml":
            output.as_yaml(answer)
        case _:
            _tell(before, PolicyView.model_validate(answer), is_dry=dry_run)


def _asked_for(assignments: Sequence[str], resets: Sequence[str]) -> dict[str, JsonValue]:
    try:
        knobs = assigned(assignments)
    except AssignmentError as error:
        raise click.UsageError(str(error)) from error
    for name in resets:
        if name in knobs:
            raise click.UsageError(f"{name!r} is named twice; which is meant?")
        knobs[name] = None
    if not knobs:
        raise click.UsageError("name a knob: KNOB=VALUE, or --reset KNOB")
    return knobs


def _values(client: Client, queue: str | None) -> dict[str, JsonValue]:
    shown = PolicyView.model_validate(client.get(PATH, {"queue": queue}))
    return {knob.name: knob.value for knob in shown.items}


def _tell(before: dict[str, JsonValue], after: PolicyView, *, is_dry: bool) -> None:
    moved = [knob for knob in after.items if knob.value != before[knob.name]]
    where = f" in queue {after.queue}" if after.queue else ""
    for knob in moved:
        now, former = output.cell(knob.value), output.cell(before[knob.name])
        output.line(f"{knob.name} is {now} (was {former}){where}")
    if not moved:
        output.line(f"policy unchanged{where}")
    if is_dry:
        output.note("dry run: nothing was written")
