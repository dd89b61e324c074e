"""`apply` and `run`: what makes jobs (and, from files, model profiles)."""

import secrets
from dataclasses import dataclass

import click
from pydantic import JsonValue

from api.jobs.schemas import JobObject, WhyView
from api.nodes.schemas import NodeList
from cli import output
from cli.client import Client, Document, JsonObject, is_segment
from cli.command import Session, command, program_behind_dashes
from cli.commands.profiles import FILE_KIND, apply_profile
from cli.documents import read_documents
from cli.failures import CommandError, ExitCode, NotPlacedError, ServerError
from cli.following import (
    LogChoice,
    changes,
    exit_code_of,
    follow_or_detach,
    own_exit_code,
    say_end,
)
from cli.root import dally
from cli.times import span_s

CREATED = 201
GPUS_MAX = 1_000_000
"""Of one gang: more than any cluster has, and few enough to try every way to split them."""
PLACED_PHASES = ("Starting", "Running", "Stopping", "Succeeded", "Failed")

dry_run_option = click.option(
    "--dry-run",
    type=click.Choice(["none", "client", "server"]),
    default="none",
    help="client: show what would be sent; server: check everything, store nothing.",
)
form_option = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["json", "yaml", "name"]),
    help="Form of the answer.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Aftermath:
    """What to do once a job is accepted."""

    follow: bool = False
    wait: bool = False
    placed_within_s: float | None = None


