"""Pipeline parallelism: bubbles and activations between stages (1F1B)."""


def one_forward_one_backward_s(
    *, stages: int, micro_batches: int, micro_batch_s: float, transfer_s: float = 0.0
) -> float:
    """1F1B whose transfers block their stage: p stages, m micro-batches of forward + backward.

    `transfer_s` is one activation (or its gradient) between two stages. For p, m >= 2.
    """
    time_s = (micro_batches + stages - 1) * micro_batch_s
    if stages > 1:
        waits = (stages - 1) * micro_batches / stages + stages - 2
        time_s += 2 * transfer_s * waits
    return time_s


def hidden_transfers_s(
    *, stages: int, micro_batches: int, micro_batch_s: float, transfer_s: float, chunks: int = 1
) -> float:
    """1F1B whose transfers hide behind computation where they fit.

    With `chunks` model chunks a stage (interleaved schedule) the bubble shrinks, and transfers come
    `chunks` times as often. What fills and drains the pipe shows: p - 1 transfers each way.
    """
    # A transfer that outlasts the computation of its chunk sets the pace.
    pace_s = max(micro_batch_s, 2 * chunks * transfer_s)
    bubble_s = (stages - 1) / chunks * pace_s
    return micro_batches * pace_s + bubble_s + 2 * (stages - 1) * transfer_s


def bubble_of_ideal(*, stages: int, micro_batches: int, chunks: int = 1) -> float:
    """Idle time divided by the time of an ideal pipeline."""
    return (stages - 1) / (chunks * micro_batches)


def bubble_of_step(*, stages: int, micro_batches: int, chunks: int = 1) -> float:
    """Idle time divided by the step time."""
    return (stages - 1) / (chunks * micro_batches + stages - 1)
