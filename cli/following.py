"""Following a job: its logs as they are written, its phases as they change, until it ends."""

from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from api.jobs.schemas import TERMINAL_PHASES, AttemptList, JobObject, WhyView
from cli import output
from cli.client import Client
from cli.failures import CommandError, ExitCode, ServerError, UnreachableError
from cli.times import pause, ticks_s

POLL_S = 0.25
UNREACHABLE_PATIENCE_S = 60.0
"""How long a follower bears a server that does not answer, e.g. while it is restarted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogChoice:
    """Which part of which logs."""

    rank: int = 0
    attempt: int | None = None
    tail: int | None = None
    since_s: float | None = None
    is_stamped: bool = False
    is_raw: bool = False

    def parameters(
        self, *, attempt: int | None, follow: bool
    ) -> dict[str, str | int | bool | None]:
        """As the server's query."""
        return {
            "rank": self.rank,
            "attempt": attempt if self.attempt is None else self.attempt,
            "tail": self.tail,
            "sinceSeconds": None if self.since_s is None else f"{self.since_s:g}",
            "timestamps": self.is_stamped or None,
            "follow": follow or None,
        }


def job_now(client: Client, name: str) -> JobObject:
    """The job as it is now."""
    return JobObject.model_validate(client.get(client.job_path(name)))


def is_ended(job: JobObject) -> bool:
    """Whether the job is in a terminal phase."""
    return job.status.phase in TERMINAL_PHASES


class Patience:
    """Bears a server that is away for a while, e.g. restarted, once it has answered."""

    def __init__(self) -> None:
        self._has_answered = False
        self._ends_s: float | None = None

    def answered(self) -> None:
        """It is there."""
        self._has_answered, self._ends_s = True, None

    def bear(self, error: CommandError) -> None:
        """Raises the error if it says anything else, or the time is over."""
        is_away = isinstance(error, UnreachableError) or (
            isinstance(error, ServerError)
            and error.problem.status == HTTPStatus.SERVICE_UNAVAILABLE
        )
        self._ends_s = self._ends_s or ticks_s() + UNREACHABLE_PATIENCE_S
        if not is_away or not self._has_answered or ticks_s() > self._ends_s:
            raise error


def changes(
    client: Client, name: str, *, timeout_s: float | None = None, is_past_end: bool = False
) -> Iterator[JobObject]:
    """The job at once and after each change of it, until it is terminal or the time is over.

    With `is_past_end` the terminal phase is no end: the iteration goes on until the job is gone.
    A server that does not answer is waited for once it has answered before. Yields at least once,
    or raises UnreachableError.
    """
    deadline = None if timeout_s is None else ticks_s() + timeout_s
    version, patience = "", Patience()
    while True:
        try:
            job = job_now(client, name)
        except CommandError as error:
            patience.bear(error)
        else:
            patience.answered()
            if job.metadata.resource_version != version:
                version = job.metadata.resource_version
                yield job
            if is_ended(job) and not is_past_end:
                return
        if deadline is not None and ticks_s() >= deadline:
            return
        pause(POLL_S)


def follow(client: Client, name: str, choice: LogChoice) -> JobObject:
    """Stream the log of one rank, attempt after attempt, until the job ends; the job at its end."""
    shown: int | None = None
    said, patience = "", Patience()
    while True:
        try:
            job = job_now(client, name)
            answer = client.get(client.job_path(name, "attempts"))
        except CommandError as error:
            patience.bear(error)
            pause(POLL_S)
            continue
        patience.answered()
        attempts = AttemptList.model_validate(answer).items
        started = [
            a.number for a in attempts if a.running_since or a.end_time or a.phase == "Released"
        ]
        fresh = [number for number in started if shown is None or number > shown]
        if fresh:
            if shown is not None:
                output.note(f"attempt {fresh[0]} of {name}:")
            shown = fresh[0] if shown is not None else started[-1]
            stream_log(client, name, choice, attempt=shown)
        elif is_ended(job):
            return job
        else:
            said = _say_why(client, name, said)
            pause(POLL_S)


def stream_log(client: Client, name: str, choice: LogChoice, *, attempt: int | None) -> None:
    """Print one log until it ends; lines come out whole, so that they can't mix."""
    print_log(followed(client, name, choice, attempt=attempt), is_raw=choice.is_raw)


def followed(
    client: Client, name: str, choice: LogChoice, *, attempt: int | None
) -> Iterator[bytes]:
    """One log as it is written, until it ends; goes on where it was when the server is back."""
    path, parameters = (
        client.job_path(name, "logs"),
        choice.parameters(attempt=attempt, follow=True),
    )
    # A log from its beginning is read again and what is known passed over; of a part of it nobody
    # knows where that begins, so only what is new is asked for.
    is_whole = choice.tail is None and choice.since_s is None
    seen, has_gap, patience = 0, False, Patience()
    while True:
        try:
            with client.stream(path, parameters) as chunks:
                patience.answered()
                if has_gap:
                    output.note("the server was away: lines written meanwhile are left out")
                    has_gap = False
                passed = 0
                for chunk in chunks:
                    fresh = chunk[max(0, seen - passed) :] if is_whole else chunk
                    passed += len(chunk)
                    seen = max(seen, passed)
                    if fresh:
                        yield fresh
                return
        except CommandError as error:
            patience.bear(error)
        pause(POLL_S)
        if not is_whole:
            has_gap = True
            parameters = {**parameters, "tail": 0, "sinceSeconds": None}


def print_log(chunks: Iterator[bytes], *, is_raw: bool, prefix: str = "") -> None:
    """Print log bytes, each line with the prefix."""
    if is_raw:
        for chunk in chunks:
            output.raw_bytes(chunk)
        return
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for text in lines:
            output.raw_log(f"{prefix}{text.decode(errors='replace')}\n")
    if rest:
        output.raw_log(f"{prefix}{rest.decode(errors='replace')}\n")


def _say_why(client: Client, name: str, said: str) -> str:
    try:
        answer = WhyView.model_validate(client.get(client.job_path(name, "why")))
    except UnreachableError:
        return said
    if answer.summary != said and answer.verdict != "NotYetConsidered":
        output.note(f"{name} is {answer.phase}: {answer.summary}")
    return answer.summary


def follow_or_detach(client: Client, name: str, choice: LogChoice) -> JobObject:
    """Follow; on Ctrl-C leave the job alone and say how to come back; the command ends then."""
    try:
        return follow(client, name, choice)
    except KeyboardInterrupt:
        output.note(f"\ndetached: job/{name} goes on")
        output.note(f"  follow it again: dally logs -f {name}")
        output.note(f"  stop it:         dally cancel {name}")
        raise SystemExit(ExitCode.INTERRUPTED) from None


def exit_code_of(job: JobObject) -> int:
    """0 when the job succeeded, else 1."""
    return ExitCode.OK if job.status.phase == "Succeeded" else ExitCode.ERROR


def own_exit_code(client: Client, job: JobObject) -> int:
    """The worst exit code of the last attempt's workers; 1 if the job failed and none is known."""
    attempts = AttemptList.model_validate(
        client.get(client.job_path(job.metadata.name, "attempts"))
    ).items
    codes = [worker.exit_code or 0 for worker in attempts[-1].workers] if attempts else []
    return max(codes, default=0) or exit_code_of(job)


def say_end(job: JobObject) -> None:
    """One line on how the job ended."""
    status = job.status
    why = f" ({status.reason})" if status.reason else ""
    message = f": {status.message}" if status.message else ""
    output.note(f"job/{job.metadata.name} {status.phase}{why}{message}")
