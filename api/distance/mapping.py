"""Domain -> wire, for estimates."""

from collections.abc import Iterable
from itertools import pairwise
from math import isfinite

from api.distance.schemas import SensitivityList, SensitivityView, TierView
from scheduler.control.estimating import Estimate


def to_sensitivities(estimates: Iterable[Estimate]) -> SensitivityList:
    """One view per GPU model."""
    return SensitivityList(items=[_to_view(estimate) for estimate in estimates])


def _to_view(estimate: Estimate) -> SensitivityView:
    found = estimate.sensitivity
    wider = {closer.tier: next_.tier for closer, next_ in pairwise(found.tiers)}
    wanted = found.bandwidth_wanted
    return SensitivityView(
        gpu_model=estimate.gpu_model,
        source=found.source,
        compute_seconds=found.compute_s,
        gradient_bytes=found.gradient_bytes,
        bandwidth_wanted=wanted if isfinite(wanted) else None,
        tiers=[
            TierView(
                level=tier.level,
                nodes=tier.shape.nodes,
                step_seconds=tier.step_s,
                predicted_seconds=tier.time.total_s,
                measured_seconds=tier.measured_s,
                source=tier.source,
                exposed_share=tier.time.exposed_share,
                step_slowdown=tier.step_slowdown,
                is_worth_waiting_for=tier.tier in wider
                and found.gap(tier.tier, wider[tier.tier]) > 0,
            )
            for tier in found.tiers
        ],
    )
