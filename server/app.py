"""The command tree of `dallyd`: serve, migrate, check, admin.

Flags, settings and files are checked before the rest of the server is imported, which takes longer
than all the checks.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from scheduler.config_file import Config, ConfigError, empty_config, read_config
from scheduler.domain.errors import SchedulerError
from scheduler.network.presets import PRESETS
from scheduler.policies.registry import POLICIES
from scheduler.settings import PREFIX, Settings, load_settings
from server.data_folder import make_data_dir, refuse_if_served
from server.listening import listening_socket
from server.refusals import refuse_what_can_not_be

SERVE_FLAGS = (
    "config",
    "data_dir",
    "database_url",
    "host",
    "port",
    "allow_plain_http",
    "role",
    "slots",
    "executor",
    "kubeconfig",
    "log_level",
)
"""Settings that `dallyd serve` has a flag for."""

EXIT_ERROR = 1

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    rich_markup_mode=None,
)


def _say_version(is_asked: bool) -> None:  # noqa: FBT001 - typer's way to call it
    if is_asked:
        from server.release import VERSION  # noqa: PLC0415 - reads the files of the installation

        typer.echo(f"dallyd {VERSION}")
        raise typer.Exit


@app.callback()
def dallyd(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_say_version, is_eager=True, help="Say the version and end."
        ),
    ] = False,
) -> None:
    """The Dally server: schedules gangs of GPU workers by what distance costs them."""


admin = typer.Typer(help="What only the server's own user may do.", no_args_is_help=True)
app.add_typer(admin, name="admin")

ConfigFlag = Annotated[
    Path | None, typer.Option("--config", help="dallyd.yaml: topology, queues, projects, policy.")
]
DataDirFlag = Annotated[
    Path | None, typer.Option("--data-dir", help="Folder of database, logs and checkpoints.")
]
DatabaseFlag = Annotated[
    str | None,
    typer.Option("--database-url", help="PostgreSQL URL; without it SQLite in the data folder."),
]


@app.command()
def serve(
    *,
    config: ConfigFlag = None,
    data_dir: DataDirFlag = None,
    database_url: DatabaseFlag = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on [127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on [8470]; 0: any.")] = None,
    allow_plain_http: Annotated[
        bool | None,
        typer.Option(
            "--allow-plain-http",
            help="Listen beyond loopback although tokens are not encrypted: behind a TLS proxy.",
        ),
    ] = None,
    role: Annotated[str | None, typer.Option(help="all, api or scheduler [all].")] = None,
    slots: Annotated[
        int | None, typer.Option(help="Slots of a machine without GPUs and without a topology [8].")
    ] = None,
    executor: Annotated[
        str | None, typer.Option(help="What runs the workers: local or kubernetes [local].")
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig of the cluster; without it the pod's account.")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error [warning].")
    ] = None,
) -> None:
    """Run the service in the foreground until SIGTERM or Ctrl-C.

    Examples:

    dallyd serve

    dallyd serve --config dallyd.yaml --data-dir ./data --port 9000
    """
    given = {
        "config": config,
        "data_dir": data_dir,
        "database_url": database_url,
        "host": host,
        "port": port,
        "allow_plain_http": allow_plain_http,
        "role": role,
        "slots": slots,
        "executor": executor,
        "kubeconfig": kubeconfig,
        "log_level": log_level,
    }
    with errors_as_exit_codes():
        settings, cluster_config = load(given)
        refuse_what_can_not_be(settings)
        make_data_dir(settings)
        refuse_if_served(settings)
        with listening_socket(settings) as listening:
            from server import logs, serving  # noqa: PLC0415 - heavy; all is checked by now

            logs.set_up_logs(settings.log_level)
            raise typer.Exit(serving.serve(settings, cluster_config, listening))


@app.command()
def migrate(
    config: ConfigFlag = None, data_dir: DataDirFlag = None, database_url: DatabaseFlag = None
) -> None:
    """Bring the database to this version's schema; nothing happens where it is there already.

    Examples:

    dallyd migrate

    dallyd migrate --database-url postgresql://dally@db/dally
    """
    with errors_as_exit_codes():
        settings, _ = load(_database_flags(config, data_dir, database_url))
        from server import database  # noqa: PLC0415 - heavy; all is checked by now

        typer.echo(database.migrate(settings))


@app.command()
def check(
    config: ConfigFlag = None, data_dir: DataDirFlag = None, database_url: DatabaseFlag = None
) -> None:
    """Say whether the server could start with these settings, and what it would find.

    Examples:

    dallyd check --config dallyd.yaml

    dallyd check --database-url postgresql://dally@db/dally
    """
    with errors_as_exit_codes():
        settings, cluster_config = load(_database_flags(config, data_dir, database_url))
        from server import checking  # noqa: PLC0415 - heavy; all is checked by now

        findings = checking.findings(settings, cluster_config)
        for finding in findings:
            typer.echo(f"{'ok  ' if finding.is_well else 'FAIL'}  {finding.what}: {finding.said}")
        if not all(finding.is_well for finding in findings):
            raise typer.Exit(EXIT_ERROR)


@admin.command("token")
def admin_token(
    *,
    name: Annotated[str, typer.Option(help="Who the token stands for.")] = "admin",
    project: Annotated[
        list[str] | None,
        typer.Option(help="Project it may act in (several times); without one it is an admin's."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, max=3650, help="Days until it expires.")] = 90,
    config: ConfigFlag = None,
    data_dir: DataDirFlag = None,
    database_url: DatabaseFlag = None,
) -> None:
    """Make a token and print it, once. Works beside a running server.

    Examples:

    dallyd admin token

    dallyd admin token --name ci --project vision --days 30
    """
    with errors_as_exit_codes():
        settings, _ = load(_database_flags(config, data_dir, database_url))
        from server import database, first_start  # noqa: PLC0415 - heavy; all is checked by now

        with database.open_beside(settings) as store:
            secret = first_start.make_token(store, name=name, projects=project or [], days=days)
        typer.echo(secret)


@admin.command("snapshot")
def admin_snapshot(
    *,
    config: ConfigFlag = None,
    data_dir: DataDirFlag = None,
    database_url: DatabaseFlag = None,
) -> None:
    """Print nodes, jobs, queues and knobs as JSON, for `dally-sim from-live`. Works beside a
    running server. It holds whole job files: keep it as you keep them.

    With the configuration of the server it also says what that names of the links.

    Examples:

    dallyd admin snapshot > live.json

    dallyd admin snapshot --config dallyd.yaml --data-dir /var/lib/dally > live.json
    """
    with errors_as_exit_codes():
        settings, cluster_config = load(_database_flags(config, data_dir, database_url))
        from scheduler.adapters.system_clock import SystemClock  # noqa: PLC0415 - heavy
        from scheduler.control.stored import stored_snapshot  # noqa: PLC0415 - heavy
        from scheduler.domain.codec import to_json  # noqa: PLC0415 - heavy
        from server import database  # noqa: PLC0415 - heavy

        with database.open_beside(settings) as store:
            snapshot = stored_snapshot(store, SystemClock().now())
        text = to_json(replace(snapshot, links=cluster_config.topology.links))
        typer.echo(text)


@admin.command("rebuild")
def admin_rebuild(
    *,
    instance: Annotated[
        str, typer.Option(help="Whose gangs, where the cluster has those of several databases.")
    ] = "",
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Kubeconfig of the cluster; without it the pod's account.")
    ] = None,
    config: ConfigFlag = None,
    data_dir: DataDirFlag = None,
    database_url: DatabaseFlag = None,
) -> None:
    """Make an empty database one that knows what runs on the Kubernetes cluster, after the old one
    was lost. No server may run on it meanwhile. Jobs that only waited, tokens and events stay lost.

    Examples:

    dallyd admin rebuild --config dallyd.yaml

    dallyd admin rebuild --instance 3f9c2a71b0d4e5f6 --database-url postgresql://dally@db/dally
    """
    given = {
        **_database_flags(config, data_dir, database_url),
        "kubeconfig": kubeconfig,
        "executor": "kubernetes",
    }
    with errors_as_exit_codes():
        settings, cluster_config = load(given)
        make_data_dir(settings)
        refuse_if_served(settings)
        from server import rebuilding  # noqa: PLC0415 - heavy; all is checked by now

        for line in rebuilding.rebuild(settings, cluster_config, instance=instance):
            typer.echo(line)


def load(given: Mapping[str, str | int | Path | bool | None]) -> tuple[Settings, Config]:
    """Settings and configuration. Raises ConfigError with every mistake of either."""
    named = given.get("config") or os.environ.get(f"{PREFIX}CONFIG")
    if not named:
        return load_settings(given), empty_config()
    config = read_config(Path(str(named)), policies=POLICIES, fabrics=PRESETS)
    return load_settings(given, file_values=config.server), config


@contextmanager
def errors_as_exit_codes() -> Iterator[None]:
    """What we know can go wrong is said in a line and ends with exit code 1."""
    try:
        yield
    except ConfigError as error:
        _fail(str(error))
    except SchedulerError as error:
        _fail(f"dallyd: {error}")


def main() -> None:
    """Run the command line."""
    app(prog_name="dallyd")


def _fail(message: str) -> None:
    sys.stderr.write(f"{message}\n")
    raise typer.Exit(EXIT_ERROR)


def _database_flags(
    config: Path | None, data_dir: Path | None, database_url: str | None
) -> dict[str, str | int | Path | bool | None]:
    return {"config": config, "data_dir": data_dir, "database_url": database_url}
