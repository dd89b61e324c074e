"""Fits of a cluster's constants to measured step times, and to ratios of step times."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import log
from statistics import mean

from bench.network_clusters import predicted_step_s
from bench.network_fit import search
from bench.network_pairs import Pair
from bench.network_steps import StepRow
from scheduler.network.fabric import Fabric
from scheduler.network.presets import PRESETS

ERROR_MAX = 0.5
"""Rows off by more than this count no more: some are measured wrong."""

Change = Callable[[Fabric, float], Fabric]


def _inside(name: str) -> Change:
    def change(fabric: Fabric, value: float) -> Fabric:
        inside = replace(fabric.default_node.inside, **{name: value})
        return replace(fabric, default_node=replace(fabric.default_node, inside=inside))

    return change


def _network(name: str) -> Change:
    def change(fabric: Fabric, value: float) -> Fabric:
        return replace(fabric, network=replace(fabric.network, **{name: value}))

    return change


def _packing(fabric: Fabric, value: float) -> Fabric:
    """`value` is what the factor has above 1."""
    node = replace(fabric.default_node, packing_factor=1.0 + value)
    return replace(fabric, default_node=node)


def _overlap(fabric: Fabric, value: float) -> Fabric:
    """One share inside the node and over the network: it is the program's more than the wire's."""
    share = min(1.0, value)
    return _network("overlap")(_inside("overlap")(fabric, share), share)


CHANGES: Mapping[str, Change] = {
    "inside.ring_bytes_per_s": _inside("ring_bytes_per_s"),
    "inside.hop_s": _inside("hop_s"),
    "inside.overlap": lambda fabric, value: _inside("overlap")(fabric, min(1.0, value)),
    "network.efficiency": _network("efficiency"),
    "network.two_node_factor": _network("two_node_factor"),
    "network.ring_hop_s": _network("ring_hop_s"),
    "overlap": _overlap,
    "packing": _packing,
}

STARTS: Mapping[str, Mapping[str, float]] = {
    "t4-tcp": {
        "inside.ring_bytes_per_s": 2e9,
        "network.efficiency": 0.1,
        "network.two_node_factor": 0.65,
        "network.ring_hop_s": 1e-4,
        "overlap": 0.6,
    },
    "rtx2080ti-ethernet": {
        "inside.ring_bytes_per_s": 1.8e9,
        "inside.hop_s": 3e-4,
        "network.efficiency": 0.5,
        "network.ring_hop_s": 1e-3,
        "overlap": 0.4,
    },
    "a100-hdr": {"packing": 0.03},
    "v100-edr": {"packing": 0.05, "inside.overlap": 0.5},
    "p100-tcp": {
        "packing": 0.02,
        "inside.ring_bytes_per_s": 3e9,
        "inside.overlap": 0.5,
    },
    "k80-tcp": {
        "packing": 0.1,
        "inside.ring_bytes_per_s": 3e9,
        "inside.overlap": 0.5,
    },
}
"""Which numbers of which cluster are searched, and from where."""


def changed(name: str, values: Sequence[float]) -> Fabric:
    """The preset with these numbers, in the order of its `STARTS`."""
    fabric = PRESETS[name]
    for key, value in zip(STARTS[name], values, strict=True):
        fabric = CHANGES[key](fabric, value)
    return fabric


def fit_cluster(
    name: str, rows: Sequence[StepRow], pairs: Sequence[Pair], *, steps: int
) -> tuple[Fabric, Mapping[str, float]]:
    """The cluster's fabric with the numbers that fit its rows and pairs best."""
    start = STARTS[name]
    if not rows and not pairs:
        return PRESETS[name], {}

    def loss(values: tuple[float, ...]) -> float:
        fabric = changed(name, values)
        errors = [abs(log(predicted_step_s(row, fabric) / row.step_s)) for row in rows]
        errors += [abs(log(predicted_slowdown(pair, fabric) / pair.slowdown)) for pair in pairs]
        return mean(min(error, ERROR_MAX) for error in errors)

    found = search(loss, list(start.values()), steps=steps)
    return changed(name, found.numbers), dict(zip(start, found.numbers, strict=True))


def predicted_slowdown(pair: Pair, fabric: Fabric) -> float:
    """Step time at the other placement divided by that at the first."""
    one, other = pair_steps_s(pair, fabric)
    return other / one


def pair_steps_s(pair: Pair, fabric: Fabric) -> tuple[float, float]:
    """Predicted step times at both placements."""
    return (
        predicted_step_s(
            pair.job, fabric, ranks_by_node=pair.one.ranks_by_node, variant=pair.one.variant
        ),
        predicted_step_s(
            pair.job, fabric, ranks_by_node=pair.other.ranks_by_node, variant=pair.other.variant
        ),
    )
