"""`describe` and `why`: everything about one object, and why a job is where it is."""

import click
from pydantic import JsonValue

from api.jobs.schemas import AttemptList, AttemptView, JobObject, PlacementView, WhyView
from api.nodes.schemas import NodeView
from cli import output
from cli.client import Client
from cli.command import Session, command
from cli.commands.distance import describe_profile, describe_sensitivity
from cli.failures import CommandError
from cli.kinds import EVENT, JOB, NODE, PROFILE, job_name, kind_named
from cli.root import dally
from cli.times import age, brief, fine, now, parse, to_the_second

EVENTS_MAX = 500
EVENTS_IN_DESCRIBE = 20
UNCOUNTED = frozenset({"Preempted", "Upgraded", "Drained"})
"""Outcomes of attempts that were ended for others, or for nodes: they count against nothing."""
PLACEMENT = "placement"
"""Not a kind of object: `describe` draws it for a job."""


@command(
    dally,
    "describe",
    examples=(
        "dally describe job resnet50",
        "dally describe node r1-n0",
        "dally describe profile bert-large",
        "dally describe placement resnet50",
    ),
)
@click.argument("kind")
@click.argument("name", required=False)
@click.option("--show-events/--no-events", default=True, help="List the last events too.")
def describe(session: Session, *, kind: str, name: str | None, show_events: bool) -> None:
    """Everything about one object, for people."""
    if "/" in kind and name is None:
        kind, _, name = kind.partition("/")
    is_placement = kind.lower() == PLACEMENT
    found = JOB if is_placement else kind_named(kind)
    if name is None:
        raise CommandError("which one?", reason="MissingName", way_out=f"dally get {found.plural}")
    with session.connect() as client:
        if is_placement:
            _describe_placement(client, job_name(name))
        elif found is JOB:
            _describe_job(client, name, show_events=show_events)
        elif found is NODE:
            _describe_node(client, name)
        elif found is PROFILE:
            describe_profile(client, name)
        else:
            raise CommandError(
                f"describe knows jobs, their placements, nodes and profiles, not {found.plural}",
                reason="NotDescribable",
                way_out=f"dally get {found.plural} -o yaml",
            )


def _describe_job(client: Client, name: str, *, show_events: bool) -> None:
    job = JobObject.model_validate(client.get(client.job_path(name)))
    attempts = AttemptList.model_validate(client.get(client.job_path(name, "attempts"))).items
    _describe_general(job, attempts)
    if attempts:
        _describe_attempts(attempts)
        _describe_progress(attempts[-1])
    describe_sensitivity(client, name)
    if show_events:
        page = client.listed(client.job_path(name, "events"), {"limit": EVENTS_MAX})
        _describe_events(page.items)
    output.heading("Why")
    _print_why(WhyView.model_validate(client.get(client.job_path(name, "why"))), indent="  ")


def _describe_general(job: JobObject, attempts: list[AttemptView]) -> None:
    status = job.status
    for_others = sum(attempt.outcome in UNCOUNTED for attempt in attempts)
    labels = ",".join(f"{key}={value}" for key, value in sorted(job.metadata.labels.items()))
    output.fields(
        (
            ("Name", job.metadata.name),
            ("Project", job.metadata.project),
            ("Queue", job.spec.queue),
            ("UID", job.metadata.uid),
            ("Labels", labels),
            ("Phase", f"{status.phase} (for {age(status.phase_since)})"),
            ("Reason", status.reason),
            ("Message", status.message),
            ("Priority", f"{job.spec.priority} ({status.priority})"),
            ("Workers", f"{status.workers}, {output.counted(status.gpus, 'GPU')} in all"),
            ("Launcher", job.spec.launcher),
            ("Command", " ".join(job.spec.command or ())),
            ("Submitted", f"{to_the_second(job.metadata.create_time)} by "
             f"{job.metadata.created_by or 'unknown'}"),
            ("Started", to_the_second(status.start_time)),
            ("Ended", to_the_second(status.end_time)),
            ("Ran", _span(status.start_time, status.end_time)),
            ("Attempts", status.attempts),
            ("Restarts", f"{status.restarts_after_failure} after failures of the program, "
             f"{status.restarts_after_loss} after losses of the cluster, "
             f"{for_others} uncounted (preempted, moved or drained)"),
        )
    )  # fmt: skip


def _span(start: str | None, end: str | None) -> str:
    if not start:
        return ""
    return brief(((parse(end) if end else now()) - parse(start)).total_seconds())


def _describe_attempts(attempts: list[AttemptView]) -> None:
    output.heading("Attempts")
    rows = [
        (
            attempt.number,
            attempt.phase,
            attempt.outcome,
            attempt.tier,
            _span(attempt.running_since, attempt.end_time),
            attempt.message,
        )
        for attempt in attempts
    ]
    output.table(("NUMBER", "PHASE", "OUTCOME", "TIER", "RAN", "MESSAGE"), rows, is_headed=True)
    output.heading(f"Placement of attempt {attempts[-1].number}")
    workers = [
        (worker.rank, worker.role, worker.node, worker.exit_code, worker.outcome)
        for worker in attempts[-1].workers
    ]
    output.table(("RANK", "ROLE", "NODE", "EXIT-CODE", "OUTCOME"), workers, is_headed=True)


