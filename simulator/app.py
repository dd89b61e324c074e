"""The command tree of `dally-sim`."""

import typer

from simulator.commands.compare import compare
from simulator.commands.explain import explain
from simulator.commands.from_live import from_live
from simulator.commands.report import report
from simulator.commands.run import run
from simulator.commands.trace import trace_app
from simulator.garbage import collect_seldom

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
app.command(
    epilog="Examples: `dally-sim compare cluster06.csv --nodes 16 --gpus-per-node 8 --racks 4 "
    "--policies nowait,dally --seeds 5 --load 0.8,1.1 --congestion 1,4`, `dally-sim compare "
    "philly.csv --topology examples/topologies/philly-2490.yaml --jobs 5000 "
    "--policies fifo,las,dally --out RUNS --json`"
)(compare)
app.command(
    epilog="Examples: `dally-sim explain RUN j00000042`, "
    "`dally-sim explain RUNS/dally-load-0.8-congestion-4-seed-0 j00000042 --json`"
)(explain)
app.command(epilog="Examples: `dally-sim report RUN`, `dally-sim report RUNS --out policies.html`")(
    report
)
app.command(
    "from-live",
    epilog="Examples: `dallyd admin snapshot > live.json && dally-sim from-live live.json`, "
    "`dally-sim from-live live.json --policy las --more-nodes 4 --json`",
)(from_live)


def main() -> None:
    """Entry point of `dally-sim`."""
    collect_seldom()
    app()
