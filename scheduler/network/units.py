"""Bytes and bytes per second. GB is 1e9, GiB is 2**30: mixing them up is a 7 % error."""

from typing import Final

KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
GB: Final = 1e9

MICROSECOND: Final = 1e-6


def gigabits_per_s(rate: float) -> float:
    """Bytes per second of a link whose rate is given in Gb/s (1 Gb/s = 0.125 GB/s)."""
    return rate * 0.125 * GB


def gigabytes_per_s(rate: float) -> float:
    """Bytes per second of a rate given in GB/s."""
    return rate * GB
