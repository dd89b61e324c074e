"""What this machine has: processors, memory, and GPUs as NVML counts them."""

import os
import platform
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, cast

import pynvml

from scheduler.domain.ids import GpuModel, NodeName
from scheduler.domain.resources import Resources
from scheduler.domain.topology import Node


class Nvml(Protocol):
    """The part of NVIDIA's management library that is used here."""

    NVMLError: type[Exception]
    NVMLError_LibraryNotFound: type[Exception]
    NVMLError_DriverNotLoaded: type[Exception]

    def nvmlInit(self) -> None: ...  # noqa: N802 - the library's name
    def nvmlShutdown(self) -> None: ...  # noqa: N802 - the library's name
    def nvmlDeviceGetCount(self) -> int: ...  # noqa: N802 - the library's name
    def nvmlDeviceGetHandleByIndex(self, index: int) -> object: ...  # noqa: N802 - the library's name
    def nvmlDeviceGetName(self, handle: object) -> str: ...  # noqa: N802 - the library's name


NVML = cast("Nvml", pynvml)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineGpus:
    """The GPUs of this machine."""

    count: int
    model: GpuModel = GpuModel("")
    """Model of the first one, written as node labels write it; empty without GPUs."""


class BrokenDriverError(Exception):
    """There is an NVIDIA driver, and it does not say what GPUs there are."""

    def __init__(self, answer: str) -> None:
        super().__init__(
            f"the NVIDIA driver of this machine does not work: {answer}; "
            "see what `nvidia-smi` says and repair or remove the driver"
        )


class MissingGpusError(Exception):
    """The configured nodes have more GPUs than this machine."""

    def __init__(self, *, wanted: int, present: int) -> None:
        super().__init__(
            f"the configured nodes have {wanted} GPUs together, but this machine has {present}"
        )
        self.wanted = wanted
        self.present = present


def machine_gpus(nvml: Nvml = NVML) -> MachineGpus:
    """The GPUs that NVML finds; none where there is no driver. Raises BrokenDriverError."""
    try:
        nvml.nvmlInit()
    except (nvml.NVMLError_LibraryNotFound, nvml.NVMLError_DriverNotLoaded):
        return MachineGpus(count=0)
    except nvml.NVMLError as error:
        raise BrokenDriverError(str(error)) from error
    try:
        count = nvml.nvmlDeviceGetCount()
        if count == 0:
            return MachineGpus(count=0)
        name = nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(0))
        return MachineGpus(count=count, model=GpuModel(name.replace(" ", "-")))
    except nvml.NVMLError as error:
        raise BrokenDriverError(str(error)) from error
    finally:
        nvml.nvmlShutdown()


def this_machine(gpus: MachineGpus, *, slots: int) -> Node:
    """This machine as one node: with its GPUs, or with so many slots where it has none."""
    return Node(
        name=NodeName(platform.node().partition(".")[0] or "localhost"),
        gpus=gpus.count or slots,
        gpu_model=gpus.model,
        resources=Resources(
            cpu_milli=1000 * len(os.sched_getaffinity(0)),
            memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        ),
    )


def with_gpu_indices(nodes: Iterable[Node], gpus: MachineGpus) -> tuple[Node, ...]:
    """The nodes with this machine's GPUs dealt to them in order, those without indices.

    Without GPUs the nodes' GPUs are slots that are only counted. Raises MissingGpusError.
    """
    dealt: list[Node] = []
    first = 0
    for node in nodes:
        indices = node.gpu_indices
        if indices is None:
            indices = tuple(range(first, first + node.gpus))
        dealt.append(replace(node, gpu_indices=indices))
        first = max(first, *(index + 1 for index in indices), 0)
    if gpus.count and first > gpus.count:
        raise MissingGpusError(wanted=first, present=gpus.count)
    return tuple(dealt)
