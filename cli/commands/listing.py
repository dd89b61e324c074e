"""`get`, `events`, `api-resources`: lists of what there is and what happened.

Imports little: a list is what people ask for most, and importing takes longer than answering.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial

import click
from pydantic import JsonValue

from api.events.schemas import EventView
from api.lists import REMAINING_COUNT_MAX, ListMetadata
from cli import output
from cli.client import Client, Parameters
from cli.command import Session, command
from cli.failures import CommandError
from cli.kinds import EVENT, JOB, KINDS, PROFILE, Kind, job_name, kind_named
from cli.root import dally
from cli.times import now, parse, span_s

PAGE = 500
LIMIT = 500
TYPES = ("normal", "warning")
"""Of events."""

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
        "dally get policy --queue default",
    ),
)
@click.argument("kind")
@click.argument("names", nargs=-1)
@output_option
@click.option("-A", "--all-projects", is_flag=True, help="Jobs of every project.")
@click.option("-q", "--queue", help="Jobs of this queue; its own policy.")
@click.option("--phase", "phases", multiple=True, help="Jobs in this phase; may be repeated.")
@click.option("-l", "--selector", help="Jobs with these labels, e.g. exp=a1,team=vision.")
@click.option("-w", "--watch", is_flag=True, help="Go on printing what changes.")
@click.option("--no-headers", is_flag=True, help="Rows only.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    default=LIMIT,
    show_default=True,
    help="Most rows; 0 for all.",
)
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
            filters["fieldSelector"] = _one_name(found, names) if names else None
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
        output.note(_cut_note(len(items), remaining))


def _one_name(kind: Kind, names: tuple[str, ...]) -> str:
    if kind is not JOB or len(names) != 1:
        raise click.UsageError("-w watches one job by name, or all of them by filters")
    return f"metadata.name={job_name(names[0])}"


def _cut_note(shown: int, remaining: int) -> str:
    least = "at least " if remaining >= REMAINING_COUNT_MAX else ""
    return (
        f"showing the newest {shown} of {least}{shown + remaining}, use --limit 0 for all, or "
        "--phase, -q and -l for some"
    )


def _list_path(client: Client, kind: Kind, *, is_everywhere: bool) -> str:
    if kind is JOB:
        return "/api/v1/jobs" if is_everywhere else client.jobs_path()
    return client.profiles_path() if kind is PROFILE else kind.path


def _listed(
    client: Client, kind: Kind, path: str, filters: Parameters, limit: int
) -> tuple[list[JsonValue], int]:
    known = {name: value for name, value in filters.items() if name in kind.filters}
    if kind.is_paged:
        if kind is not JOB or not limit:
            return _collect(client, path, known, limit)
        # Who sees only some of many jobs wants the latest; they stand last, above the prompt.
        newest, remaining = _collect(client, path, {**known, "order": "newest"}, limit)
        return newest[::-1], remaining
    whole = client.listed(path, known)
    if safe_mode := whole.answer.get("safeMode"):
        output.note(f"{safe_mode}: dally get strays")
    items = whole.items
    kept = items[:limit] if limit else items
    return kept, len(items) - len(kept)


def _collect(
    client: Client, path: str, filters: Parameters, limit: int
) -> tuple[list[JsonValue], int]:
    items: list[JsonValue] = []
    token: str | None = None
    while True:
        wanted = min(PAGE, limit - len(items)) if limit else PAGE
        page = client.listed(path, {**filters, "limit": wanted, "continue": token})
        items += page.items
        about = page.answer.get("metadata")
        metadata = None if about is None else ListMetadata.model_validate(about)
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


def _any(_item: JsonValue) -> bool:
    return True


def _watch(
    client: Client,
    kind: Kind,
    path: str,
    filters: Parameters,
    form: str | None,
    *,
    is_wanted: Callable[[JsonValue], bool] = _any,
) -> None:
    if kind not in (JOB, EVENT):
        raise CommandError(
            f"{kind.plural} can't be watched; jobs and events can",
            reason="NotWatchable",
            way_out="dally get jobs -w",
        )
    is_headed = True
    for item in filter(is_wanted, watched(client, path, filters)):
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
    "events",
    examples=("dally events", "dally events --for job/resnet50", "dally events --since 1h"),
)
@click.option("--for", "subject", metavar="job/NAME", help="Events of one job.")
@click.option("--types", help="Normal or Warning, or both with a comma.")
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
    is_wanted = partial(_is_wanted, types=_types(types), youngest_s=youngest_s)
    with session.connect() as client:
        path = client.job_path(job_name(subject), "events") if subject else EVENT.path
        if watch:
            _watch(client, EVENT, path, {}, form, is_wanted=is_wanted)
            return
        items, _ = _collect(client, path, {}, 0)
    kept = [item for item in items if is_wanted(item)]
    _show(EVENT, kept, form, is_headed=True, is_single=False)


def _types(text: str | None) -> tuple[str, ...]:
    """The types asked for, in small letters. Raises a usage error for one that does not exist."""
    found = tuple(part.strip() for part in text.lower().split(",")) if text is not None else TYPES
    wrong = [part for part in found if part not in TYPES]
    if wrong:
        raise click.UsageError(f"--types: {wrong[0]!r} is neither Normal nor Warning")
    return found


def _is_wanted(item: JsonValue, *, types: tuple[str, ...], youngest_s: float | None) -> bool:
    event = EventView.model_validate(item)
    if event.type.lower() not in types:
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
