"""`dally-sim report`: run folders -> one HTML page."""

from pathlib import Path
from typing import Annotated

import typer

from simulator.commands.failing import told_as_errors
from simulator.errors import OptionError
from simulator.run_folder import read_run, run_folders


def report(
    runs: Annotated[
        list[Path],
        typer.Argument(exists=True, file_okay=False, help="Run folders, or folders of such."),
    ],
    out: Annotated[Path, typer.Option(dir_okay=False, help="The page to write.")] = Path(
        "report.html"
    ),
) -> None:
    """Write one self-contained HTML page with tables and plots of runs."""
    # Plotting takes a second to import; no other command waits for it.
    from simulator.report import html_report  # noqa: PLC0415 - see above

    with told_as_errors():
        folders = [folder for given in runs for folder in run_folders(given)]
        if not folders:
            raise OptionError("RUNS", "no run of `dally-sim run --out` is in these folders")
        page = html_report(read_run(folder) for folder in folders)
        out.write_text(page, encoding="utf-8")
    typer.echo(f"{len(folders)} runs: {out}", err=True)
