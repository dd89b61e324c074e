"""Tables A and B of shared/data/traces/reference_results.md."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceRow:
    """One row: network model and costs off, whole seconds."""

    trace: str
    gpus: int
    reference_policy: str
    """The table's name of the policy."""
    policy: str
    """Ours."""
    allocation: str
    jct_mean_s: str
    jct_p50_s: int | None = None
    jct_p99_s: int
    makespan_s: int
    queue_mean_s: str | None = None
    preemptions: int = 0

    @property
    def id(self) -> str:
        """For pytest."""
        return f"{self.trace.split('/')[0]} {self.reference_policy} {self.allocation}"


def _a(
    names: tuple[str, str], allocation: str, digits: tuple[str, int, int, int, str, int]
) -> ReferenceRow:
    return ReferenceRow(
        trace="microsoft-itp/cluster06.csv",
        gpus=128,
        reference_policy=names[0],
        policy=names[1],
        allocation=allocation,
        jct_mean_s=digits[0],
        jct_p50_s=digits[1],
        jct_p99_s=digits[2],
        makespan_s=digits[3],
        queue_mean_s=digits[4],
        preemptions=digits[5],
    )


def _b(names: tuple[str, str], allocation: str, digits: tuple[str, int, int]) -> ReferenceRow:
    return ReferenceRow(
        trace="muri/trace3.csv",
        gpus=64,
        reference_policy=names[0],
        policy=names[1],
        allocation=allocation,
        jct_mean_s=digits[0],
        jct_p99_s=digits[1],
        makespan_s=8_171_961,
        preemptions=digits[2],
    )


FIFO, FJF = ("fifo", "fifo"), ("fjf", "nowait")
SJF, SRTF, SRSF, LAS = ("sjf", "sjf"), ("srtf", "srtf"), ("srsf", "srsf"), ("2d-las", "las-exact")

ROWS = (
    _a(FIFO, "counter", ("81210.79", 39_351, 499_217, 5_171_996, "56777.05", 0)),
    _a(FIFO, "eight-a-node", ("83943.44", 40_312, 499_217, 5_186_346, "59509.70", 0)),
    _a(FJF, "counter", ("42455.15", 23_979, 314_290, 5_169_869, "18021.41", 0)),
    _a(SJF, "counter", ("37236.62", 8_281, 488_672, 5_181_666, "12802.88", 119)),
    _a(SRTF, "counter", ("29500.92", 4_625, 377_202, 5_224_976, "5067.18", 703)),
    _a(SRSF, "counter", ("29251.87", 4_635, 371_716, 5_232_021, "4818.13", 576)),
    _a(LAS, "counter", ("37687.85", 8_773, 488_672, 5_183_641, "13254.12", 1_740)),
    _b(FIFO, "counter", ("991167.02", 1_696_723, 0)),
    _b(FIFO, "eight-a-node", ("991215.65", 1_696_723, 0)),
    _b(FJF, "counter", ("480104.77", 3_746_037, 0)),
    _b(FJF, "eight-a-node", ("480913.25", 3_746_521, 0)),
    _b(SJF, "counter", ("408105.81", 5_018_623, 126)),
    _b(SRTF, "counter", ("180116.35", 4_280_559, 1_037)),
    _b(SRSF, "counter", ("172683.74", 3_580_618, 749)),
    _b(LAS, "counter", ("327259.43", 4_939_313, 1_387)),
)
