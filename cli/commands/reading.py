"""`get`, `describe`, `why`, `events`, `api-resources`: what there is and why."""

import json
from collections.abc import Iterator

import click
from pydantic import JsonValue, TypeAdapter

from api.events.schemas import EventView
from api.jobs.schemas import AttemptList, AttemptView, JobObject, PlacementView, WhyView
from api.lists import ListMetadata
from api.nodes.schemas import NodeView
from cli import output
from cli.client import Client, Parameters
from cli.command import Session, command
from cli.commands.distance import describe_profile, describe_sensitivity
from cli.failures import CommandError
from cli.kinds import EVENT, JOB, KINDS, NODE, PROFILE, Kind, job_name, kind_named
from cli.root import dally
from cli.times import age, brief, now, parse, span_s

PAGE = 500
LIMIT = 500
EVENTS_IN_DESCRIBE = 20
PLACEMENT = "placement"
"""Not a kind of object: `describe` draws it for a job."""

_ITEMS: TypeAdapter[list[JsonValue]] = TypeAdapter(list[JsonValue])

output_option = click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["wide", "json", "yaml", "name"]),
    help="Another form than the table.",
)


@command(
    dally,
    "get",
    examples=(
        "dally get jobs",
        "dally get jobs -o wide --phase Pending",
        "dally get job resnet50 -o yaml",
        "dally get nodes",
    ),
)
@click.argument("kind")
@click.argument("names", nargs=-1)
@output_option
@click.option("-A", "--all-projects", is_flag=True, help="Jobs of every project.")
@click.option("-q", "--queue", help="Jobs of this queue.")
@click.option("--phase", "phases", multiple=True, help="Jobs in this phase; may be repeated.")
@click.option("-l", "--selector", help="Jobs with these labels, e.g. exp=a1,team=vision.")
@click.option("-w", "--watch", is_flag=True, help="Go on printing what changes.")
@click.option("--no-headers", is_flag=True, help="Rows only.")
@click.option("--limit", default=LIMIT, show_default=True, help="Most rows; 0 for all.")
def get(
    session: Session,
    *,
    kind: str,
    names: tuple[str, ...],
    form: str | None,
    all_projects: bool,
    queue: str | None,
    phases: tuple[str, ...],
    selector: str | None,
    watch: bool,
    no_headers: bool,
    limit: int,
) -> None:
    """List objects of a kind, or show the named ones."""
    if "/" in kind:
        kind, _, name = kind.partition("/")
        names = (name, *names)
    found = kind_named(kind)
    filters: dict[str, str | int | bool | None] = {
        "queue": queue,
        "phase": ",".join(phases) or None,
        "labelSelector": selector,
    }
    with session.connect() as client:
        path = _list_path(client, found, is_everywhere=all_projects)
        if watch:
            _watch(client, found, path, filters, form)
            return
        if names and found is JOB:
            items: list[JsonValue] = [client.get(client.job_path(job_name(n))) for n in names]
            remaining = 0
        else:
            items, remaining = _listed(client, found, path, filters, limit)
            items = [item for item in items if not names or _name_of(item) in names]
            _expect_all(found, names, items)
    _show(found, items, form, is_headed=not no_headers, is_single=len(names) == 1)
    if remaining:
        output.note(f"showing {len(items)} of {len(items) + remaining}, use --limit 0 for all")


def _list_path(client: Client, kind: Kind, *, is_everywhere: bool) -> str:
    if kind is JOB:
        return "/api/v1/jobs" if is_everywhere else client.jobs_path()
    return kind.path


def _listed(
    client: Client, kind: Kind, path: str, filters: Parameters, limit: int
) -> tuple[list[JsonValue], int]:
    if kind.is_paged:
        return _collect(client, path, filters if kind is JOB else {}, limit)
    items = _ITEMS.validate_python(client.get(path).get("items", []))
    kept = items[:limit] if limit else items
    return kept, len(items) - len(kept)


def _collect(
    client: Client, path: str, filters: Parameters, limit: int
) -> tuple[list[JsonValue], int]:
    items: list[JsonValue] = []
    token: str | None = None
    while True:
        wanted = min(PAGE, limit - len(items)) if limit else PAGE
        page = client.get(path, {**filters, "limit": wanted, "continue": token})
        items += _ITEMS.validate_python(page.get("items", []))
        metadata = ListMetadata.model_validate(page["metadata"]) if "metadata" in page else None
        token = metadata.continue_ if metadata else None
        if not token or (limit and len(items) >= limit):
            return items, metadata.remaining_item_count if metadata and token else 0


def _name_of(item: JsonValue) -> str:
    assert isinstance(item, dict)
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else item.get("name")
    return str(name)


def _expect_all(kind: Kind, names: tuple[str, ...], items: list[JsonValue]) -> None:
    missing = set(names) - {_name_of(item) for item in items}
    if missing:
        raise CommandError(
            f"no {kind.name} named {', '.join(sorted(missing))}",
            reason="NotFound",
            way_out=f"dally get {kind.plural}",
        )


def _show(
    kind: Kind, items: list[JsonValue], form: str | None, *, is_headed: bool, is_single: bool
) -> None:
    whole: JsonValue = items[0] if is_single else {"kind": "List", "items": items}
    match form:
        case "json":
            output.as_json(whole)
        case "yaml":
            output.as_yaml(whole)
        case "name":
            for item in items:
                output.line(f"{kind.name}/{_name_of(item)}")
        case _:
            headers = kind.headers + (kind.headers_wide if form == "wide" else ())
            rows = [kind.row(item)[: len(headers)] for item in items]
            if rows:
                output.table(headers, rows, is_headed=is_headed)
            else:
                output.note(f"no {kind.plural} found")


