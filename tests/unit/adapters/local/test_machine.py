"""What the machine has, and how its GPUs are dealt to the nodes it plays."""

import pytest

from scheduler.adapters.local.machine import (
    BrokenDriverError,
    MachineGpus,
    MissingGpusError,
    machine_gpus,
    this_machine,
    with_gpu_indices,
)
from scheduler.domain.ids import GpuModel
from tests.builders import a_node


class LibraryError(Exception):
    """What the management library raises."""


class NoLibraryError(LibraryError):
    """No driver is installed."""


class NotLoadedError(LibraryError):
    """The driver's library is there, the kernel's part is not."""


class FakeNvml:
    """NVIDIA's library on a machine with so many GPUs, or one that fails at `call` with `error`."""

    NVMLError: type[Exception] = LibraryError
    NVMLError_LibraryNotFound: type[Exception] = NoLibraryError
    NVMLError_DriverNotLoaded: type[Exception] = NotLoadedError

    def __init__(self, gpus: int = 0, *, call: str = "", error: Exception | None = None) -> None:
        self._gpus = gpus
        self._call, self._error = call, error
        self.is_open = False

    def _fail(self, call: str) -> None:
        if self._error is not None and call == self._call:
            raise self._error

    def nvmlInit(self) -> None:  # noqa: N802 - the library's name
        self._fail("init")
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802 - the library's name
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - the library's name
        self._fail("count")
        return self._gpus

    def nvmlDeviceGetHandleByIndex(self, index: int) -> object:  # noqa: N802 - the library's name
        return index

    def nvmlDeviceGetName(self, handle: object) -> str:  # noqa: N802 - the library's name
        return f"NVIDIA H100 80GB HBM{handle}"


@pytest.mark.parametrize(
    ("nvml", "found"),
    [
        pytest.param(
            FakeNvml(call="init", error=NoLibraryError()), MachineGpus(count=0), id="no driver"
        ),
        pytest.param(
            FakeNvml(call="init", error=NotLoadedError()), MachineGpus(count=0), id="not loaded"
        ),
        pytest.param(FakeNvml(0), MachineGpus(count=0), id="a driver without GPUs"),
        pytest.param(
            FakeNvml(8),
            MachineGpus(count=8, model=GpuModel("NVIDIA-H100-80GB-HBM0")),
            id="eight GPUs, named as node labels name them",
        ),
    ],
)
def test_gpus_are_counted_by_nvml(nvml: FakeNvml, found: MachineGpus) -> None:
    assert machine_gpus(nvml) == found
    assert not nvml.is_open


@pytest.mark.parametrize("call", ["init", "count"])
def test_a_driver_that_fails_is_not_taken_for_a_machine_without_gpus(call: str) -> None:
    nvml = FakeNvml(8, call=call, error=LibraryError("Driver/library version mismatch"))
    with pytest.raises(BrokenDriverError, match=r"version mismatch; see what `nvidia-smi` says"):
        machine_gpus(nvml)
    assert not nvml.is_open


def test_a_machine_with_gpus_offers_them_and_one_without_offers_slots() -> None:
    real = this_machine(MachineGpus(count=4, model=GpuModel("A100")), slots=64)
    assert (real.gpus, real.gpu_model) == (4, "A100")
    pretended = this_machine(MachineGpus(count=0), slots=64)
    assert (pretended.gpus, pretended.gpu_model) == (64, "")
    assert pretended.resources.cpu_milli >= 1000
    assert pretended.resources.memory_bytes > 1 << 28
    assert pretended.name


def test_gpus_are_dealt_to_the_nodes_in_order() -> None:
    nodes = with_gpu_indices([a_node("a", gpus=2), a_node("b", gpus=3)], MachineGpus(count=8))
    assert [node.gpu_indices for node in nodes] == [(0, 1), (2, 3, 4)]


def test_more_gpus_than_the_machine_has_are_refused() -> None:
    with pytest.raises(MissingGpusError, match="have 16 GPUs together, but this machine has 8"):
        with_gpu_indices([a_node("a", gpus=8), a_node("b", gpus=8)], MachineGpus(count=8))


def test_slots_need_no_gpus() -> None:
    nodes = with_gpu_indices([a_node("a", gpus=64), a_node("b", gpus=0)], MachineGpus(count=0))
    assert [len(node.gpu_indices or ()) for node in nodes] == [64, 0]
