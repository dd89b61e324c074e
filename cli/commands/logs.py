"""`logs`: what workers wrote."""

import queue
import threading
from dataclasses import dataclass, replace

import click

from api.jobs.schemas import AttemptList, AttemptView, JobObject
from cli import output
from cli.client import Client
from cli.command import Session, command
from cli.failures import CommandError
from cli.following import (
    LogChoice,
    follow_or_detach,
    followed,
    is_ended,
    job_now,
    own_exit_code,
    print_log,
    say_end,
    stream_log,
)
from cli.kinds import job_name
from cli.root import dally
from cli.times import span_s

RANKS_MAX = 64
"""Most logs that are read at once."""


@command(
    dally,
    "logs",
    examples=(
        "dally logs resnet50",
        "dally logs -f resnet50 --tail 20",
        "dally logs resnet50 --rank 3 --previous",
        "dally logs resnet50 --all-ranks --since 10m",
    ),
)
@click.argument("name")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job ends.")
@click.option("--tail", type=click.IntRange(min=0), help="Only the last so many lines.")
@click.option("--since", help="Only lines written within this time, e.g. 10m.")
@click.option("-t", "--timestamps", is_flag=True, help="Put the time before each line.")
@click.option("--rank", type=click.IntRange(min=0), default=0, show_default=True)
@click.option("--all-ranks", is_flag=True, help="All ranks, each line with its rank before it.")
@click.option("--attempt", type=click.IntRange(min=0), help="Default: the last one.")
@click.option("--previous", is_flag=True, help="The attempt before the last one.")
@click.option("--raw", is_flag=True, help="Exact bytes, terminal escapes included.")
@click.option("--exit-code-from-job", is_flag=True, help="Exit as the job's worst worker did.")
def logs(
    session: Session,
    *,
    name: str,
    follow: bool,
    tail: int | None,
    since: str | None,
    timestamps: bool,
    rank: int,
    all_ranks: bool,
    attempt: int | None,
    previous: bool,
    raw: bool,
    exit_code_from_job: bool,
) -> None:
    """Print the log of rank 0, of another rank, or of all."""
    name = job_name(name)
    choice = LogChoice(
        rank=rank,
        attempt=attempt,
        tail=tail,
        since_s=span_s(since) if since else None,
        is_stamped=timestamps,
        is_raw=raw,
    )
    with session.connect() as client:
        job = job_now(client, name)
        if previous:
            choice = replace(choice, attempt=_previous(job))
        if all_ranks:
            _print_all_ranks(client, job, choice, follow=follow)
        elif follow and choice.attempt is None:
            job = follow_or_detach(client, name, choice)
            say_end(job)
        else:
            _print_one(client, name, choice, follow=follow)
        if exit_code_from_job and is_ended(job):
            raise SystemExit(own_exit_code(client, job))


def _previous(job: JobObject) -> int:
    if job.status.attempts < 2:  # noqa: PLR2004 - the last one and one before it
        raise CommandError(
            f"{job.metadata.name} has no attempt before the last one",
            reason="NoSuchAttempt",
            way_out=f"dally describe job {job.metadata.name}",
        )
    return job.status.attempts - 2


def _print_one(client: Client, name: str, choice: LogChoice, *, follow: bool) -> None:
    if follow:
        stream_log(client, name, choice, attempt=choice.attempt)
        return
    parameters = choice.parameters(attempt=choice.attempt, follow=False)
    with client.stream(client.job_path(name, "logs"), parameters) as chunks:
        print_log(chunks, is_raw=choice.is_raw)


def _print_all_ranks(client: Client, job: JobObject, choice: LogChoice, *, follow: bool) -> None:
    name = job.metadata.name
    chosen = _attempt(client, name, choice)
    ranks = [worker.rank for worker in chosen.workers]
    choice = replace(choice, attempt=chosen.number)
    if follow and len(ranks) > RANKS_MAX:
        raise CommandError(
            f"can't follow {len(ranks)} logs at once, at most {RANKS_MAX}",
            reason="TooManyLogs",
            way_out=f"dally logs -f {name} --rank N",
        )
    if not follow:
        for rank in ranks:
            parameters = replace(choice, rank=rank).parameters(attempt=None, follow=False)
            with client.stream(client.job_path(name, "logs"), parameters) as chunks:
                print_log(chunks, is_raw=False, prefix=f"[{rank}] ")
        return
    _follow_ranks(client, name, ranks, choice)


def _attempt(client: Client, name: str, choice: LogChoice) -> AttemptView:
    attempts = AttemptList.model_validate(client.get(client.job_path(name, "attempts"))).items
    wanted = [a for a in attempts if choice.attempt is None or a.number == choice.attempt]
    if not wanted:
        raise CommandError(
            f"{name} has no such attempt", reason="NoSuchAttempt", way_out=f"dally why {name}"
        )
    return wanted[-1]


@dataclass(frozen=True, slots=True)
class _Piece:
    """Bytes of one rank's log, an error that ended it, or (neither) its end."""

    rank: int
    data: bytes = b""
    error: CommandError | None = None
    is_end: bool = False


def _follow_ranks(client: Client, name: str, ranks: list[int], choice: LogChoice) -> None:
    """Read every rank's log in a thread of its own; print whole lines in the order they come."""
    pieces: queue.SimpleQueue[_Piece] = queue.SimpleQueue()
    for rank in ranks:
        arguments = (client, name, replace(choice, rank=rank), pieces)
        threading.Thread(target=_read_into, args=arguments, daemon=True).start()
    rests = dict.fromkeys(ranks, b"")
    while rests:
        piece = pieces.get()
        if piece.error:
            output.failure(piece.error)
        *lines, rest = (rests[piece.rank] + piece.data).split(b"\n")
        if piece.is_end:
            lines.append(rest)
            del rests[piece.rank]
        else:
            rests[piece.rank] = rest
        for line in lines:
            print_log(iter((line,)), is_raw=False, prefix=f"[{piece.rank}] ")


def _read_into(
    client: Client, name: str, choice: LogChoice, pieces: "queue.SimpleQueue[_Piece]"
) -> None:
    error: CommandError | None = None
    try:
        for chunk in followed(client, name, choice, attempt=None):
            pieces.put(_Piece(choice.rank, chunk))
    except CommandError as caught:
        error = caught
    pieces.put(_Piece(choice.rank, error=error, is_end=True))