def _describe_progress(attempt: AttemptView) -> None:
    progress = attempt.progress
    if progress is None:
        return
    output.heading("Progress")
    counted = output.counted(progress.reports, "report")
    total = f" of {progress.steps_total}" if progress.steps_total else ""
    rate = f", {1 / progress.step_seconds:,.3g} steps/s" if progress.step_seconds else ""
    output.fields(
        (
            ("Step", f"{progress.step}{total}"),
            ("Rate", f"{fine(progress.step_seconds)} a step{rate}"),
            ("Loss", None if progress.loss is None else f"{progress.loss:.4g}"),
            ("Accuracy", None if progress.accuracy is None else f"{progress.accuracy:.4g}"),
            ("Reported", f"{age(progress.report_time)} ago ({counted})"),
        ),
        indent=2,
    )


def _describe_events(items: list[JsonValue]) -> None:
    output.heading("Events")
    rows = [EVENT.row(item) for item in items[-EVENTS_IN_DESCRIBE:]]
    short = [(when, kind, reason, message) for when, kind, reason, _, message, *_ in rows]
    output.table(("AGE", "TYPE", "REASON", "MESSAGE"), short, is_headed=True)


def _describe_placement(client: Client, name: str) -> None:
    placed = PlacementView.model_validate(client.get(client.job_path(name, "placement")))
    output.line(
        f"{placed.job}: attempt {placed.attempt} ({placed.phase}), within {_one(placed.tier)}"
    )
    for text in placed.drawing.splitlines():
        output.line(text)


def _one(level: str) -> str:
    return "the cluster" if level == "cluster" else f"one {level}"


def _left_alone(node: NodeView) -> str | None:
    if not node.left_alone_reason:
        return None
    return f"{node.left_alone_reason}, until {node.left_alone_until} (dally uncordon {node.name})"


def _describe_node(client: Client, name: str) -> None:
    nodes = [NodeView.model_validate(item) for item in client.listed(NODE.path).items]
    for node in nodes:
        if node.name == name:
            break
    else:
        raise CommandError(f"no node named {name}", reason="NotFound", way_out="dally get nodes")
    output.fields(
        (
            ("Name", node.name),
            ("State", "Ready" if node.is_ready else f"NotReady: {node.unready_reason}"),
            ("Cordoned", _cordoned(node)),
            ("Left alone", _left_alone(node)),
            ("Taints", ", ".join(node.taints) or None),
            ("Pool", node.pool),
            ("Topology", ", ".join(f"{level}={value}" for level, value in node.path.items())),
            ("GPU model", node.gpu_model),
            ("GPUs", f"{node.gpus}, {node.gpus_held} held, {node.gpus - node.gpus_held} free"),
            ("CPUs", f"{node.cpus:g}"),
            ("Memory", f"{node.memory_bytes / 2**30:.1f} GiB" if node.memory_bytes else None),
            ("Labels", ",".join(f"{k}={v}" for k, v in sorted(node.labels.items()))),
            ("Jobs", ", ".join(node.jobs)),
        )
    )


def _cordoned(node: NodeView) -> str:
    if not node.is_cordoned:
        return "no"
    what = "draining" if node.is_draining else "yes"
    by = f", by {node.cordoned_by}" if node.cordoned_by else ", by the cluster itself"
    return f"{what}{by}" + (f": {node.cordon_reason}" if node.cordon_reason else "")


@command(dally, "why", examples=("dally why resnet50", "dally why job/resnet50 -o json"))
@click.argument("job")
@click.option("-o", "--output", "form", type=click.Choice(["json", "yaml"]))
def why(session: Session, *, job: str, form: str | None) -> None:
    """Say why a job is where it is, with numbers, and what would help."""
    with session.connect() as client:
        answer = client.get(client.job_path(job_name(job), "why"))
    if form == "json":
        output.as_json(answer)
    elif form == "yaml":
        output.as_yaml(answer)
    else:
        _print_why(WhyView.model_validate(answer), indent="")


def _print_why(answer: WhyView, *, indent: str) -> None:
    counted = [(reason, count) for reason, count in answer.counts.items() if reason != "nodes"]
    if answer.position:
        place = answer.position
        output.line(f"{indent}{place.in_queue} of {place.of_queue} in its queue")
    if counted:
        nodes = ", ".join(f"{count} {reason}" for reason, count in counted)
        output.line(f"{indent}nodes: {nodes}")
    if answer.round and answer.round.is_stale:
        output.line(f"{indent}this answer is {brief(answer.round.age_seconds)} old")
    output.line(f"{indent}{answer.verdict}: {answer.summary}")
    for fix in answer.fix:
        output.line(f"{indent}  fix: {fix}")
