"""What all benchmarks share: their options, their rows and how these are shown.

A benchmark is a module `bench.NAME` that ends in

    if __name__ == "__main__":
        run_bench("One line on what is measured.", measure)

with `measure(options, report)` calling `report.add(...)` for every figure. Shown is a table or,
with `--json`, one object a line (name, value, unit, reference, ratio; null where there is none).
"""

import argparse
import json
import math
import platform
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

DATA_DIR = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Where recorded data lies by default: beside the checkout."""

_PROC_CPUINFO = Path("/proc/cpuinfo")
_PROC_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line asked for."""

    quick: bool
    """The CI size: small enough for every build."""
    json: bool
    data: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure."""

    name: str
    """Measure and case: `decision_p99[gang=512,load=0.95]`."""
    value: float | None
    unit: str
    reference: float | None
    """The same unit, measured in the same run, or a published figure."""
    ratio: float | None
    """value / reference."""


class Report:
    """Takes the figures of one run and shows them."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.rows: list[Row] = []

    def add(
        self,
        measure: str,
        value: float | None,
        unit: str,
        *,
        reference: float | None = None,
        case: Mapping[str, str | int | float] | None = None,
    ) -> Row:
        """Add a figure; with a reference its ratio (value / reference) is added too."""
        row = Row(
            name=named(measure, case or {}),
            value=_finite(value),
            unit=unit,
            reference=_finite(reference),
            ratio=_ratio(value, reference),
        )
        assert all(row.name != other.name for other in self.rows), f"{row.name} is reported twice"
        self.rows.append(row)
        if self._options.json:
            # At once, so that a run that fails later has still told what it measured.
            print(json.dumps(asdict(row), allow_nan=False), flush=True)
        return row

    def show(self) -> None:
        """Print the table, unless every row has been printed as JSON already."""
        if not self._options.json:
            print("\n".join(table(self.rows)))


def run_bench(
    description: str,
    measure: Callable[[Options, Report], None],
    arguments: Sequence[str] | None = None,
) -> Report:
    """Parse the options, measure, show: the whole `main` of a benchmark."""
    return show_run(options_of(parser(description).parse_args(arguments)), measure)


def show_run(options: Options, measure: Callable[[Options, Report], None]) -> Report:
    """Measure and show; what was added before a failure is shown as well."""
    # The machine goes to stderr with --json, where stdout holds nothing but rows.
    print(machine(), file=sys.stderr if options.json else sys.stdout, flush=True)
    report = Report(options)
    try:
        measure(options, report)
    finally:
        report.show()
    return report


def parser(description: str) -> argparse.ArgumentParser:
    """The options every benchmark has; a benchmark may add its own."""
    made = argparse.ArgumentParser(description=description)
    made.add_argument("--json", action="store_true", help="one JSON object a line, no table")
    made.add_argument("--quick", action="store_true", help="the small size that CI runs")
    made.add_argument(
        "--data",
        type=Path,
        default=DATA_DIR,
        metavar="DIR",
        help="recorded data (default: %(default)s)",
    )
    return made


def options_of(arguments: argparse.Namespace) -> Options:
    """The shared options out of parsed arguments."""
    return Options(quick=arguments.quick, json=arguments.json, data=arguments.data)


def named(measure: str, case: Mapping[str, str | int | float]) -> str:
    """A row's name: `measure`, or `measure[key=value,...]` in the order given."""
    if not case:
        return measure
    return f"{measure}[{','.join(f'{key}={value}' for key, value in case.items())}]"


def percentile(samples: Sequence[float], share: float) -> float:
    """The smallest sample that at least `share` (0 to 1) of all samples do not exceed."""
    assert samples, "no samples"
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def table(rows: Sequence[Row]) -> list[str]:
    """The rows as lines of aligned text."""
    head = ("NAME", "VALUE", "UNIT", "REFERENCE", "RATIO")
    cells = [head] + [
        (row.name, _shown(row.value), row.unit, _shown(row.reference), _shown(row.ratio))
        for row in rows
    ]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    ]


def machine() -> str:
    """The machine in one line: an absolute figure means nothing without it."""
    return (
        f"# {_first(_PROC_CPUINFO, 'model name') or platform.machine()}, {_cpus()} CPUs, "
        f"{_memory_gib()} GiB, Linux {platform.release()}, Python {platform.python_version()}"
    )


def _cpus() -> int:
    return sum(line.startswith("processor") for line in _lines(_PROC_CPUINFO))


def _memory_gib() -> int:
    kib = _first(_PROC_MEMINFO, "MemTotal").split()
    return round(int(kib[0]) / 2**20) if kib else 0


def _first(file: Path, key: str) -> str:
    """What stands behind the first `key:` of a /proc file; empty if nothing does."""
    for line in _lines(file):
        name, _, value = line.partition(":")
        if name.strip() == key:
            return value.strip()
    return ""


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


def _finite(value: float | None) -> float | None:
    """JSON knows no NaN and no infinity."""
    return value if value is None or math.isfinite(value) else None


def _ratio(value: float | None, reference: float | None) -> float | None:
    if value is None or not reference:
        return None
    return _finite(value / reference)


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
