"""How far the network model is from measured points that had no part in its constants."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from bench.network_classes import COMMITTED
from bench.network_evaluation import (
    Miss,
    Ranked,
    by_case,
    collective_misses,
    committed_fabric,
    held_out_sizes,
    held_out_systems,
    leaving_one_out,
    measured_rows,
    ranked,
    step_misses,
)
from bench.network_fitted import FITTED_FAMILIES
from bench.network_pairs import placement_pairs
from bench.network_rows import Unused, collective_rows
from bench.network_steps import ComputeTimes, names_of, step_rows
from bench.reporting import Options, Report, options_of, parser, show_run

SEARCH_STEPS = 150
SEARCH_STEPS_QUICK = 40

Files = Mapping[str, Path | None]


def main(arguments: Sequence[str] | None = None) -> Report:
    """Held-out errors on the measured points; with files, the committed model's on those."""
    made = parser(__doc__ or "")
    for name, columns in (
        ("collectives", "nccl_measured.csv"),
        ("slowdowns", "placement_slowdowns.csv"),
        ("profiles", "model_profiles.csv"),
    ):
        made.add_argument(
            f"--{name}",
            type=Path,
            metavar="FILE",
            help=f"evaluate the fitted model on FILE (columns of {columns}), without refitting",
        )
    parsed: argparse.Namespace = made.parse_args(arguments)
    files: Files = {
        name: getattr(parsed, name) for name in ("collectives", "slowdowns", "profiles")
    }
    return show_run(
        options_of(parsed),
        lambda options, report: (
            evaluate_files(files, options, report)
            if any(files.values())
            else evaluate_held_out(options, report)
        ),
    )


def evaluate_held_out(options: Options, report: Report) -> None:
    """Constants fitted without the points they are tested on."""
    data = options.data / "network"
    rows, unused = collective_rows(data / "nccl_measured.csv")
    _add_errors(report, "collectives", "held-out sizes", held_out_sizes(rows), target=10)
    misses = held_out_systems(rows)
    _add_errors(report, "collectives", "held-out systems", misses, target=25)
    _add_cases(report, "collectives_system_error", by_case(misses))
    _add_unused(report, "collectives_not_compared", unused)
    times = ComputeTimes([data / "model_profiles.csv"])
    pairs, pairs_unused = placement_pairs(data / "placement_slowdowns.csv", times)
    steps = measured_rows(data / "model_profiles.csv", pairs, times)
    searched = SEARCH_STEPS_QUICK if options.quick else SEARCH_STEPS
    fabric_of = leaving_one_out(steps, pairs, steps=searched)
    left_out = step_misses(steps, fabric_of)
    _add_errors(report, "iteration", "leaving one model out", left_out, target=15)
    _add_cases(report, "iteration_cluster_error", by_case(left_out))
    _add_unused(report, "iteration_not_compared", step_rows(data / "model_profiles.csv", times)[1])
    _add_ranking(report, "leaving one model out", ranked(pairs, fabric_of))
    _add_unused(report, "ranking_not_compared", pairs_unused)


def evaluate_files(files: Files, options: Options, report: Report) -> None:
    """The committed constants on other files."""
    if files["collectives"]:
        rows, unused = collective_rows(files["collectives"])
        misses = collective_misses(rows, COMMITTED)
        _add_errors(report, "collectives", "all", misses, target=None)
        fitted = [miss for miss in misses if miss.case in FITTED_FAMILIES]
        others = [miss for miss in misses if miss.case not in FITTED_FAMILIES]
        _add_errors(report, "collectives", "systems of the fit", fitted, target=10)
        _add_errors(report, "collectives", "other systems", others, target=25)
        _add_cases(report, "collectives_system_error", by_case(misses))
        _add_unused(report, "collectives_not_compared", unused)
    # Compute times come from the given profiles first, then from the recorded ones.
    recorded = options.data / "network" / "model_profiles.csv"
    known = [path for path in (files["profiles"], recorded) if path and path.exists()]
    times = ComputeTimes(known)
    if files["profiles"]:
        steps, unprofiled = step_rows(files["profiles"], times)
        _add_errors(report, "iteration", "all", step_misses(steps, committed_fabric), target=15)
        _add_cases(report, "iteration_cluster_error", by_case(step_misses(steps, committed_fabric)))
        _add_unused(report, "iteration_not_compared", unprofiled)
    if files["slowdowns"]:
        pairs, unused = placement_pairs(files["slowdowns"], times)
        _add_ranking(report, "all", ranked(pairs, committed_fabric))
        _add_unused(report, "ranking_not_compared", unused)


def _add_errors(
    report: Report, what: str, split: str, misses: Sequence[Miss], *, target: float | None
) -> None:
    """Median error in percent; the target stands as the reference."""
    if misses:
        error = 100 * median(miss.error for miss in misses)
        report.add(f"{what}_median_error", error, "percent", reference=target, case={"on": split})
        report.add(f"{what}_points", len(misses), "points", case={"on": split})


def _add_cases(report: Report, measure: str, cases: Mapping[str, Sequence[float]]) -> None:
    for case, errors in cases.items():
        report.add(measure, 100 * median(errors), "percent", case={"on": case, "n": len(errors)})


def _add_ranking(report: Report, split: str, results: Sequence[Ranked]) -> None:
    if not results:
        return
    right = 100 * sum(result.score for result in results) / len(results)
    report.add("ranking_right", right, "percent", reference=90, case={"on": split})
    report.add("ranking_pairs", len(results), "pairs", case={"on": split})
    cases: dict[str, list[float]] = {}
    for result in results:
        cases.setdefault(result.case, []).append(result.score)
    for case, scores in sorted(cases.items()):
        share = 100 * sum(scores) / len(scores)
        report.add("ranking_by_cluster", share, "percent", case={"on": case, "n": len(scores)})


def _add_unused(report: Report, measure: str, unused: Sequence[Unused]) -> None:
    """Rows that are not compared, counted and named."""
    for system, reason, count in names_of(unused):
        report.add(measure, count, "rows", case={"on": system, "why": reason})


if __name__ == "__main__":
    main()
