"""`config`, `auth`, `version`, `explain`, `completion`: about the client and whom it talks to."""

import click
from click.shell_completion import get_completion_class
from pydantic import JsonValue

from api.tokens.schemas import CallerView
from cli import output
from cli.command import DallyGroup, Session, command
from cli.config import (
    DEFAULT_PROJECT,
    ConfigFile,
    Context,
    change,
    expect_context,
    load,
    path_of_file,
    resolve,
)
from cli.release import skew, version_of_client
from cli.root import dally
from cli.schema import describe_field, find_field

config = DallyGroup("config", help="Contexts: which server to talk to and as whom.")
auth = DallyGroup("auth", help="Who the caller is.")
dally.add_command(config)
dally.add_command(auth)


@command(
    config,
    "set-context",
    examples=(
        "dally config set-context lab --server http://127.0.0.1:8470 --token TOKEN",
        "dally config set-context lab --project vision",
    ),
)
@click.argument("name")
@click.option("--use/--no-use", default=True, help="Make it the current one.")
def set_context(session: Session, *, name: str, use: bool) -> None:
    """Make or change a context; flags not given keep their values."""
    choices = session.choices

    def with_it(before: ConfigFile) -> ConfigFile:
        old = before.contexts.get(name, Context())
        changed = Context(
            server=choices.server or old.server,
            token=choices.token or old.token,
            project=choices.project or old.project or DEFAULT_PROJECT,
        )
        contexts = {**before.contexts, name: changed}
        current = name if use else before.current
        return before.model_copy(update={"contexts": contexts, "current": current})

    change(with_it)
    output.line(f"context {name} {'set and in use' if use else 'set'} in {path_of_file()}")


@command(
    config,
    "use-context",
    examples=("dally config use-context lab", "dally config use-context lab --server http://h:1"),
)
@click.argument("name")
def use_context(_session: Session, *, name: str) -> None:
    """Make a context the current one."""

    def with_it_current(before: ConfigFile) -> ConfigFile:
        expect_context(name, before)
        return before.model_copy(update={"current": name})

    change(with_it_current)
    output.line(f"now using context {name}")


@command(
    config,
    "delete-context",
    examples=("dally config delete-context lab", "dally config delete-context old --project x"),
)
@click.argument("name")
def delete_context(_session: Session, *, name: str) -> None:
    """Forget a context and its token."""

    def without_it(before: ConfigFile) -> ConfigFile:
        expect_context(name, before)
        contexts = {key: value for key, value in before.contexts.items() if key != name}
        current = "" if before.current == name else before.current
        return before.model_copy(update={"contexts": contexts, "current": current})

    change(without_it)
    output.line(f"context {name} deleted")


@command(
    config,
    "get-contexts",
    examples=("dally config get-contexts", "dally config get-contexts --no-headers"),
)
@click.option("--no-headers", is_flag=True, help="Rows only.")
def get_contexts(_session: Session, *, no_headers: bool) -> None:
    """List the contexts; a star marks the current one."""
    known = load()
    rows = [
        ("*" if name == known.current else "", name, context.server, context.project)
        for name, context in known.contexts.items()
    ]
    output.table(("CURRENT", "NAME", "SERVER", "PROJECT"), rows, is_headed=not no_headers)


@command(
    config,
    "current-context",
    examples=("dally config current-context", "dally config current-context --context lab"),
)
def current_context(session: Session) -> None:
    """Print the name of the context in use and its server."""
    name = session.choices.context or load().current
    output.line(f"{name or '(none)'} {resolve(session.choices).server}")


@command(auth, "whoami", examples=("dally auth whoami", "dally auth whoami --context lab"))
def whoami(session: Session) -> None:
    """Say whom the token stands for and where it may act."""
    with session.connect() as client:
        caller = CallerView.model_validate(client.get("/api/v1/whoami"))
    projects = (
        "every project (admin)" if caller.admin else ", ".join(caller.projects) or "no project"
    )
    output.line(f"{caller.name}, may act in {projects}")


@command(dally, "version", examples=("dally version", "dally version --client"))
@click.option("--client", "is_client_only", is_flag=True, help="Do not ask the server.")
def version(session: Session, *, is_client_only: bool) -> None:
    """Print the versions of client and server; warns when they are more than a minor apart."""
    own = version_of_client()
    output.line(f"client {own}")
    if is_client_only:
        return
    with session.connect() as client:
        theirs = str(client.get("/version").get("version", ""))
    output.line(f"server {theirs}")
    warning = skew(own, theirs)
    if warning:
        output.note(f"warning: {warning}")


@command(
    dally,
    "explain",
    examples=(
        "dally explain job",
        "dally explain job.spec.topology",
        "dally explain job --recursive",
    ),
)
@click.argument("path")
@click.option("--recursive", is_flag=True, help="All fields below too.")
def explain(session: Session, *, path: str, recursive: bool) -> None:
    """Explain a field of the job file: type, meaning, default."""
    with session.connect() as client:
        schema: JsonValue = client.get("/api/v1/schema")
    field = find_field(schema, path)
    for text in describe_field(schema, field, path=path, is_recursive=recursive):
        output.line(text)


@command(
    dally,
    "completion",
    examples=("dally completion bash", "dally completion zsh"),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(_session: Session, *, shell: str) -> None:
    """Print the completion script of a shell: source it from its startup file."""
    kind = get_completion_class(shell)
    assert kind is not None
    output.line(kind(dally, {}, "dally", "_DALLY_COMPLETE").source())
