"""Stores which nodes the cluster leaves alone, so that a restart does not forget it."""

from scheduler.control.cluster_watch import ClusterWatch
from scheduler.control.events import node_left_alone
from scheduler.control.live_jobs import LiveJobs
from scheduler.control.outside import Outside
from scheduler.domain.ids import Epoch
from scheduler.domain.instants import Instant
from scheduler.domain.left_alone import changed_exclusions
from scheduler.ports.unit import ChangeExclusion, Unit


def note_exclusions(
    watch: ClusterWatch, live: LiveJobs, outside: Outside, *, epoch: Epoch, now: Instant
) -> None:
    """Store what the cluster tells that is not stored yet; forget what is over."""
    if not watch.exclusions and not watch.tells_exclusions:
        return
    changes = changed_exclusions(watch.exclusions, watch.told_nodes, now)
    if not changes:
        return
    unit = Unit(
        changes=tuple(ChangeExclusion(node=node, exclusion=e) for node, e in changes.items()),
        events=tuple(node_left_alone(node, each, at=now) for node, each in changes.items() if each),
        epoch=epoch,
    )
    live.write(unit, outside.store)
    known = {**watch.exclusions, **changes}
    watch.set_exclusions({node: each for node, each in known.items() if each is not None}, now)
