"""`estimate`, and how `describe` shows what distance costs a job and what is known of a model."""

import click
from pydantic import JsonValue

from api.distance.schemas import SensitivityList, SensitivityView
from api.profiles.schemas import ProfileView
from cli import output
from cli.client import Client, Document
from cli.command import Session, command
from cli.documents import read_documents
from cli.root import dally
from cli.times import fine

WHOLE_FROM = 1000
"""From here on three digits do not hold a number."""


@command(
    dally,
    "estimate",
    examples=("dally estimate -f job.yaml", "dally estimate -f job.yaml -o json"),
)
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE|DIR|-")
@click.option("-o", "--output", "form", type=click.Choice(["json", "yaml"]))
def estimate(session: Session, *, files: tuple[str, ...], form: str | None) -> None:
    """Predict a job's step time at every level of the topology, without submitting it."""
    with session.connect() as client:
        for document in read_documents(files):
            answer = _estimated(client, document)
            if form == "json":
                output.as_json(answer)
            elif form == "yaml":
                output.as_yaml(answer)
            else:
                print_sensitivities(SensitivityList.model_validate(answer))


def _estimated(client: Client, document: Document) -> JsonValue:
    path = client.jobs_path().removesuffix("/jobs") + "/estimate"
    return client.exchange("POST", path, document=document)[1]


def describe_sensitivity(client: Client, name: str) -> None:
    """The section of `describe job` about distance."""
    found = SensitivityList.model_validate(client.get(client.job_path(name, "sensitivity")))
    # Where only one level can hold the job, as with a single worker, distance costs it nothing.
    if any(len(item.tiers) > 1 for item in found.items):
        output.heading("Sensitivity to distance")
        print_sensitivities(found)


def print_sensitivities(found: SensitivityList) -> None:
    """A table per GPU model."""
    if not found.items:
        output.note("no node of the cluster has GPUs that the job accepts")
    for item in found.items:
        _print_one(item)


def _print_one(item: SensitivityView) -> None:
    model = item.gpu_model or "GPU model unknown"
    if not item.tiers:
        output.line(f"{model}: the cluster's nodes of this model do not hold the gang")
        return
    wanted = item.bandwidth_wanted
    rate = "all bandwidth there is" if wanted is None else f"{_gigabytes(wanted)} GB/s"
    output.line(
        f"{model}: {fine(item.compute_seconds)} of compute, "
        f"{item.gradient_bytes / 1e6:,.0f} MB of gradients a step ({item.source}); "
        f"content with {rate}"
    )
    rows = [
        (
            tier.level,
            tier.nodes,
            fine(tier.step_seconds),
            fine(tier.predicted_seconds),
            None if tier.measured_seconds is None else fine(tier.measured_seconds),
            f"{100 * tier.exposed_share:.1f}%",
            f"{tier.step_slowdown:.2f}",
            tier.source,
            "yes" if tier.is_worth_waiting_for else "no",
        )
        for tier in item.tiers
    ]
    headers = ("LEVEL", "NODES", "STEP", "PREDICTED", "MEASURED", "EXPOSED", "SLOWDOWN")
    output.table((*headers, "SOURCE", "WAIT"), rows, is_headed=True)


def _gigabytes(rate: float) -> str:
    """Three digits, or all of a large number."""
    gigabytes = rate / 1e9
    return f"{gigabytes:,.0f}" if gigabytes >= WHOLE_FROM else f"{gigabytes:.3g}"


def describe_profile(client: Client, name: str) -> None:
    """All that is known of a model."""
    model = ProfileView.model_validate(client.get(client.profiles_path(name)))
    output.fields(
        (
            ("Name", model.name),
            ("Family", model.family),
            ("Parameters", f"{model.parameters:,}"),
            ("Gradients", f"{model.gradient_bytes / 1e6:,.1f} MB ({model.precision})"),
            ("Strategy", model.strategy),
            ("Layers", model.layers or None),
            ("Hidden", model.hidden or None),
            ("Source", model.source),
            ("Built in", "yes" if model.is_built_in else "no"),
        )
    )
    output.heading("Steps of one GPU")
    rows = [
        (
            t.gpu_model,
            t.precision,
            t.batch_per_gpu,
            t.sequence_tokens or None,
            fine(t.step_seconds),
        )
        for t in model.timings
    ]
    output.table(("GPU", "PRECISION", "BATCH", "TOKENS", "STEP"), rows, is_headed=True)
