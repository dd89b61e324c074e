"""Strays -> what the server says of them."""

from collections.abc import Sequence

from api.strays.schemas import StrayView
from api.times import render_instant
from scheduler.domain.explain import explain_safe_mode, explain_stray
from scheduler.domain.stray import Stray, outdated_by


def to_view(stray: Stray) -> StrayView:
    """One stray."""
    return StrayView(
        id=str(stray.attempt),
        job=stray.attempt.job_id,
        attempt=stray.attempt.number,
        project=stray.project,
        name=stray.name,
        reason=stray.reason,
        message=explain_stray(stray),
        term=stray.epoch,
        workers=stray.workers,
        workers_alive=stray.workers_alive,
        nodes=list(stray.nodes),
        since=render_instant(stray.since),
        order=stray.order,
        problem=stray.problem,
    )


def safe_mode_text(strays: Sequence[Stray]) -> str:
    """Why nothing is started or stopped; empty while all is normal."""
    outdated = outdated_by(strays)
    return "" if outdated is None else explain_safe_mode(outdated)
