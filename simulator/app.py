"""The command tree of `dally-sim`."""

import typer

from simulator.commands.run import run
from simulator.commands.trace import trace_app

app = typer.Typer(
    help="Replay traces through the scheduler: the service's own loop, policies and network model.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(trace_app, name="trace")
app.command(
    epilog="Examples: `dally-sim run cluster06.csv --nodes 16 --gpus-per-node 8 --policy srtf "
    "--network off --costs off --allocation counter --json`, `dally-sim run philly.csv "
    "--topology examples/topologies/philly-2490.yaml --policy nowait --congestion 4 --out RUN`"
)(run)


def main() -> None:
    """Entry point of `dally-sim`."""
    app()
