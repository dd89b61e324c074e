"""Which nodes a role may use, whatever is free."""

from dataclasses import dataclass

from scheduler.domain.gang import NodeFilter
from scheduler.domain.ids import GpuModel, PoolName
from scheduler.domain.topology import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Eligible:
    """What a node must be for a role."""

    pool: PoolName | None
    """None for any."""
    models: tuple[GpuModel, ...] | None
    """None where the model does not matter."""
    filters: tuple[NodeFilter, ...] = ()
    claims: tuple[str, ...] = ()

    def unfit(self, node: Node) -> str:
        """Why no worker may use the node; empty if one may."""
        if closed := _closed(node):
            return closed
        if self.pool is not None and node.pool != self.pool:
            return "OtherPool"
        if self.models is not None and (node.gpus == 0 or node.gpu_model not in self.models):
            return "OtherGpuModel" if node.gpus else "NoGpus"
        if not node.volumes_beyond.isdisjoint(self.claims):
            return "BoundVolume"
        return next((rule.reason for rule in self.filters if node.name not in rule.allowed), "")


def _closed(node: Node) -> str:
    if not node.is_ready:
        return "NotReady"
    if node.is_cordoned:
        return "Cordoned"
    if node.taints:
        return "Tainted"
    return "" if node.exclusion is None else "LeftAlone"
