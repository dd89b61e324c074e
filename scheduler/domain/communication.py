"""What a job puts on the wire in one training iteration, as its file declares it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CommunicationProfile:
    """The communication section of a job; every field may be left out."""

    model: str = ""
    """Name of a known model profile; empty when the numbers are given instead."""
