"""`create profile`, and how `apply` and `delete` treat the profiles of a project."""

import click

from api.profiles.schemas import ProfileView
from cli import output
from cli.client import Client, Document, JsonObject
from cli.command import Session, command
from cli.failures import CommandError
from cli.kinds import PROFILE, kind_named
from cli.root import dally

CREATED = 201
FILE_KIND = "Profile"


@command(
    dally,
    "create",
    examples=(
        "dally create profile our-net --from-job train-7",
        "dally create profile our-net --from-job train-7 -o yaml",
    ),
)
@click.argument("kind")
@click.argument("name")
@click.option("--from-job", required=True, metavar="JOB", help="A job that has ended.")
@click.option("-o", "--output", "form", type=click.Choice(["json", "yaml", "name"]))
def create(session: Session, *, kind: str, name: str, from_job: str, form: str | None) -> None:
    """Make a model profile from the measured steps of a job that has ended."""
    if kind_named(kind) is not PROFILE:
        raise CommandError(
            f"create makes profiles, not {kind}",
            reason="NotCreatable",
            way_out="dally apply -f FILE, or dally run",
        )
    file: JsonObject = {
        "apiVersion": "dally/v1",
        "kind": FILE_KIND,
        "metadata": {"name": name},
        "spec": {"fromJob": from_job},
    }
    with session.connect() as client:
        answer = client.send("PUT", client.profiles_path(name), body=file)
        tell_profile(answer, form, verb="saved")


def apply_profile(client: Client, document: Document, *, form: str | None, is_dry: bool) -> None:
    """Make or replace the profile of a document."""
    path = client.profiles_path(document.name or "unnamed", project=document.project or None)
    parameters = {"dryRun": "All" if is_dry else None}
    status, answer = client.exchange("PUT", path, document=document, parameters=parameters)
    verb = "created" if status == CREATED else "saved"
    tell_profile(answer, form, verb=f"{verb} (server dry run)" if is_dry else verb)


def tell_profile(answer: JsonObject, form: str | None, *, verb: str) -> None:
    """What became of a profile."""
    match form:
        case "json":
            output.as_json(answer)
        case "yaml":
            output.as_yaml(answer)
        case _:
            name = ProfileView.model_validate(answer).name
            output.line(f"profile/{name}" if form == "name" else f"profile/{name} {verb}")
