"""Prints the constants of scheduler/network/links.py and presets.py, fitted to the measured points.

The collectives' constants come from one linear fit a class and are found again to the last digit;
those of step times come from a search and move in the third.
"""

from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path

from bench.network_classes import Constants, fit_all, inside_class, network_class
from bench.network_clusters import preset_name
from bench.network_evaluation import measured_rows, ratio_pairs
from bench.network_pairs import placement_pairs
from bench.network_rows import CollectiveRow, collective_rows, is_nvlink_network
from bench.network_step_fit import STARTS, fit_cluster
from bench.network_steps import ComputeTimes
from bench.reporting import options_of, parser
from scheduler.network.fabric import InsideLinks, NetworkLinks

SEARCH_STEPS = 300


def main() -> None:
    """Fit and print."""
    options = options_of(parser("Fits the network model's constants.").parse_args())
    data = options.data / "network"
    rows, _ = collective_rows(data / "nccl_measured.csv")
    constants = fit_all(rows)
    for line in collective_lines(rows, constants):
        print(line)
    steps = 40 if options.quick else SEARCH_STEPS
    for line in cluster_lines(data, steps=steps):
        print(line)


def collective_lines(rows: Iterable[CollectiveRow], constants: Constants) -> Iterable[str]:
    """The classes of links, one a line, and the systems that stand behind them."""
    rows = list(rows)
    for name, links in sorted(constants.inside.items()):
        if any(row.nodes == 1 and inside_class(row) == name for row in rows):
            yield f"inside {name}: {shown(links)}"
    for name, network in sorted(constants.network.items()):
        members = (row for row in rows if row.nodes > 1 and not is_nvlink_network(row))
        if name == "infiniband-sharp" or any(network_class(row) == name for row in members):
            yield f"network {name}: {shown(network)}"
    yield "systems: " + "; ".join(sorted({row.family for row in rows}))


def cluster_lines(data: Path, *, steps: int) -> Iterable[str]:
    """The numbers of every cluster that step times were measured on."""
    times = ComputeTimes([data / "model_profiles.csv"])
    pairs, _ = placement_pairs(data / "placement_slowdowns.csv", times)
    rows = measured_rows(data / "model_profiles.csv", pairs, times)
    for name in sorted(STARTS):
        own = [row for row in rows if preset_name(row) == name]
        ratios = [pair for pair in ratio_pairs(pairs) if preset_name(pair.job) == name]
        _, numbers = fit_cluster(name, own, ratios, steps=steps)
        found = ", ".join(f"{key}={value:.3g}" for key, value in numbers.items())
        yield f"cluster {name} ({len(own)} steps, {len(ratios)} ratios): {found}"


def shown(links: InsideLinks | NetworkLinks) -> str:
    """Every number of a class with four digits."""
    return ", ".join(f"{f.name}={getattr(links, f.name):.4g}" for f in fields(links))


if __name__ == "__main__":
    main()
