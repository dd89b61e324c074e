"""The command tree of `dally-sim`."""

import typer

from simulator.commands.trace import trace_app

app = typer.Typer(
    help="Replay traces through the scheduler: the service's own loop, policies and network model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(trace_app, name="trace")


def main() -> None:
    """Entry point of `dally-sim`."""
    app()
