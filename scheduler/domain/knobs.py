"""PolicyKnobs: the numbers of a policy; kept in the store, changed live, carried in snapshots."""

from dataclasses import dataclass

from scheduler.domain.instants import Duration, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyKnobs:
    """Numbers of the scheduling policy; each has a description in settings.py."""

    policy: str = "fifo"
    start_timeout: Duration = seconds(600)
    """Time from reservation to all workers running; after it the gang is unwound."""
    restart_backoff: Duration = seconds(10)
    """First wait after a failed attempt; doubles up to `restart_backoff_max`."""
    restart_backoff_max: Duration = seconds(300)
    healthy_after: Duration = seconds(600)
    """A run of this length resets the back-off."""
    restarts_infra_max: int = 10
    """Restarts after failures of the cluster without a healthy run between them."""
    node_lost_after: Duration = seconds(300)
    """A node that is unready for so long has lost its workers: their gangs restart elsewhere."""
