"""How much communication hides behind computation: exact recursions and their closed forms."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

BUCKET_BYTES = 25_000_000
"""Gradients are exchanged in buckets of this size (PyTorch's default)."""


def bucketed_step_s(
    *,
    forward_s: float,
    backward_s: float,
    optimizer_s: float,
    ready_s: Sequence[float],
    exchange_s: Sequence[float],
) -> float:
    """Wait-free backpropagation: bucket i is sent when it is ready and the one before is through.

    `ready_s[i]` is when all gradients of bucket i exist, counted from the start of the step.
    """
    done_s = 0.0
    for ready, exchange in zip(ready_s, exchange_s, strict=True):
        done_s = max(ready, done_s) + exchange
    return max(forward_s + backward_s, done_s) + optimizer_s


def bucket_sizes(total: float, bucket: float = BUCKET_BYTES) -> tuple[float, ...]:
    """The buckets of a model in order of readiness; the last one is what is left."""
    if total <= bucket:
        return (total,) if total else ()
    full = int(total // bucket)
    rest = total - full * bucket
    return (bucket,) * full + ((rest,) if rest else ())


def exposed_s(*, exchange_s: float, last_s: float, hideable_s: float) -> float:
    """Communication that computation does not hide: at least the last bucket.

    The last bucket only exists when the backward pass ends, so nothing can hide it.
    """
    return max(last_s, exchange_s - hideable_s)


def gather_exposed_s(*, gather_s: float, hideable_s: float) -> float:
    """ZeRO-1/2: the gather of updated parameters, as far as the next forward does not hide it."""
    return max(0.0, gather_s - hideable_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One wrapped block of a sharded model."""

    forward_s: float
    backward_s: float
    gather_s: float
    """All-gather of its parameters."""
    scatter_s: float
    """Reduce-scatter of its gradients."""


def sharded_step_s(blocks: Sequence[Block], *, optimizer_s: float, is_resharded: bool) -> float:
    """FSDP / ZeRO-3: while block l computes, block l + 1 is gathered; backwards likewise.

    With `is_resharded` the last block is freed after forward and gathered again for backward; else
    (SHARD_GRAD_OP) parameters stay, and backward gathers nothing.
    """
    first, last = blocks[0], blocks[-1]
    time_s = first.gather_s + first.scatter_s + optimizer_s
    for block, following in pairwise(blocks):
        time_s += max(block.forward_s, following.gather_s)
    time_s += last.forward_s
    if is_resharded:
        time_s += last.gather_s
    for index in range(len(blocks) - 1, -1, -1):
        busy_s = 0.0
        if is_resharded and index > 0:
            busy_s += blocks[index - 1].gather_s
        if index + 1 < len(blocks):
            busy_s += blocks[index + 1].scatter_s
        time_s += max(blocks[index].backward_s, busy_s)
    return time_s


def equal_blocks_step_s(
    block: Block, count: int, *, optimizer_s: float, is_resharded: bool
) -> float:
    """`sharded_step_s` for equal blocks, without walking over them."""
    gather_s = block.gather_s if is_resharded else 0.0
    time_s = block.gather_s + block.scatter_s + optimizer_s + block.forward_s + gather_s
    time_s += (count - 1) * max(block.forward_s, block.gather_s)
    if count == 1:
        return time_s + block.backward_s
    time_s += max(block.backward_s, gather_s) + max(block.backward_s, block.scatter_s)
    return time_s + (count - 2) * max(block.backward_s, gather_s + block.scatter_s)


def local_sgd_step_s(
    *, compute_s: float, exchange_s: float, local_steps: int, overlap: float
) -> float:
    """Mean step of local SGD: an average every H steps, hidden behind the next H if overlapped."""
    hidden_s = overlap * local_steps * compute_s
    return compute_s + max(0.0, exchange_s - hidden_s) / local_steps


def pipelined_sgd_step_s(*, compute_s: float, exchange_s: float) -> float:
    """Pipe-SGD: the exchange of one step runs under the whole next step."""
    return max(compute_s, exchange_s)


def smooth_step_s(*, compute_s: float, exchange_s: float, gamma: float) -> float:
    """The form Pollux and Sia fit: 1 is no overlap, large is full overlap."""
    return float((compute_s**gamma + exchange_s**gamma) ** (1 / gamma))


def step_with_phases_s(steps: Sequence[tuple[int, Callable[[], float]]]) -> float:
    """Mean step over phases of so many steps each."""
    total = sum(count for count, _ in steps)
    return sum(count * step_s() for count, step_s in steps) / total
