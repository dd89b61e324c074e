"""Arithmetic on resources."""

from scheduler.domain.resources import Remainder, Resources, remainder


def test_foreign_use_is_subtracted() -> None:
    capacity = Resources(cpu_milli=64_000, memory_bytes=100, extended=(("rdma", 8),))
    used = Resources(cpu_milli=4_000, memory_bytes=30, extended=(("rdma", 1),))

    assert remainder(capacity, used) == Remainder(
        resources=Resources(cpu_milli=60_000, memory_bytes=70, extended=(("rdma", 7),))
    )


def test_more_foreign_use_than_capacity_counts_as_nothing_left_and_is_reported() -> None:
    capacity = Resources(cpu_milli=1_000, memory_bytes=100, extended=(("rdma", 1),))
    used = Resources(cpu_milli=1_500, memory_bytes=100, extended=(("rdma", 2),))

    assert remainder(capacity, used) == Remainder(
        resources=Resources(extended=(("rdma", 0),)), overdrawn=("cpu", "rdma")
    )
