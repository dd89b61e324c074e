"""What an admin says of a cluster's links besides its levels; the network model knows the rest."""

from dataclasses import dataclass

from scheduler.domain.ids import GpuModel


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLinksPlan:
    """The links of the nodes with one GPU model; what is not said is as usual for that model."""

    gpu_model: GpuModel
    fabric: str = ""
    """Preset whose nodes these are like; empty: the usual one of the GPU model."""
    nics: int | None = None
    """NICs per node."""
    nic_bytes_per_s: float | None = None
    """Line rate of one NIC, one direction."""

    def __post_init__(self) -> None:
        assert self.nics is None or self.nics >= 0
        assert self.nic_bytes_per_s is None or self.nic_bytes_per_s > 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricPlan:
    """The links of a cluster."""

    preset: str = ""
    """Preset of the network between the nodes; empty: the usual one of the GPU model that most
    GPUs are of."""
    nodes: tuple[NodeLinksPlan, ...] = ()

    def of(self, gpu_model: GpuModel) -> NodeLinksPlan:
        """What is said of the nodes with that GPU model."""
        for plan in self.nodes:
            if plan.gpu_model == gpu_model:
                return plan
        return NodeLinksPlan(gpu_model=gpu_model)
