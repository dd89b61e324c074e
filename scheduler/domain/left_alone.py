"""Which nodes are left alone: what the cluster tells, what is stored of it, what admins have ended.

The cluster tells an exclusion as long as it knows of it. What is stored decides: it outlives the
server that was told, and an exclusion that an admin has ended stays ended however long it is told.
"""

from collections.abc import Iterable, Mapping

from scheduler.domain.copying import replace
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import Instant
from scheduler.domain.topology import Node

SHARE_MAX = 0.1
"""At most this share of the nodes (and always one) is left alone for errors of programs."""

Exclusions = Mapping[NodeName, Exclusion]


def changed_exclusions(
    stored: Exclusions, nodes: Iterable[Node], now: Instant
) -> dict[NodeName, Exclusion | None]:
    """What is to be stored now that the cluster tells so of its nodes; None: nothing any more."""
    told = {node.name: node.exclusion for node in nodes}
    present = {name: each for name, each in stored.items() if each.holds(now)}
    changes: dict[NodeName, Exclusion | None] = {}
    few = max(1, int(len(told) * SHARE_MAX))
    for name, news in sorted(told.items()):
        if news is None or not news.holds(now) or not _is_news(news, stored.get(name), now):
            continue
        others = (each for other, each in present.items() if other != name)
        if news.is_for_programs and sum(each.is_for_programs for each in others) >= few:
            continue
        changes[name] = present[name] = news
    over = (name for name, each in sorted(stored.items()) if each.until <= now)
    changes.update({name: None for name in over if told.get(name) is None})
    return changes


def _is_news(told: Exclusion, stored: Exclusion | None, now: Instant) -> bool:
    if stored is None:
        return True
    if stored.cleared_at is not None:
        # The clock of the server that took the order may be behind that of the one that was told.
        return told.since > max(stored.cleared_at, stored.since)
    if stored.holds(now):
        return told.until > stored.until
    return told.since > stored.since


def with_exclusions(nodes: tuple[Node, ...], stored: Exclusions, now: Instant) -> tuple[Node, ...]:
    """The nodes with what is stored of them instead of what was told; the same if that is equal."""
    held = {name: each for name, each in stored.items() if each.holds(now)}
    if all(node.exclusion == held.get(node.name) for node in nodes):
        return nodes
    return tuple(
        node
        if node.exclusion == held.get(node.name)
        else replace(node, exclusion=held.get(node.name))
        for node in nodes
    )


def next_end(stored: Exclusions, now: Instant) -> Instant | None:
    """When the next of them is over."""
    return min((each.until for each in stored.values() if each.holds(now)), default=None)