@command(
    dally,
    "apply",
    examples=(
        "dally apply -f job.yaml",
        "dally apply -f job.yaml --dry-run=server",
        "cat job.yaml | dally apply -f -",
    ),
)
@click.option("-f", "--filename", "files", multiple=True, required=True, metavar="FILE|DIR|-")
@dry_run_option
@form_option
@click.option("--follow", is_flag=True, help="Stream the log of rank 0 until the job ends.")
@click.option("--wait", is_flag=True, help="Wait until the job ends.")
@click.option("--wait-placed", metavar="TIME", help="Wait so long for a placement, else exit 2.")
@click.option("--error-unchanged", is_flag=True, help="Exit 3 when nothing changed.")
def apply(
    session: Session,
    *,
    files: tuple[str, ...],
    dry_run: str,
    form: str | None,
    follow: bool,
    wait: bool,
    wait_placed: str | None,
    error_unchanged: bool,
) -> None:
    """Submit the jobs of files, directories or stdin; an equal job that exists is left alone.

    Model profiles (kind: Profile) are made, or replaced.
    """
    after = Aftermath(
        follow=follow, wait=wait, placed_within_s=span_s(wait_placed) if wait_placed else None
    )
    documents = list(read_documents(files))
    if dry_run == "client":
        for document in documents:
            kind = (document.kind or "Job").lower()
            output.line(
                f"{kind}/{document.name or '?'} would be sent from {document.source} (dry run)"
            )
        return
    with session.connect() as client:
        outcomes = [_apply_one(client, d, form=form, is_dry=dry_run == "server") for d in documents]
        accepted = [outcome.job for outcome in outcomes if outcome.job and dry_run == "none"]
        codes = [outcome.code for outcome in outcomes if not outcome.job]
        codes += [_finish(client, job, after) for job in accepted]
    if any(codes):
        raise SystemExit(max(codes))
    if error_unchanged and all(outcome.is_unchanged for outcome in outcomes):
        raise SystemExit(ExitCode.UNCHANGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Outcome:
    """What became of one document."""

    job: JobObject | None = None
    """None where it was refused."""
    is_unchanged: bool = False
    code: int = ExitCode.OK


def _apply_one(client: Client, document: Document, *, form: str | None, is_dry: bool) -> _Outcome:
    """Send a document; that it is refused does not keep the others from being sent."""
    try:
        if document.kind == FILE_KIND:
            apply_profile(client, document, form=form, is_dry=is_dry)
            return _Outcome()
        status, answer = _put(client, document, is_dry=is_dry)
    except ServerError as error:
        output.failure(error, source=document.source)
        return _Outcome(code=error.exit_code)
    job = JobObject.model_validate(answer)
    verb = "created" if status == CREATED else "unchanged"
    _tell(job, answer, form, verb=f"{verb} (server dry run)" if is_dry else verb)
    return _Outcome(job=job, is_unchanged=status != CREATED)


def _put(client: Client, document: Document, *, is_dry: bool) -> tuple[int, JsonObject]:
    project = document.project or None
    parameters = {"dryRun": "All" if is_dry else None}
    if not is_segment(document.name):
        # The server says what is wrong with it, and where.
        return client.exchange(
            "POST", client.jobs_path(project), document=document, parameters=parameters
        )
    path = client.job_path(document.name, project=project)
    return client.exchange("PUT", path, document=document, parameters=parameters)


def _tell(job: JobObject, answer: JsonObject, form: str | None, *, verb: str) -> None:
    match form:
        case "json":
            output.as_json(answer)
        case "yaml":
            output.as_yaml(answer)
        case "name":
            output.line(f"job/{job.metadata.name}")
        case _:
            output.line(f"job/{job.metadata.name} {verb}")


def _finish(client: Client, job: JobObject, after: Aftermath) -> int:
    name = job.metadata.name
    if after.placed_within_s is not None:
        _wait_placed(client, name, after.placed_within_s)
    if after.follow:
        job = follow_or_detach(client, name, LogChoice())
    elif after.wait:
        for changed in changes(client, name):
            job = changed
    else:
        return ExitCode.OK
    say_end(job)
    return exit_code_of(job)


def _wait_placed(client: Client, name: str, timeout_s: float) -> None:
    for job in changes(client, name, timeout_s=timeout_s):
        if job.status.phase in PLACED_PHASES:
            return
    why = WhyView.model_validate(client.get(client.job_path(name, "why")))
    raise NotPlacedError(
        f"{name} is not placed yet: {why.summary}", reason=why.verdict, way_out=f"dally why {name}"
    )


@command(
    dally,
    "run",
    examples=(
        "dally run hello --gpus-per-worker 0 -- echo hello",
        "dally run two --workers 2 --gpus-per-worker 1 -d -- python -c 'print(1)'",
        "dally run big --gpus 16 --dry-run=client -o yaml -- torchrun train.py",
    ),
    takes_program=True,
)
@click.argument("name", required=False)
@click.option("--workers", type=click.IntRange(min=1), help="Size of the gang.")
@click.option("--gpus-per-worker", type=click.IntRange(min=0), help="GPUs of each worker.")
@click.option(
    "--gpus", type=click.IntRange(1, GPUS_MAX), help="GPUs in all, split over the fewest nodes."
)
@click.option("--image", help="Container image.")
@click.option("-q", "--queue", help="Queue to wait in.")
@click.option("--priority", help="Priority class.")
@click.option("--time", "time_max", metavar="TIME", help="Longest run, e.g. 2h.")
@click.option("--env", "variables", multiple=True, metavar="NAME=VALUE", help="May be repeated.")
@click.option("--launcher", type=click.Choice(["plain", "torchrun", "mpi", "tf", "jax"]))
@click.option("-d", "--detach", is_flag=True, help="Do not stream the log.")
@click.option("--rm", "is_temporary", is_flag=True, help="Delete the job once it has succeeded.")
@click.option("--exit-code-from-job", is_flag=True, help="Exit as the job's worst worker did.")
@dry_run_option
@form_option
def run(
    session: Session, *, name: str | None, detach: bool, dry_run: str, **choices: object
) -> None:
    """Make a job from flags and stream the log of its rank 0; Ctrl-C leaves the job alone."""
    program = program_behind_dashes()
    if not program:
        raise click.UsageError(
            "the program comes last, behind --: dally run [FLAGS] -- PROGRAM ARGS"
        )
    form = choices.pop("form")
    is_temporary = bool(choices.pop("is_temporary"))
    takes_code = bool(choices.pop("exit_code_from_job"))
    with session.connect() as client:
        spec = _spec(client, program, choices)
        file: JsonObject = {
            "apiVersion": "dally/v1",
            "kind": "Job",
            "metadata": {"name": name or f"run-{secrets.token_hex(3)}"},
            "spec": spec,
        }
        if dry_run == "client":
            output.as_json(file) if form == "json" else output.as_yaml(file)
            return
        answer = client.send(
            "POST",
            client.jobs_path(),
            body=file,
            parameters={"dryRun": "All" if dry_run == "server" else None},
            headers={"Idempotency-Key": secrets.token_hex(16)},
        )
        job = JobObject.model_validate(answer)
        verb = "created (server dry run)" if dry_run == "server" else "created"
        _tell(job, answer, str(form) if form else None, verb=verb)
        if detach or dry_run == "server":
            return
        job = follow_or_detach(client, job.metadata.name, LogChoice())
        say_end(job)
        code = own_exit_code(client, job) if takes_code else exit_code_of(job)
        if is_temporary and job.status.phase == "Succeeded":
            client.send("DELETE", client.job_path(job.metadata.name))
        raise SystemExit(code)


def _spec(client: Client, program: tuple[str, ...], choices: dict[str, object]) -> JsonObject:
    workers, per_worker = _size(client, choices)
    spec: dict[str, JsonValue] = {
        "workers": workers,
        "gpusPerWorker": per_worker,
        "command": list(program),
    }
    for name in ("image", "queue", "priority", "launcher"):
        value = choices[name]
        if value is not None:
            spec[name] = str(value)
    if choices["time_max"]:
        spec["duration"] = {"maxRuntime": str(choices["time_max"])}
    variables = choices["variables"]
    assert isinstance(variables, tuple)
    if variables:
        spec["env"] = dict(_variable(str(text)) for text in variables)
    return spec


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--env wants NAME=VALUE, not {text!r}")
    return name, value


def _size(client: Client, choices: dict[str, object]) -> tuple[int, int]:
    gpus, workers, per_worker = (choices[n] for n in ("gpus", "workers", "gpus_per_worker"))
    if gpus is None:
        return _whole(workers, 1), _whole(per_worker, 1)
    if per_worker is not None:
        raise click.UsageError(
            "--gpus is the whole gang's number: give it without --gpus-per-worker"
        )
    total = _whole(gpus, 1)
    if workers is not None:
        each, rest = divmod(total, _whole(workers, 1))
        if rest:
            raise click.UsageError(f"--gpus {total} can't be split evenly over {workers} workers")
        return _whole(workers, 1), each
    return _split_over_fewest_nodes(client, total)


def _whole(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


def _split_over_fewest_nodes(client: Client, gpus: int) -> tuple[int, int]:
    nodes = NodeList.model_validate(client.get("/api/v1/nodes")).items
    most = max((node.gpus for node in nodes), default=0)
    if not most:
        raise CommandError(
            "the server knows no node with GPUs, so --gpus can't be split",
            reason="NoGpus",
            way_out="dally run --workers N --gpus-per-worker G -- PROGRAM",
        )
    fewest = -(-gpus // most)
    workers = next(w for w in range(fewest, gpus + 1) if gpus % w == 0)
    return workers, gpus // workers
