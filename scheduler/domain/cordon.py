"""Nodes that an admin, or a taint of the cluster's, keeps new workers from, or wants empty."""

from collections.abc import Mapping
from dataclasses import dataclass

from scheduler.domain.copying import replace
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import Instant
from scheduler.domain.topology import Node

_EVICTS = ":NoExecute"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """What an admin has said of a node; kept in the store until it is taken back."""

    node: NodeName
    is_drain: bool = False
    """Its gangs are to leave as well."""
    reason: str = ""
    by: str = ""
    at: Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """Why the gangs of a node are to leave it: an admin's drain, or a taint."""

    node: NodeName
    taint: str = ""
    by: str = ""
    reason: str = ""


def leaving(node: Node, cordon: Cordon | None) -> Leaving | None:
    """Why the gangs of a node are to leave; None if they may stay."""
    if cordon is not None and cordon.is_drain:
        return Leaving(node=node.name, by=cordon.by, reason=cordon.reason)
    taint = next((taint for taint in node.taints if taint.endswith(_EVICTS)), "")
    return Leaving(node=node.name, taint=taint) if taint else None


def with_cordons(nodes: tuple[Node, ...], cordons: Mapping[NodeName, Cordon]) -> tuple[Node, ...]:
    """The nodes of the cluster with what admins say of them; the very same if they say nothing."""
    if not any(node.name in cordons for node in nodes):
        return nodes
    return tuple(
        replace(node, is_cordoned=True) if node.name in cordons else node for node in nodes
    )
