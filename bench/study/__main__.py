"""`python -m bench.study run --out DIR [--part I/N] [--quick]`, then `report --out DIR`.

`python -m bench.study live`: a real run on this machine, and its replay beside it.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from bench.reporting import DATA_DIR, machine
from bench.study.conditions import WORKLOADS
from bench.study.live.showing import add_options, show_live
from bench.study.packing import pack, unpack, unpacked
from bench.study.plan import (
    BATCH_JOBS,
    JOBS_MAX,
    PACES,
    SEEDS,
    SIZE_FILE,
    SQUARES,
    Chapter,
    Size,
    runs,
)
from bench.study.reading import BrokenRunError, CellRuns, cells_of, stored_runs
from bench.study.running import missing, other_size, run_all
from bench.study.telling import figures, page
from bench.study.variants import OURS
from scheduler.policies.registry import POLICIES

TRACES = tuple(workload.name for workload in WORKLOADS)

INTERRUPTED = 130
"""The exit code that shells give to what Ctrl-C has ended."""


def main() -> int:
    """Returns the exit code."""
    arguments = _parser().parse_args()
    try:
        return COMMANDS[arguments.command](arguments)
    except BrokenPipeError:
        raise
    except (OSError, BrokenRunError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


def _run(arguments: argparse.Namespace) -> int:
    part, parts = arguments.part
    size = _size(arguments)
    other = other_size(size, arguments.out)
    if other is not None:
        print(f"{arguments.out} holds runs of another size: {other}", file=sys.stderr)
        return 2
    mine = list(runs(size))[part - 1 :: parts]
    left = missing(mine, arguments.out)
    print(machine(), file=sys.stderr)
    print(f"{len(mine)} runs in this part, {len(left)} to do", file=sys.stderr)
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("runs", total=len(left))
        for _ in run_all(left, arguments.out, arguments.data, processes=arguments.processes):
            progress.advance(task)
    return 0


def _size(arguments: argparse.Namespace) -> Size:
    return Size(
        quick=arguments.quick,
        seeds=arguments.seeds,
        jobs=arguments.jobs,
        batch_jobs=min(arguments.jobs, BATCH_JOBS),
        squares=arguments.squares,
        paces=arguments.paces,
        chapters=tuple(Chapter(name) for name in arguments.chapters),
        traces=arguments.traces,
        policies=arguments.policies,
    )


def _read(folder: Path) -> list[CellRuns]:
    return cells_of([*unpacked(folder), *stored_runs(folder)])


def _pack(arguments: argparse.Namespace) -> int:
    cells = _read(arguments.out)
    if not cells:
        print(f"no runs in {arguments.out}", file=sys.stderr)
        return 2
    size = arguments.out / SIZE_FILE
    print(pack(cells, arguments.into, size=size.read_text(encoding="utf-8")))
    return 0


def _unpack(arguments: argparse.Namespace) -> int:
    print(f"{unpack(arguments.source, arguments.out)} runs written", file=sys.stderr)
    return 0


def _report(arguments: argparse.Namespace) -> int:
    cells = _read(arguments.out)
    if not cells:
        print(f"no runs in {arguments.out}", file=sys.stderr)
        return 2
    if arguments.plots is not None:
        from bench.study.plotting import plot  # noqa: PLC0415 - heavy

        plot(cells, arguments.plots)
    if not arguments.json:
        print(page(cells), end="")
        return 0
    for figure in figures(cells):
        reference = figure.reference
        row = asdict(figure) | {"ratio": figure.value / reference if reference else None}
        print(json.dumps(row))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.study", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run what is not in the folder yet")
    run.add_argument("--out", type=Path, required=True, metavar="DIR")
    run.add_argument("--part", type=_part, default=(1, 1), metavar="I/N", help="only that part")
    run.add_argument("--quick", action="store_true", help="the small size that CI runs")
    run.add_argument("--seeds", type=_count, default=SEEDS, metavar="N", help="profile seeds")
    run.add_argument("--jobs", type=_count, default=JOBS_MAX, metavar="N", help="of each trace")
    squares = f"Latin squares of cells, of {SQUARES}"
    run.add_argument("--squares", type=_squares, default=SQUARES, metavar="N", help=squares)
    known_names = (("--paces", PACES), ("--chapters", tuple(Chapter)), ("--traces", TRACES))
    for option, known in known_names:
        run.add_argument(
            option,
            type=partial(_names, known=known),
            default=known,
            metavar="A,B,...",
            help=f"of {', '.join(known)}",
        )
    everybody = ",".join(sorted(POLICIES))
    run.add_argument("--policies", type=_policies, default=_policies(everybody), metavar="A,B,...")
    run.add_argument("--data", type=Path, default=DATA_DIR, metavar="DIR")
    run.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    report = commands.add_parser("report", help="read the runs of a folder")
    report.add_argument("--out", type=Path, required=True, metavar="DIR")
    report.add_argument("--plots", type=Path, metavar="DIR", help="write plots there as SVG")
    report.add_argument("--json", action="store_true", help="one JSON object a line")
    packing = commands.add_parser("pack", help="write the results of a folder to one small file")
    packing.add_argument("--out", type=Path, required=True, metavar="DIR")
    packing.add_argument("--into", type=Path, required=True, metavar="DIR")
    again = commands.add_parser("unpack", help="write packed results as runs, to go on from them")
    again.add_argument("--from", dest="source", type=Path, required=True, metavar="DIR")
    again.add_argument("--out", type=Path, required=True, metavar="DIR")
    live = commands.add_parser("live", help="a real run on this machine beside its replay")
    add_options(live, partial(_names, known=tuple(sorted(POLICIES))))
    return parser


def _count(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def _squares(text: str) -> int:
    count = _count(text)
    if count > SQUARES:
        raise argparse.ArgumentTypeError(f"there are {SQUARES}, not {count}")
    return count


def _names(text: str, known: Sequence[str]) -> tuple[str, ...]:
    names = tuple(sorted(set(text.split(","))))
    for name in names:
        if name not in known:
            raise argparse.ArgumentTypeError(f"there is no {name!r}, but {', '.join(known)}")
    return names


def _policies(text: str) -> tuple[str, ...]:
    names = _names(text, known=sorted(POLICIES))
    if OURS not in names:
        raise argparse.ArgumentTypeError(f"{OURS} must be among them: all is measured against it")
    return names


def _part(text: str) -> tuple[int, int]:
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"{text!r} is not I/N with I from 1 to N")
    return int(part), int(parts)


COMMANDS = {"run": _run, "report": _report, "pack": _pack, "unpack": _unpack, "live": show_live}


if __name__ == "__main__":
    raise SystemExit(main())
