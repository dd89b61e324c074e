"""`cancel`, `delete`, `hold`, `release`, `wait`: what changes or awaits jobs that exist."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import get_args

import click

from api.jobs.schemas import TERMINAL_PHASES, JobList, JobObject, PhaseName
from cli import output
from cli.client import Client, Parameters
from cli.command import Session, command
from cli.failures import CommandError, ServerError
from cli.following import changes, is_ended, own_exit_code
from cli.kinds import JOB, PROFILE, job_name, without_noun
from cli.root import dally
from cli.times import span_s

NOT_FOUND = 404
PAGE = 500
PHASES: tuple[str, ...] = get_args(PhaseName)
LIVE_PHASES = tuple(phase for phase in PHASES if phase not in TERMINAL_PHASES)
CANCELLED = "Cancelled"
ALIASES = {"condition=complete": "phase=succeeded", "condition=failed": "phase=failed"}

names_argument = click.argument("names", nargs=-1)
reason_option = click.option("--reason", default="", help="Told in the job's event.")
selector_option = click.option("-l", "--selector", help="Jobs with these labels instead of names.")
all_option = click.option("--all", "is_all", is_flag=True, help="All live jobs of the project.")
yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


@command(
    dally,
    "cancel",
    examples=("dally cancel resnet50", "dally cancel resnet50 --now", "dally cancel --all --yes"),
)
@names_argument
@click.option("--now", is_flag=True, help="Kill at once instead of granting the grace.")
@reason_option
@click.option("--wait", is_flag=True, help="Wait until the jobs have ended.")
@selector_option
@all_option
@yes_option
def cancel(
    session: Session,
    *,
    names: tuple[str, ...],
    now: bool,
    reason: str,
    wait: bool,
    selector: str | None,
    is_all: bool,
    yes: bool,
) -> None:
    """Stop jobs: SIGTERM, then SIGKILL after their grace. Asking again is harmless."""
    with session.connect() as client:
        chosen = _chosen(client, names, selector=selector, is_all=is_all, is_sure=yes)

        def one(name: str) -> None:
            answer = client.send(
                "POST", client.job_path(name, "cancel"), body={"now": now, "reason": reason}
            )
            output.line(f"job/{name} {_how_cancelled(JobObject.model_validate(answer))}")

        _for_each(chosen, one)
        if wait:
            for name in chosen:
                for _ in changes(client, name):
                    pass


def _how_cancelled(job: JobObject) -> str:
    if not is_ended(job):
        return "cancelling"
    phase = job.status.phase
    return "cancelled" if phase == CANCELLED else f"had ended before: {phase}"


@command(
    dally,
    "delete",
    examples=(
        "dally delete job resnet50",
        "dally delete job/resnet50 --ignore-not-found",
        "dally delete profile our-net",
    ),
)
@names_argument
@click.option("--ignore-not-found", is_flag=True, help="A job that is gone is no error.")
@click.option("--cancel", "is_cancelling", is_flag=True, help="Cancel a live job first, and wait.")
@selector_option
def delete(
    session: Session,
    *,
    names: tuple[str, ...],
    ignore_not_found: bool,
    is_cancelling: bool,
    selector: str | None,
) -> None:
    """Remove ended jobs with all that is kept of them, freeing their names; or own profiles."""
    names = without_noun(JOB, names)
    profiles = _profiles_named(names)
    if profiles:
        _delete_profiles(session, profiles, ignore_not_found=ignore_not_found)
        return
    with session.connect() as client:
        chosen = _chosen(client, names, selector=selector, is_all=False, is_sure=True)

        def one(name: str) -> None:
            with _gone_is_no_error(ignore_not_found):
                if is_cancelling:
                    client.send("POST", client.job_path(name, "cancel"), body={})
                    for _ in changes(client, name):
                        pass
                client.send("DELETE", client.job_path(name))
                output.line(f"job/{name} deleted")

        _for_each(chosen, one)


def _profiles_named(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of profiles, if that is what is named: `profile A B` or `profile/A profile/B`."""
    kinds = (PROFILE.name, PROFILE.plural, PROFILE.short)
    if len(names) > 1 and names[0] in kinds:
        return names[1:]
    parts = [name.partition("/") for name in names]
    return tuple(name for kind, slash, name in parts if slash and kind in kinds)


def _delete_profiles(session: Session, names: tuple[str, ...], *, ignore_not_found: bool) -> None:
    with session.connect() as client:

        def one(name: str) -> None:
            with _gone_is_no_error(ignore_not_found):
                client.send("DELETE", client.profiles_path(name))
                output.line(f"profile/{name} deleted")

        _for_each(list(names), one)


@contextmanager
def _gone_is_no_error(is_ignored: bool) -> Iterator[None]:  # noqa: FBT001 - the flag, as given
    try:
        yield
    except ServerError as error:
        if not (is_ignored and error.problem.status == NOT_FOUND):
            raise


