"""`plan`: when and where a job, or a job file, would start and end."""

from collections.abc import Iterator, Sequence

import click
from pydantic import JsonValue

from api.plans.schemas import Assumed, JobPlan
from cli import output
from cli.client import Client, Parameters
from cli.command import Session, command
from cli.documents import read_documents
from cli.kinds import job_name
from cli.root import dally
from cli.times import brief, to_the_second

NOTHING_STARTS_IT = "nothing will start it"
"""As things are assumed to be; why it does not start now is what `why` tells."""


@command(
    dally,
    "plan",
    examples=(
        "dally plan resnet50",
        "dally plan -f job.yaml --policy las",
        "dally plan resnet50 --set waitMax=2h --set clock=idle --more-nodes 2 -o json",
    ),
)
@click.argument("names", metavar="[JOB ...]", nargs=-1)
@click.option("-f", "--filename", "files", multiple=True, metavar="FILE|DIR|-")
@click.option("--policy", help="Under this policy instead of the one that runs.")
@click.option("--set", "settings", multiple=True, metavar="KNOB=VALUE", help="With a knob so set.")
@click.option(
    "--more-nodes",
    type=click.IntRange(0, 1000),
    default=0,
    help="With so many nodes more, each like the last one.",
)
@click.option("-o", "--output", "form", type=click.Choice(["json", "yaml"]))
def plan(
    session: Session,
    *,
    names: tuple[str, ...],
    files: tuple[str, ...],
    policy: str | None,
    settings: tuple[str, ...],
    more_nodes: int,
    form: str | None,
) -> None:
    """Say when jobs would start and end, and where, as things are or otherwise; files are not
    submitted. As good as what is known of how long jobs run."""
    if not names and not files:
        raise click.UsageError("name a job, or a job file with -f")
    parameters = _parameters(policy, settings, more_nodes)
    with session.connect() as client:
        for number, answer in enumerate(_answers(client, names, files, parameters)):
            if number and form != "json":
                output.line("---" if form == "yaml" else "")
            _tell(answer, form)


def _answers(
    client: Client, names: Sequence[str], files: tuple[str, ...], parameters: Parameters
) -> Iterator[JsonValue]:
    """The plans of the jobs, then of the files, each asked for when it is wanted."""
    for name in names:
        yield client.get(client.job_path(job_name(name), "plan"), parameters)
    path = client.jobs_path().removesuffix("/jobs") + "/plan"
    for document in read_documents(files) if files else ():
        yield client.exchange("POST", path, document=document, parameters=parameters)[1]


def _parameters(policy: str | None, settings: Sequence[str], more_nodes: int) -> Parameters:
    said = list(settings) if policy is None else [f"policy={policy}", *settings]
    for each in said:
        name, equals, value = each.partition("=")
        if not (name and equals and value) or "," in each:
            raise click.UsageError(f"{each!r} is not KNOB=VALUE")
    return {"set": ",".join(said) or None, "moreNodes": more_nodes or None}


def _tell(answer: JsonValue, form: str | None) -> None:
    if form == "json":
        output.as_json(answer)
    elif form == "yaml":
        output.as_yaml(answer)
    else:
        _print(JobPlan.model_validate(answer))


def _print(found: JobPlan) -> None:
    nodes = ", ".join(f"{node.name} ({node.workers})" for node in found.nodes)
    output.fields(
        (
            ("Job", found.name if found.is_submitted else f"{found.name} (not submitted)"),
            ("Queue", found.queue),
            ("Starts", _start(found)),
            ("Ends", to_the_second(found.ends_at)),
            ("Level", found.level),
            ("Nodes (workers)", nodes),
            ("Slowdown", None if found.slowdown is None else f"{found.slowdown:.2f}"),
        )
    )
    _print_assumed(found.assumed)


def _start(found: JobPlan) -> str:
    if found.is_running:
        return "runs"
    if found.starts_at is None or found.wait_seconds is None:
        why = f"; see: dally why {found.name}" if found.is_submitted else ""
        return NOTHING_STARTS_IT + why
    return f"{to_the_second(found.starts_at)} (in {brief(found.wait_seconds)})"


def _print_assumed(assumed: Assumed) -> None:
    source = {
        "iterations": "its declared iterations",
        "past-jobs": "what past jobs of its queue and size took",
        "default": "default: too few jobs of its queue and size have ended",
        "max-runtime": "its maxRuntime",
    }.get(assumed.run_seconds_from, assumed.run_seconds_from)
    changed = ", ".join(f"{name}={output.cell(value)}" for name, value in assumed.knobs.items())
    output.heading("Assumed")
    output.fields(
        (
            ("As of", to_the_second(assumed.at)),
            ("Policy", assumed.policy),
            ("Set", changed),
            ("More nodes", assumed.more_nodes or None),
            ("Others", f"{assumed.jobs_running} run, {assumed.jobs_waiting} wait"),
            ("Run time", f"{brief(assumed.run_seconds)} by {source}"),
        ),
        indent=2,
    )
    for note in assumed.notes:
        output.line(f"  - {note}")