def _watch(client: Client, kind: Kind, path: str, filters: Parameters, form: str | None) -> None:
    if kind not in (JOB, EVENT):
        raise CommandError(
            f"{kind.plural} can't be watched; jobs and events can",
            reason="NotWatchable",
            way_out="dally get jobs -w",
        )
    is_headed = True
    for item in watched(client, path, filters):
        if form == "json":
            output.as_json_line(item)
        else:
            _show(kind, [item], form, is_headed=is_headed, is_single=True)
        is_headed = False


def watched(client: Client, path: str, filters: Parameters) -> Iterator[JsonValue]:
    """Objects of a watch as they come, the present ones first; ends when the server closes it."""
    buffer = b""
    with client.stream(path, {**filters, "watch": 1}) as chunks:
        for chunk in chunks:
            buffer += chunk
            *lines, buffer = buffer.split(b"\n")
            for text in lines:
                if text.strip():
                    event = json.loads(text)
                    if event.get("object") is not None:
                        yield event["object"]


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
    _describe_general(job)
    if attempts:
        _describe_attempts(attempts)
        _describe_progress(attempts[-1])
    describe_sensitivity(client, name)
    if show_events:
        page = client.get(client.job_path(name, "events"), {"limit": PAGE})
        _describe_events(_ITEMS.validate_python(page.get("items", [])))
    output.heading("Why")
    _print_why(WhyView.model_validate(client.get(client.job_path(name, "why"))), indent="  ")


def _describe_general(job: JobObject) -> None:
    status = job.status
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
            ("Workers", f"{status.workers}, {status.gpus} GPUs in all"),
            ("Launcher", job.spec.launcher),
            ("Command", " ".join(job.spec.command or ())),
            ("Submitted", f"{job.metadata.create_time} by {job.metadata.created_by or 'unknown'}"),
            ("Started", status.start_time),
            ("Ended", status.end_time),
            ("Ran", _span(status.start_time, status.end_time)),
            ("Attempts", status.attempts),
            ("Restarts", f"{status.restarts_after_failure} after failures of the program, "
             f"{status.restarts_after_loss} after losses of the cluster"),
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
    total = f" of {progress.steps_total}" if progress.steps_total else ""
    rate = f", {1 / progress.step_seconds:.3g} steps/s" if progress.step_seconds else ""
    output.fields(
        (
            ("Step", f"{progress.step}{total}"),
            ("Rate", f"{progress.step_seconds:.4g} s/step{rate}"),
            ("Loss", None if progress.loss is None else f"{progress.loss:.4g}"),
            ("Accuracy", None if progress.accuracy is None else f"{progress.accuracy:.4g}"),
            ("Reported", f"{age(progress.report_time)} ago ({progress.reports} reports)"),
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
        f"{placed.job}: attempt {placed.attempt} ({placed.phase}), within one {placed.tier}"
    )
    for text in placed.drawing.splitlines():
        output.line(text)


def _describe_node(client: Client, name: str) -> None:
    page = client.get(NODE.path)
    nodes = [NodeView.model_validate(item) for item in _ITEMS.validate_python(page["items"])]
    for node in nodes:
        if node.name == name:
            break
    else:
        raise CommandError(f"no node named {name}", reason="NotFound", way_out="dally get nodes")
    output.fields(
        (
            ("Name", node.name),
            ("State", "Ready" if node.is_ready else f"NotReady: {node.unready_reason}"),
            ("Cordoned", "yes" if node.is_cordoned else "no"),
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


@command(
    dally,
    "events",
    examples=("dally events", "dally events --for job/resnet50", "dally events --since 1h"),
)
@click.option("--for", "subject", metavar="job/NAME", help="Events of one job.")
@click.option("--types", help="Normal or Warning.")
@click.option("--since", help="Only those younger than this, e.g. 10m.")
@click.option("-w", "--watch", is_flag=True, help="Go on printing new ones.")
@output_option
def events(
    session: Session,
    *,
    subject: str | None,
    types: str | None,
    since: str | None,
    watch: bool,
    form: str | None,
) -> None:
    """What happened, oldest first."""
    youngest_s = span_s(since) if since else None
    with session.connect() as client:
        path = client.job_path(job_name(subject), "events") if subject else EVENT.path
        if watch:
            _watch(client, EVENT, path, {}, form)
            return
        items, _ = _collect(client, path, {}, 0)
    kept = [item for item in items if _is_wanted(item, types=types, youngest_s=youngest_s)]
    _show(EVENT, kept, form, is_headed=True, is_single=False)


def _is_wanted(item: JsonValue, *, types: str | None, youngest_s: float | None) -> bool:
    event = EventView.model_validate(item)
    if types and event.type.lower() not in types.lower().split(","):
        return False
    return youngest_s is None or (now() - parse(event.time)).total_seconds() <= youngest_s


@command(
    dally, "api-resources", examples=("dally api-resources", "dally api-resources --no-headers")
)
@click.option("--no-headers", is_flag=True, help="Rows only.")
def api_resources(_session: Session, *, no_headers: bool) -> None:
    """List the kinds of objects and their short names."""
    rows = [(kind.plural, kind.short, kind.name) for kind in KINDS]
    output.table(("KINDS", "SHORT", "NAME"), rows, is_headed=not no_headers)
