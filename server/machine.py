"""This machine as the local executor offers it: its nodes, its GPUs or slots, its cores."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from scheduler.adapters.local.machine import (
    BrokenDriverError,
    MissingGpusError,
    machine_gpus,
    this_machine,
    with_gpu_indices,
)
from scheduler.config_file import Config, ConfigError
from scheduler.domain.resources import Resources
from scheduler.domain.topology import Level, Node
from scheduler.settings import Settings
from scheduler.topology_file import FileProblem


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Nodes and levels of the local executor."""

    levels: tuple[Level, ...]
    nodes: tuple[Node, ...]
    has_gpus: bool
    """False: the nodes' GPUs are slots that are only counted."""

    @property
    def gpus(self) -> int:
        """GPUs or slots of all nodes."""
        return sum(node.gpus for node in self.nodes)


def offered(settings: Settings, config: Config) -> Machine:
    """What there is, by configuration and by what NVML finds. Raises ConfigError."""
    named = config.topology.nodes
    try:
        gpus = machine_gpus()
        machine = this_machine(gpus, slots=settings.slots)
        nodes = with_gpu_indices(_completed(named, machine) if named else (machine,), gpus)
    except (BrokenDriverError, MissingGpusError) as error:
        problem = FileProblem(place="topology", detail=str(error))
        raise ConfigError("the configuration of dallyd", [problem]) from error
    return Machine(
        levels=config.topology.levels if named else (), nodes=nodes, has_gpus=gpus.count > 0
    )


def _completed(nodes: tuple[Node, ...], machine: Node) -> Iterator[Node]:
    """Each node, with the machine's cores and memory where the file says none."""
    for node in nodes:
        resources = Resources(
            cpu_milli=node.resources.cpu_milli or machine.resources.cpu_milli,
            memory_bytes=node.resources.memory_bytes or machine.resources.memory_bytes,
        )
        yield replace(node, resources=resources)
