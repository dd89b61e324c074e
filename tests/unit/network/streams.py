"""Training steps played on two streams, computation and communication, operation by operation."""

from collections.abc import Sequence

from scheduler.network.overlap import Block


def play_buckets(
    forward_s: float,
    backward_s: float,
    ready_shares: Sequence[float],
    exchange_s: Sequence[float],
) -> float:
    """DDP: gradients become ready during backward; buckets go out one after the other."""
    compute_end = forward_s + backward_s
    free = 0.0
    for share, exchange in zip(ready_shares, exchange_s, strict=True):
        start = max(free, forward_s + share * backward_s)
        free = start + exchange
    return max(compute_end, free)


def play_sharded(blocks: Sequence[Block], *, optimizer_s: float, is_resharded: bool) -> float:
    """FSDP: a compute stream and a communication stream that prefetches one block ahead.

    Block l + 1 is gathered while block l computes (backward: l - 1, before the scatter of l + 1).
    The next block starts when both are done.
    """
    count = len(blocks)
    now = blocks[0].gather_s
    for index in range(count):
        busy = blocks[index + 1].gather_s if index + 1 < count else 0.0
        now += max(blocks[index].forward_s, busy)
    if is_resharded:
        now += blocks[-1].gather_s
    pending_scatter = 0.0
    for index in range(count - 1, -1, -1):
        busy = pending_scatter
        if is_resharded and index > 0:
            busy += blocks[index - 1].gather_s
        now += max(blocks[index].backward_s, busy)
        pending_scatter = blocks[index].scatter_s
    return now + pending_scatter + optimizer_s


def play_local_sgd(compute_s: float, exchange_s: float, local_steps: int, rounds: int) -> float:
    """Overlapped local SGD: the average of a round must be through when the next round ends."""
    now = 0.0
    averaged = 0.0
    for _ in range(rounds):
        now += local_steps * compute_s
        # The average started after the last round is used now.
        now = max(now, averaged)
        averaged = now + exchange_s
    return now / (rounds * local_steps)


def play_blocking_local_sgd(
    compute_s: float, exchange_s: float, local_steps: int, rounds: int
) -> float:
    """Local SGD without overlap."""
    return sum(local_steps * compute_s + exchange_s for _ in range(rounds)) / (rounds * local_steps)


def play_pipelined_sgd(compute_s: float, exchange_s: float, steps: int) -> float:
    """Pipe-SGD: step t uses the gradients of step t - 1; one exchange in flight."""
    now = 0.0
    exchanged = 0.0
    for _ in range(steps):
        computed = now + compute_s
        # The exchange of the step before was started when that step's computation ended.
        now = max(computed, exchanged)
        exchanged = now + exchange_s
    return now / steps


def play_one_forward_one_backward(
    stages: int, micro_batches: int, forward_s: float, backward_s: float, transfer_s: float
) -> float:
    """1F1B: each stage works off its list; what it needs arrives a transfer after it is made."""
    lists = [_schedule(stage, stages, micro_batches) for stage in range(stages)]
    done: dict[tuple[str, int, int], float] = {}
    clock = [0.0] * stages
    places = [0] * stages
    moved = True
    while moved:
        moved = False
        for stage in range(stages):
            while places[stage] < len(lists[stage]):
                kind, batch = lists[stage][places[stage]]
                source = _needs(kind, stage, batch, stages)
                if source is not None and source not in done:
                    break
                start = (
                    clock[stage] if source is None else max(clock[stage], done[source] + transfer_s)
                )
                clock[stage] = start + (forward_s if kind == "F" else backward_s)
                done[kind, stage, batch] = clock[stage]
                places[stage] += 1
                moved = True
    return max(clock)


def _schedule(stage: int, stages: int, micro_batches: int) -> list[tuple[str, int]]:
    warm = min(micro_batches, stages - 1 - stage)
    ops = [("F", batch) for batch in range(warm)]
    for batch in range(micro_batches - warm):
        ops += [("F", warm + batch), ("B", batch)]
    ops += [("B", batch) for batch in range(micro_batches - warm, micro_batches)]
    return ops


def _needs(kind: str, stage: int, batch: int, stages: int) -> tuple[str, int, int] | None:
    if kind == "F":
        return ("F", stage - 1, batch) if stage else None
    return ("B", stage + 1, batch) if stage + 1 < stages else None


def play_servers(
    workers: int, servers: int, size: float, *, compute_s: float, rate: float, server_rate: float
) -> float:
    """Asynchronous workers for long: mean period of one, when links are shared fairly."""
    horizon, step = 60.0 * compute_s + 60.0, (compute_s + size / rate) / 200
    phase = ["compute"] * workers
    left = [compute_s * (1 + worker / workers) for worker in range(workers)]
    updates = 0
    now = 0.0
    while now < horizon:
        pushing = phase.count("push")
        pulling = phase.count("pull")
        for worker in range(workers):
            if phase[worker] == "compute":
                left[worker] -= step
                if left[worker] <= 0:
                    phase[worker], left[worker] = "push", size
                continue
            crowd = pushing if phase[worker] == "push" else pulling
            speed = min(rate, servers * server_rate / max(1, crowd))
            left[worker] -= speed * step
            if left[worker] <= 0:
                if phase[worker] == "push":
                    phase[worker], left[worker] = "pull", size
                else:
                    phase[worker], left[worker] = "compute", compute_s
                    # What happens while the queues build up does not count.
                    updates += now > horizon / 2
        now += step
    return workers * (horizon / 2) / max(1, updates)
