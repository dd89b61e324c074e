"""The committed constants are what the fit finds in the measured points."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.fit_network import SEARCH_STEPS, shown
from bench.network_classes import fit_all, inside_class, network_class
from bench.network_clusters import preset_name
from bench.network_evaluation import measured_rows, ratio_pairs
from bench.network_fitted import FITTED_FAMILIES
from bench.network_pairs import placement_pairs
from bench.network_rows import collective_rows, is_nvlink_network
from bench.network_step_fit import CHANGES, STARTS, fit_cluster
from bench.network_steps import ComputeTimes
from scheduler.network.fabric import Fabric
from scheduler.network.links import INSIDE, NETWORK
from scheduler.network.presets import PRESETS


def test_the_constants_of_collectives_are_found_again_to_the_last_digit(data_dir: Path) -> None:
    rows, _ = collective_rows(data_dir / "network" / "nccl_measured.csv")
    constants = fit_all(rows)
    over = [row for row in rows if row.nodes > 1 and not is_nvlink_network(row)]
    inside = {inside_class(row) for row in rows if row.nodes == 1} & constants.inside.keys()
    network = {network_class(row) for row in over} & constants.network.keys()
    assert {"nvlink3", "nvlink4", "nvlink5"} <= inside
    assert {"infiniband", "efa", "roce-50", "tcp"} <= network
    # How much hides behind backward is no matter of a collective: it is fitted to step times.
    assert {name: shown(replace(constants.inside[name], overlap=0.5)) for name in inside} == {
        name: shown(replace(INSIDE[name], overlap=0.5)) for name in inside
    }
    assert {name: shown(constants.network[name]) for name in network} == {
        name: shown(NETWORK[name]) for name in network
    }


def test_the_systems_behind_the_constants_are_those_of_the_file(data_dir: Path) -> None:
    rows, _ = collective_rows(data_dir / "network" / "nccl_measured.csv")
    assert {row.family for row in rows} == FITTED_FAMILIES


def numbers_of(fabric: Fabric, name: str) -> Iterator[tuple[str, float]]:
    """The numbers of a preset that are fitted to step times, as `fit_cluster` names them."""
    for key in STARTS[name]:
        match key.split("."):
            case ["packing"]:
                yield key, fabric.default_node.packing_factor - 1.0
            case ["overlap"]:
                yield key, fabric.network.overlap
            case ["inside", field]:
                yield key, float(getattr(fabric.default_node.inside, field))
            case ["network", field]:
                yield key, float(getattr(fabric.network, field))
            case _:
                raise AssertionError(key)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(STARTS))
def test_the_constants_of_step_times_are_found_again(name: str, data_dir: Path) -> None:
    folder = data_dir / "network"
    times = ComputeTimes([folder / "model_profiles.csv"])
    pairs, _ = placement_pairs(folder / "placement_slowdowns.csv", times)
    rows = [
        row
        for row in measured_rows(folder / "model_profiles.csv", pairs, times)
        if preset_name(row) == name
    ]
    ratios = [pair for pair in ratio_pairs(pairs) if preset_name(pair.job) == name]
    _, found = fit_cluster(name, rows, ratios, steps=SEARCH_STEPS)
    assert set(found) <= set(CHANGES)
    # A search ends within a hundredth of where it began; the committed numbers have three digits.
    assert found == {
        key: pytest.approx(value, rel=0.02, abs=0.001)
        for key, value in numbers_of(PRESETS[name], name)
    }
