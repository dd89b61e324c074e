"""Runs -> one self-contained HTML page: a table of metrics and the plots, cell by cell."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from simulator.confidence import Bounded, mean, ratio
from simulator.plots import Runs, plots_of
from simulator.run_folder import StoredRun

CellKey = tuple[str, str, str, str]
"""Trace, cluster, load, congestion."""

METRICS = (
    ("mean JCT, s", "jct_mean_s"),
    ("p95 JCT, s", "jct_p95_s"),
    ("p99 JCT, s", "jct_p99_s"),
    ("makespan, s", "makespan_s"),
    ("queueing, s", "queueing_mean_s"),
    ("exposed communication, GPU-s", "exposed_communication_gpu_s"),
    ("slowdown", "slowdown_mean"),
    ("utilisation", "utilisation"),
    ("goodput", "goodput"),
    ("preemptions per job", "preemptions_per_job"),
    ("fairness rho, p99", "fairness_p99"),
    ("fragmentation", "fragmentation"),
)

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 84rem; padding: 0 1rem;
       color: #1d2330; background: #fff }
h1 { font-size: 1.5rem } h2 { font-size: 1.15rem; margin-top: 2.5rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px }
th, td { padding: .25rem .7rem; text-align: right; border-bottom: 1px solid #e4e7ee }
th:first-child, td:first-child { text-align: left }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(30rem, 1fr)); gap: 1.2rem }
figure { margin: 0 } figcaption { font-weight: 600; font-size: 13px }
svg { width: 100%; height: auto } p.note { color: #5a6376 }
.scroll { overflow-x: auto }
"""


def html_report(runs: Iterable[StoredRun]) -> str:
    """The page. Cells keep the order in which they come, policies too."""
    cells: dict[CellKey, dict[str, list[StoredRun]]] = {}
    for run in runs:
        cells.setdefault(_cell(run), {}).setdefault(run.variant, []).append(run)
    sections = "".join(_section(key, by_policy) for key, by_policy in cells.items())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Simulated runs</title><style>{STYLE}</style></head><body>"
        "<h1>Simulated runs</h1>"
        '<p class="note">Network profiles of jobs are drawn by the seed, unless the trace names '
        "models. Bounds hold with 95 % confidence over seeds; curves over time are those of the "
        f"first seed.</p>{sections}</body></html>\n"
    )


def _cell(run: StoredRun) -> CellKey:
    facts = run.facts
    load = facts.get("load")
    return (
        str(facts["trace"]),
        str(facts["cluster"]),
        "the trace's own pace" if load is None else f"load {load:g}",
        "network off" if facts["network"] == "off" else f"congestion {facts['congestion']:g}",
    )


def _section(key: CellKey, runs: Runs) -> str:
    seeds = max(len(each) for each in runs.values())
    title = escape(", ".join(key)) + f", {seeds} seed" + ("s" if seeds > 1 else "")
    figures = "".join(
        f"<figure><figcaption>{escape(plot.title)}</figcaption>{plot.svg}</figure>"
        for plot in plots_of(runs)
    )
    return (
        f"<section><h2>{title}</h2><div class='scroll'>{_table(runs)}</div>"
        f'<div class="plots">{figures}</div></section>'
    )


def _table(runs: Runs) -> str:
    first = next(iter(runs.values()))
    head = "".join(f"<th>{escape(title)}</th>" for title, _ in METRICS)
    baseline = next(iter(runs))
    rows = "".join(
        f"<tr><td>{escape(policy)}</td>{''.join(_cells(each, first))}</tr>"
        for policy, each in runs.items()
    )
    against = f"<th>mean JCT / {escape(baseline)}</th>"
    return f"<table><tr><th>policy</th>{head}{against}</tr>{rows}</table>"


def _cells(runs: Sequence[StoredRun], baseline: Sequence[StoredRun]) -> Iterator[str]:
    for _, name in METRICS:
        yield f"<td>{_words(mean([run.fact(name) for run in runs]))}</td>"
    if len(runs) == len(baseline):
        found = ratio(
            [run.fact("jct_mean_s") for run in runs], [run.fact("jct_mean_s") for run in baseline]
        )
        yield f"<td>{found.value:.3f} ({found.low:.3f} to {found.high:.3f})</td>"
    else:
        yield "<td>other seeds</td>"


def _words(value: Bounded) -> str:
    digits = 0 if abs(value.value) >= 100 else 3  # noqa: PLR2004 - small values need their decimals
    half = (value.high - value.low) / 2
    return f"{value.value:,.{digits}f}" + (f" ± {half:,.{digits}f}" if half else "")
