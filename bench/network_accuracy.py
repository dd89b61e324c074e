"""How far the network model is from measured points that had no part in its constants."""

import argparse
from collections.abc import Mapping, Sequence
from functools import partial
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
from bench.network_pairs import Pair, placement_pairs, ranking_candidates
from bench.network_rows import collective_rows
from bench.network_steps import ComputeTimes, step_rows
from bench.network_table import PointsFileError, Unused, names_of
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
    evaluate = partial(evaluate_files, files) if any(files.values()) else evaluate_held_out
    try:
        return show_run(options_of(parsed), evaluate)
    except PointsFileError as error:
        made.exit(1, f"error: {error}\n")


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
    _add_unused(report, "profiles_not_used", times.unused)
    pairs, pairs_unused = placement_pairs(data / "placement_slowdowns.csv", times)
    steps = measured_rows(data / "model_profiles.csv", pairs, times)
    searched = SEARCH_STEPS_QUICK if options.quick else SEARCH_STEPS
    fabric_of = leaving_one_out(steps, pairs, steps=searched)
    left_out = step_misses(steps, fabric_of)
    _add_errors(report, "iteration", "leaving one model out", left_out, target=15)
    _add_cases(report, "iteration_cluster_error", by_case(left_out))
    _add_unused(report, "iteration_not_compared", step_rows(data / "model_profiles.csv", times)[1])
    _add_ranking(report, "leaving one model out", ranked(pairs, fabric_of))
    _add_unranked(report, pairs, pairs_unused)


def evaluate_files(files: Files, options: Options, report: Report) -> None:
    """The committed constants on other files; PointsFileError if one has nothing to compare."""
    found: dict[Path, int] = {}
    if files["collectives"]:
        found[files["collectives"]] = _evaluate_collectives(files["collectives"], report)
    if files["profiles"] or files["slowdowns"]:
        times = _compute_times(files["profiles"], options, report)
        if files["profiles"]:
            found[files["profiles"]] = _evaluate_steps(files["profiles"], times, report)
        if files["slowdowns"]:
            found[files["slowdowns"]] = _evaluate_ranking(files["slowdowns"], times, report)
    empty = [str(path) for path, compared in found.items() if not compared]
    if empty:
        why = "no row can be compared; the rows `..._not_compared` say why"
        raise PointsFileError(f"{', '.join(empty)}: {why}")


def _evaluate_collectives(path: Path, report: Report) -> int:
    rows, unused = collective_rows(path)
    misses = collective_misses(rows, COMMITTED)
    _add_errors(report, "collectives", "all", misses, target=None)
    fitted = [miss for miss in misses if miss.case in FITTED_FAMILIES]
    others = [miss for miss in misses if miss.case not in FITTED_FAMILIES]
    if fitted:
        _add_errors(report, "collectives", "systems of the fit", fitted, target=10)
    if others:
        _add_errors(report, "collectives", "other systems", others, target=25)
    _add_cases(report, "collectives_system_error", by_case(misses))
    _add_unused(report, "collectives_not_compared", unused)
    return len(misses)


def _compute_times(profiles: Path | None, options: Options, report: Report) -> ComputeTimes:
    """From the given profiles first, then from the recorded ones, then from the built-in table."""
    recorded = options.data / "network" / "model_profiles.csv"
    if not recorded.exists():
        case = {"on": recorded.name, "why": "the recorded profiles are not there"}
        report.add("profiles_not_used", None, "rows", case=case)
    given = [profiles] if profiles and profiles != recorded else []
    times = ComputeTimes([*given, *([recorded] if recorded.exists() else [])])
    _add_unused(report, "profiles_not_used", times.unused)
    return times


def _evaluate_steps(path: Path, times: ComputeTimes, report: Report) -> int:
    rows, unused = step_rows(path, times)
    misses = step_misses(rows, committed_fabric)
    _add_errors(report, "iteration", "all", misses, target=15)
    _add_cases(report, "iteration_cluster_error", by_case(misses))
    _add_unused(report, "iteration_not_compared", unused)
    return len(misses)


def _evaluate_ranking(path: Path, times: ComputeTimes, report: Report) -> int:
    pairs, unused = placement_pairs(path, times)
    results = ranked(pairs, committed_fabric)
    _add_ranking(report, "all", results)
    _add_unranked(report, pairs, unused)
    return len(results)


def _add_errors(
    report: Report, what: str, split: str, misses: Sequence[Miss], *, target: float | None
) -> None:
    """Median error in percent, none of nothing; the target stands as the reference."""
    error = 100 * median(miss.error for miss in misses) if misses else None
    report.add(f"{what}_median_error", error, "percent", reference=target, case={"on": split})
    report.add(f"{what}_points", len(misses), "points", case={"on": split})


def _add_cases(report: Report, measure: str, cases: Mapping[str, Sequence[float]]) -> None:
    for case, errors in cases.items():
        report.add(measure, 100 * median(errors), "percent", case={"on": case, "n": len(errors)})


def _add_ranking(report: Report, split: str, results: Sequence[Ranked]) -> None:
    scored = sum(result.score for result in results)
    right = 100 * scored / len(results) if results else None
    report.add("ranking_right", right, "percent", reference=90, case={"on": split})
    report.add("ranking_pairs", len(results), "pairs", case={"on": split})
    cases: dict[str, list[float]] = {}
    for result in results:
        cases.setdefault(result.case, []).append(result.score)
    for case, scores in sorted(cases.items()):
        share = 100 * sum(scores) / len(scores)
        report.add("ranking_by_cluster", share, "percent", case={"on": case, "n": len(scores)})


def _add_unranked(report: Report, pairs: Sequence[Pair], unused: Sequence[Unused]) -> None:
    """Pairs that say nothing certain, and rows that are no pairs."""
    _add_unused(report, "ranking_not_compared", [*unused, *ranking_candidates(pairs)[1]])


def _add_unused(report: Report, measure: str, unused: Sequence[Unused]) -> None:
    """Rows that are not compared, counted and named."""
    for system, reason, count in names_of(unused):
        report.add(measure, count, "rows", case={"on": system, "why": reason})


if __name__ == "__main__":
    main()
