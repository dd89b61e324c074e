"""`python -m bench.study live`: real runs, each beside its replays, made or read from a folder."""

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.reporting import DATA_DIR, Options, Report
from bench.study.live.comparing import most_apart, report
from bench.study.live.page import table
from bench.study.live.record import BrokenRecordError, LiveRun, Record, prepare, read, write
from bench.study.live.replaying import recorded
from bench.study.live.running import real_run
from bench.study.live.service import LiveRunError
from bench.study.live.workload import FULL, QUICK
from bench.study.variants import OURS

SEED = 1


def add_options(parser: argparse.ArgumentParser, policies: Callable[[str], object]) -> None:
    """The options of the command; `policies` reads a list of names."""
    parser.add_argument("--policies", type=policies, default=(OURS,), metavar="A,B,...")
    parser.add_argument("--seed", type=int, default=SEED, metavar="N", help="of the workload")
    parser.add_argument("--quick", action="store_true", help="the small size, within a minute")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="keep the runs; what is there is not run again"
    )
    parser.add_argument(
        "--again", action="store_true", help="replay anew what is there, with today's code"
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--json", action="store_true", help="one JSON object a line")
    shown.add_argument("--markdown", action="store_true", help="the table of docs/study.md")


def show_live(arguments: argparse.Namespace) -> int:
    """Returns the exit code."""
    options = Options(quick=arguments.quick, json=arguments.json, data=DATA_DIR)
    figures = Report(options)
    lines: list[str] = []
    try:
        for policy in arguments.policies:
            record = _record(policy, arguments)
            report(record, figures)
            lines += _told(record)
    except (LiveRunError, BrokenRecordError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    finally:
        if figures.rows and not arguments.markdown:
            figures.show()
    if arguments.markdown:
        print(table(figures.rows, arguments.policies))
    elif not arguments.json:
        print("\n".join(lines))
    return 0


def _record(policy: str, arguments: argparse.Namespace) -> Record:
    """What the folder has, or a new one. Raises BrokenRecordError and LiveRunError."""
    size = QUICK if arguments.quick else FULL
    file = None if arguments.out is None else arguments.out / f"{policy}.json"
    record = None if file is None else read(file)
    if record is None:
        if file is not None:
            prepare(file)
        print(f"a real run of {size.jobs} gangs under {policy}", file=sys.stderr)
        with ended_in_order():
            run = real_run(policy, size, arguments.seed)
        record = recorded(run)
        if file is not None:
            write(record, file)
        return record
    run = record.run
    if (run.policy, run.seed, len(run.jobs)) != (policy, arguments.seed, size.jobs):
        found = f"{len(run.jobs)} gangs of seed {run.seed} under {run.policy}"
        raise BrokenRecordError(f"{file} holds another run: {found}")
    return recorded(run) if arguments.again else record


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Being told to end is as Ctrl-C: the service and its jobs do not outlive the run."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _told(record: Record) -> list[str]:
    run, best = record.run, record.replays[-1]
    return [
        "",
        f"{run.policy}, {_counts(run)}, on {run.machine.removeprefix('# ')}",
        f"jobs that differ most from the replay that is told of {best.told}:",
        *(f"  {line}" for line in most_apart(run, best)),
    ]


def _counts(run: LiveRun) -> str:
    workers = sum(job.workers for job in run.jobs)
    return f"{len(run.jobs)} gangs of {workers} workers in all"