@command(
    dally, "hold", examples=("dally hold resnet50", "dally hold resnet50 --reason 'data is late'")
)
@names_argument
@reason_option
def hold(session: Session, *, names: tuple[str, ...], reason: str) -> None:
    """Keep pending jobs from being considered."""
    _post_all(session, names, "hold", reason, done="held")


@command(dally, "release", examples=("dally release resnet50", "dally release job/resnet50"))
@names_argument
@reason_option
def release(session: Session, *, names: tuple[str, ...], reason: str) -> None:
    """Let held jobs be considered again."""
    _post_all(session, names, "release", reason, done="released")


def _post_all(
    session: Session, names: tuple[str, ...], verb: str, reason: str, *, done: str
) -> None:
    with session.connect() as client:

        def one(name: str) -> None:
            client.send("POST", client.job_path(name, verb), body={"reason": reason})
            output.line(f"job/{name} {done}")

        _for_each(_chosen(client, names, selector=None, is_all=False, is_sure=True), one)


def _for_each(names: list[str], act: Callable[[str], None]) -> None:
    """Act on each; a failure is told and does not keep the others from their turn."""
    worst = 0
    for name in names:
        try:
            act(name)
        except ServerError as error:
            output.failure(error)
            worst = max(worst, error.exit_code)
    if worst:
        raise SystemExit(worst)


def _chosen(
    client: Client, names: tuple[str, ...], *, selector: str | None, is_all: bool, is_sure: bool
) -> list[str]:
    if names:
        return [job_name(name) for name in without_noun(JOB, names)]
    if not selector and not is_all:
        raise click.UsageError("name a job, or choose by -l LABEL=VALUE")
    phases = None if selector else ",".join(LIVE_PHASES)
    found = _names(client, {"labelSelector": selector, "phase": phases, "limit": PAGE})
    if not is_sure and found:
        shown = f"{', '.join(found[:5])}{', ...' if found[5:] else ''}"
        _ask(f"cancel {output.counted(len(found), 'job')} ({shown})?")
    return found


def _names(client: Client, parameters: Parameters) -> list[str]:
    """Names of the jobs of every page of a list."""
    names: list[str] = []
    token: str | None = None
    while True:
        answer = client.get(client.jobs_path(), {**parameters, "continue": token})
        page = JobList.model_validate(answer)
        names += [job.metadata.name for job in page.items]
        token = page.metadata.continue_
        if not token:
            return names


def _ask(question: str) -> None:
    if not sys.stdin.isatty():
        raise CommandError(question, reason="NotConfirmed", way_out="pass --yes")
    click.confirm(question, abort=True)


@command(
    dally,
    "wait",
    examples=(
        "dally wait job/resnet50 --for=phase=Succeeded --timeout=1h",
        "dally wait resnet50 --for=condition=Complete",
    ),
)
@click.argument("name")
@click.option("--for", "goal", default="phase=Succeeded", show_default=True, help="Or: delete.")
@click.option("--timeout", default="30s", show_default=True, help="0s for as long as it takes.")
@click.option("--exit-code-from-job", is_flag=True, help="Exit as the job's worst worker did.")
def wait(session: Session, *, name: str, goal: str, timeout: str, exit_code_from_job: bool) -> None:
    """Wait until a job is in a phase: exit 0 then, 1 when time is over or it ended otherwise."""
    wanted = _wanted_phase(goal)
    limit_s = span_s(timeout) or None
    with session.connect() as client:
        job = _await(client, job_name(name), wanted, limit_s)
        if job is None:
            output.line(f"job/{job_name(name)} deleted")
            return
        is_met = job.status.phase.lower() == wanted
        if exit_code_from_job and is_ended(job):
            raise SystemExit(own_exit_code(client, job))
    if is_met:
        output.line(f"job/{job.metadata.name} {job.status.phase}")
        return
    how = "ended" if is_ended(job) else f"is still, after {timeout},"
    raise CommandError(
        f"job/{job.metadata.name} {how} {job.status.phase}",
        reason="ConditionNotMet",
        way_out=f"dally why {job.metadata.name}",
    )


def _wanted_phase(goal: str) -> str:
    goal = ALIASES.get(goal.lower(), goal.lower())
    kind, _, phase = goal.partition("=")
    if goal == "delete":
        return goal
    if kind != "phase" or not phase:
        raise click.UsageError("--for wants phase=PHASE, condition=Complete or delete")
    if phase not in (name.lower() for name in PHASES):
        raise click.UsageError(f"there is no phase {phase!r}; there are: {', '.join(PHASES)}")
    return phase


def _await(client: Client, name: str, wanted: str, limit_s: float | None) -> JobObject | None:
    """The job when it is in the wanted phase, has ended or time is over; None once deleted."""
    last: JobObject | None = None
    try:
        for job in changes(client, name, timeout_s=limit_s, is_past_end=wanted == "delete"):
            last = job
            if job.status.phase.lower() == wanted:
                return job
    except ServerError as error:
        if wanted == "delete" and error.problem.status == NOT_FOUND:
            return None
        raise
    assert last is not None
    return last
