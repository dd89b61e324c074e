"""The plots of the study's page, as SVG."""

from collections.abc import Sequence
from pathlib import Path

from bench.study.reading import CellRuns
from bench.study.telling import GAINS, gain_ratios, geometric, judged
from simulator.plots import Plot, picture


def plot(cells: Sequence[CellRuns], folder: Path) -> None:
    """Write all of them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, made in (
        ("jct", _by_cell(cells, "jct_mean_s")),
        ("makespan", _by_cell(cells, "makespan_s")),
        ("gains", _by_baseline(cells)),
    ):
        (folder / f"{name}.svg").write_text(made.svg + "\n", encoding="utf-8")


def _by_cell(cells: Sequence[CellRuns], metric: str) -> Plot:
    """Ours over the best baseline with its bounds, one line a cell."""
    made: list[Plot] = []
    found = list(judged(cells, metric))
    with picture(f"{metric} of dally over that of the best length-blind baseline", made) as axes:
        axes.figure.set_figheight(0.8 + 0.2 * max(3, len(found)))  # type: ignore[union-attr]  # a whole figure
        places = range(len(found))
        values = [bounds.value for _, _, bounds in found]
        errors = [
            [bounds.value - bounds.low for _, _, bounds in found],
            [bounds.high - bounds.value for _, _, bounds in found],
        ]
        axes.errorbar(values, list(places), xerr=errors, fmt="o", markersize=3, linewidth=1)
        axes.axvline(1.0, color="0.6", linewidth=0.8)
        axes.set_yticks(list(places), [f"{cell.name} ({best})" for cell, best, _ in found])
        axes.tick_params(axis="y", labelsize=6)
        axes.invert_yaxis()
        axes.set_xlabel("ratio with 95 % bounds; left of 1 dally is better")
    return made[0]


def _by_baseline(cells: Sequence[CellRuns]) -> Plot:
    """Geometric mean gains against each baseline."""
    made: list[Plot] = []
    names = sorted({name for cell in cells if not cell.is_troubled for name in cell.baselines()})
    with picture("Gain of dally, geometric mean over cells", made) as axes:
        shown = [gain for gain in GAINS if gain[1] in ("jct_mean_s", "makespan_s")]
        width = 0.8 / len(shown)
        for place, (title, metric, is_batch) in enumerate(shown):
            ratios = [gain_ratios(cells, metric, name, is_batch=is_batch) for name in names]
            gains = [100 * (1 - geometric(each)) if each else 0.0 for each in ratios]
            axes.bar(
                [number + place * width for number in range(len(names))],
                gains,
                width=width,
                label=title,
            )
        axes.set_xticks([number + width for number in range(len(names))], names, rotation=30)
        axes.tick_params(axis="x", labelsize=7)
        axes.set_ylabel("percent less than the baseline")
        axes.axhline(0.0, color="0.6", linewidth=0.8)
        axes.legend()
    return made[0]
