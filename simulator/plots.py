"""Plots of runs as SVG: one picture a question, a colour per policy, the same in every process."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import StringIO

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from scheduler.domain.instants import HOUR, SECOND
from simulator.confidence import mean
from simulator.run_folder import StoredRun

HOUR_S = 3_600.0
WIDTH_IN, HEIGHT_IN = 6.4, 3.4
POINTS_MAX = 500
"""Of one curve: more are not seen."""

STYLE = {
    "svg.hashsalt": "dally",
    "svg.fonttype": "none",
    "font.size": 9.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
}

ValuesOf = Callable[[StoredRun], Sequence[float]]
CurveOf = Callable[[StoredRun], Sequence[float]]

Runs = Mapping[str, Sequence[StoredRun]]
"""Runs of one cell by policy, one for each seed."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A picture with what it shows."""

    title: str
    svg: str


def plots_of(runs: Runs) -> Iterator[Plot]:
    """All plots of one cell."""
    yield _cdf(runs, "Completion time of jobs", lambda run: [j.jct for j in run.jobs])
    yield _cdf(runs, "Time jobs wait for GPUs", lambda run: [j.queueing for j in run.jobs])
    yield _over_time(runs, "GPUs held over GPUs there are", _utilisation)
    yield _over_time(runs, "Jobs that wait", lambda run: run.timeline.jobs_waiting)
    yield _tiers(runs)
    yield _bars(runs, "Exposed communication, GPU-hours", "exposed_communication_gpu_s", 1 / HOUR_S)
    yield _bars(runs, "Preemptions per job", "preemptions_per_job")
    yield _bars(runs, "Fragmentation: share of GPUs free though a job would fit", "fragmentation")
    if any(run.timers for each in runs.values() for run in each):
        yield _timers(runs)


@contextmanager
def picture(title: str, made: list[Plot]) -> Iterator[Axes]:
    """Axes to draw on; the picture is added to `made` when all is drawn."""
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]  # its stubs list every setting
        figure = Figure(figsize=(WIDTH_IN, HEIGHT_IN), layout="constrained")
        axes = figure.subplots()
        yield axes
        text = StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    made.append(Plot(title, re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)))


def _cdf(runs: Runs, title: str, values_of: ValuesOf) -> Plot:
    made: list[Plot] = []
    with picture(title, made) as axes:
        for policy, each in runs.items():
            values = sorted(max(1.0, v / SECOND) for run in each for v in values_of(run))
            last = len(values) - 1
            places = sorted({round(i * last / (POINTS_MAX - 1)) for i in range(POINTS_MAX)})
            axes.plot(
                [values[p] for p in places], [(p + 1) / len(values) for p in places], label=policy
            )
        axes.set_xscale("log")
        axes.set_xlabel("seconds")
        axes.set_ylabel("share of jobs")
        axes.legend(loc="lower right")
    return made[0]


def _over_time(runs: Runs, title: str, values_of: CurveOf) -> Plot:
    """The first seed of each policy: averaged curves would hide what happened."""
    made: list[Plot] = []
    with picture(title, made) as axes:
        for policy, each in runs.items():
            run = each[0]
            axes.plot(
                [at / HOUR_S / 24 for at in run.timeline.at_s],
                list(values_of(run)),
                label=policy,
                linewidth=0.9,
            )
        axes.set_xlabel("days")
        axes.set_ylim(bottom=0)
        axes.legend()
    return made[0]


def _utilisation(run: StoredRun) -> list[float]:
    line = run.timeline
    return [
        held / available if available else 0.0
        for held, available in zip(line.gpus_held, line.gpus_available, strict=True)
    ]


def _tiers(runs: Runs) -> Plot:
    made: list[Plot] = []
    with picture("GPU-hours held at each tier, mean of a run", made) as axes:
        names = sorted(
            {t for each in runs.values() for run in each for j in run.jobs for t in j.held_by_tier}
        )
        base = [0.0] * len(runs)
        for tier in names:
            hours = [
                sum(j.gpus * j.held_by_tier.get(tier, 0) for run in each for j in run.jobs)
                / HOUR
                / len(each)
                for each in runs.values()
            ]
            axes.bar(list(runs), hours, bottom=base, label=tier)
            base = [low + high for low, high in zip(base, hours, strict=True)]
        axes.tick_params(axis="x", rotation=30)
        axes.legend()
    return made[0]


def _bars(runs: Runs, title: str, metric: str, scale: float = 1.0) -> Plot:
    made: list[Plot] = []
    with picture(title, made) as axes:
        bounds = [mean([run.fact(metric) * scale for run in each]) for each in runs.values()]
        errors = [
            [bound.value - bound.low for bound in bounds],
            [bound.high - bound.value for bound in bounds],
        ]
        axes.bar(list(runs), [bound.value for bound in bounds], yerr=errors, capsize=3)
        axes.tick_params(axis="x", rotation=30)
    return made[0]


def _timers(runs: Runs) -> Plot:
    made: list[Plot] = []
    with picture("Timers jobs began to wait with, by level and policy", made) as axes:
        for policy, each in runs.items():
            run = each[0]
            for level in sorted({timer.level for timer in run.timers}):
                points = [
                    (timer.at / HOUR / 24, timer.timer / SECOND)
                    for timer in run.timers
                    if timer.level == level and timer.timer is not None
                ]
                step = max(1, len(points) // POINTS_MAX)
                if points:
                    days, waits = zip(*points[::step], strict=True)
                    axes.plot(days, waits, ".", markersize=3, label=f"{policy}: {level}")
        axes.set_xlabel("days")
        axes.set_ylabel("seconds")
        axes.set_yscale("symlog", linthresh=1.0)
        axes.legend(markerscale=3)
    return made[0]
