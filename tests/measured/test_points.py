"""Forms of the model on every measured point: units, and buckets of real layers."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import pytest

from bench.network_rows import collective_rows
from bench.network_table import read_csv
from scheduler.network.collectives import bus_factor
from scheduler.network.overlap import BUCKET_BYTES, bucketed_step_s
from scheduler.network.units import GB, MICROSECOND
from tests.unit.network.streams import play_buckets

DIGITS_LOST = 0.03
"""Rates are printed with two or three digits."""

INEXACT = ("averaged separately", "rounded values in thread")
"""Notes of rows whose time and rate do not belong to one run."""

RATE_MIN = 1.0
"""GB/s, below which a rate with two decimals has too few digits."""


def test_time_and_bus_rate_say_the_same_on_every_point_that_has_both(data_dir: Path) -> None:
    path = data_dir / "network" / "nccl_measured.csv"
    rows, _ = collective_rows(path)
    by_point = {(row.system, row.size, row.time_s): row for row in rows}
    compared = 0
    for raw in read_csv(path):
        rate = float(raw["busbw_GBps"] or 0)
        time_s = float(raw["time_us"] or 0) * MICROSECOND
        row = by_point.get((raw["system"], float(raw["size_bytes"] or 0), time_s))
        if row is None or rate < RATE_MIN or any(note in row.notes for note in INEXACT):
            continue
        found = bus_factor(row.collective, row.ranks) * row.size / time_s / GB
        assert found == pytest.approx(rate, rel=DIGITS_LOST), raw
        # The same sizes taken for GiB and their rates for GB would be 7 % off.
        assert found * 1.0737 != pytest.approx(rate, rel=DIGITS_LOST)
        compared += 1
    assert compared > 50


def test_buckets_of_real_layers_are_exchanged_as_two_streams_would(data_dir: Path) -> None:
    models = 0
    for model, group in groupby(
        read_csv(data_dir / "network" / "model_layers.csv"), key=lambda row: row["model"]
    ):
        layers = list(group)
        forward_s = sum(float(row["fwd_ms"] or 0) for row in layers) / 1000
        backward_s = sum(float(row["bwd_ms"] or 0) for row in layers) / 1000
        ready, sizes = _buckets(layers, forward_s)
        total = sum(sizes)
        if not total or not backward_s:
            continue
        # As long as the backward pass: the case in which it matters what hides.
        exchange_s = [backward_s * size / total for size in sizes]
        step_s = bucketed_step_s(
            forward_s=forward_s,
            backward_s=backward_s,
            optimizer_s=0.0,
            ready_s=ready,
            exchange_s=exchange_s,
        )
        shares = [(at - forward_s) / backward_s for at in ready]
        assert step_s == pytest.approx(play_buckets(forward_s, backward_s, shares, exchange_s))
        compute_s = forward_s + backward_s
        assert compute_s + exchange_s[-1] <= step_s * (1 + 1e-9), model
        assert step_s <= compute_s + sum(exchange_s) * (1 + 1e-9), model
        models += 1
    assert models >= 3


def _buckets(
    layers: Sequence[Mapping[str, str]], forward_s: float
) -> tuple[list[float], list[float]]:
    """When each bucket's gradients exist, and its bytes; the last layers' come first."""
    at_s, filled = forward_s, 0.0
    ready: list[float] = []
    sizes: list[float] = []
    for row in reversed(layers):
        at_s += float(row["bwd_ms"] or 0) / 1000
        filled += float(row["param_bytes"] or 0)
        if filled >= BUCKET_BYTES:
            ready.append(at_s)
            sizes.append(filled)
            filled = 0.0
    if filled:
        ready.append(at_s)
        sizes.append(filled)
    return ready, sizes
