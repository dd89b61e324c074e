"""Overlap, pipelines and barriers against steps played operation by operation."""

from random import Random
from statistics import mean

import pytest

from scheduler.network.jitter import barrier_factor
from scheduler.network.overlap import (
    Block,
    bucket_sizes,
    bucketed_step_s,
    equal_blocks_step_s,
    exposed_s,
    gather_exposed_s,
    local_sgd_step_s,
    pipelined_sgd_step_s,
    sharded_step_s,
    smooth_step_s,
)
from scheduler.network.pipeline import (
    bubble_of_ideal,
    bubble_of_step,
    hidden_transfers_s,
    one_forward_one_backward_s,
)
from tests.unit.network.streams import (
    play_blocking_local_sgd,
    play_buckets,
    play_local_sgd,
    play_one_forward_one_backward,
    play_pipelined_sgd,
    play_sharded,
)


@pytest.mark.parametrize("seed", range(20))
def test_the_bucket_recursion_takes_as_long_as_two_streams(seed: int) -> None:
    rng = Random(seed)
    shares = sorted(rng.random() for _ in range(6))
    exchanges = [rng.random() for _ in shares]
    forward, backward = rng.random(), 3 * rng.random()
    assert bucketed_step_s(
        forward_s=forward,
        backward_s=backward,
        optimizer_s=0.0,
        ready_s=[forward + share * backward for share in shares],
        exchange_s=exchanges,
    ) == pytest.approx(play_buckets(forward, backward, shares, exchanges))


def test_one_bucket_hides_nothing() -> None:
    step = bucketed_step_s(
        forward_s=1.0, backward_s=2.0, optimizer_s=0.5, ready_s=[3.0], exchange_s=[4.0]
    )
    assert step == pytest.approx(1.0 + 2.0 + 4.0 + 0.5)


def test_tiny_exchanges_cost_nothing_but_themselves() -> None:
    step = bucketed_step_s(
        forward_s=1.0, backward_s=2.0, optimizer_s=0.0, ready_s=[2.0, 3.0], exchange_s=[0, 1e-9]
    )
    assert step == pytest.approx(3.0)


@pytest.mark.parametrize("exchange", [0.1, 1.0, 2.0, 5.0, 20.0])
def test_the_closed_form_is_the_recursion_for_gradients_made_evenly(exchange: float) -> None:
    # Bucket i of N is ready when the share i/N of backward is over.
    buckets, forward, backward = 50, 1.0, 2.0
    ready = [forward + backward * (i + 1) / buckets for i in range(buckets)]
    exact = bucketed_step_s(
        forward_s=forward,
        backward_s=backward,
        optimizer_s=0.0,
        ready_s=ready,
        exchange_s=[exchange / buckets] * buckets,
    )
    first_bucket = backward / buckets
    closed = 3.0 + exposed_s(
        exchange_s=exchange,
        last_s=exchange / buckets,
        hideable_s=backward - first_bucket,
    )
    assert closed == pytest.approx(exact, rel=1e-9)


def test_buckets_add_up_to_the_model() -> None:
    assert sum(bucket_sizes(102_228_128.0)) == pytest.approx(102_228_128.0)
    assert len(bucket_sizes(102_228_128.0)) == 5
    assert bucket_sizes(0.0) == ()


@pytest.mark.parametrize("is_resharded", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_a_sharded_step_takes_as_long_as_its_two_streams(seed: int, *, is_resharded: bool) -> None:
    rng = Random(seed)
    blocks = [
        Block(
            forward_s=rng.random(),
            backward_s=2 * rng.random(),
            gather_s=rng.random(),
            scatter_s=rng.random(),
        )
        for _ in range(1 + seed)
    ]
    assert sharded_step_s(blocks, optimizer_s=0.1, is_resharded=is_resharded) == pytest.approx(
        play_sharded(blocks, optimizer_s=0.1, is_resharded=is_resharded)
    )


@pytest.mark.parametrize("count", [1, 2, 3, 24])
@pytest.mark.parametrize("gather", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("is_resharded", [True, False])
def test_equal_blocks_need_no_walk(count: int, gather: float, *, is_resharded: bool) -> None:
    block = Block(forward_s=0.1, backward_s=0.2, gather_s=gather, scatter_s=gather * 1.1)
    assert equal_blocks_step_s(
        block, count, optimizer_s=0.05, is_resharded=is_resharded
    ) == pytest.approx(play_sharded([block] * count, optimizer_s=0.05, is_resharded=is_resharded))


def test_gathered_parameters_show_where_forward_does_not_hide_them() -> None:
    assert gather_exposed_s(gather_s=3.0, hideable_s=1.0) == 2.0
    assert gather_exposed_s(gather_s=1.0, hideable_s=3.0) == 0.0


@pytest.mark.parametrize("exchange", [0.5, 4.0, 12.0])
@pytest.mark.parametrize("steps", [1, 4, 16])
def test_local_sgd_takes_as_long_as_its_rounds(exchange: float, steps: int) -> None:
    blocking, overlapped = (
        local_sgd_step_s(compute_s=1.0, exchange_s=exchange, local_steps=steps, overlap=overlap)
        for overlap in (0.0, 1.0)
    )
    assert blocking == pytest.approx(play_blocking_local_sgd(1.0, exchange, steps, 50))
    assert overlapped == pytest.approx(play_local_sgd(1.0, exchange, steps, 2000), rel=0.02)


@pytest.mark.parametrize("exchange", [0.5, 1.0, 3.0])
def test_pipelined_sgd_takes_the_longer_of_the_two(exchange: float) -> None:
    assert pipelined_sgd_step_s(compute_s=1.0, exchange_s=exchange) == pytest.approx(
        play_pipelined_sgd(1.0, exchange, 2000), rel=2e-3
    )


@pytest.mark.parametrize("stages", [2, 4, 8])
@pytest.mark.parametrize("rounds", [1, 3])
def test_1f1b_takes_as_long_as_its_schedule(stages: int, rounds: int) -> None:
    # The closed form is exact where the micro-batches are a multiple of the stages.
    micro_batches = stages * rounds
    assert one_forward_one_backward_s(
        stages=stages, micro_batches=micro_batches, micro_batch_s=3.0, transfer_s=0.1
    ) == pytest.approx(play_one_forward_one_backward(stages, micro_batches, 1.0, 2.0, 0.1))


@pytest.mark.parametrize("stages", [3, 5, 6])
@pytest.mark.parametrize("micro_batches", [2, 7, 16])
def test_1f1b_is_at_most_a_few_transfers_off_elsewhere(stages: int, micro_batches: int) -> None:
    closed = one_forward_one_backward_s(
        stages=stages, micro_batches=micro_batches, micro_batch_s=3.0, transfer_s=0.1
    )
    played = play_one_forward_one_backward(stages, micro_batches, 1.0, 2.0, 0.1)
    assert abs(closed - played) <= 3 * 0.1


def test_hidden_transfers_show_while_the_pipe_fills_and_drains() -> None:
    assert hidden_transfers_s(
        stages=4, micro_batches=8, micro_batch_s=3.0, transfer_s=0.1
    ) == pytest.approx(8 * 3.0 + 3 * 3.0 + 6 * 0.1)


def test_a_bubble_has_two_denominators() -> None:
    stages, micro_batches = 4, 8
    ideal = micro_batches * 3.0
    step = play_one_forward_one_backward(stages, micro_batches, 1.0, 2.0, 0.0)
    assert bubble_of_ideal(stages=stages, micro_batches=micro_batches) == pytest.approx(
        (step - ideal) / ideal
    )
    assert bubble_of_step(stages=stages, micro_batches=micro_batches) == pytest.approx(
        (step - ideal) / step
    )


@pytest.mark.parametrize("members", [2, 8, 64])
def test_a_barrier_waits_as_long_as_the_slowest_of_many_draws(members: int) -> None:
    rng = Random(members)
    drawn = mean(max(rng.gauss(1.0, 0.1) for _ in range(members)) for _ in range(4000))
    assert barrier_factor(members, 0.1) == pytest.approx(drawn, abs=0.006)


def test_nobody_waits_alone() -> None:
    assert barrier_factor(1, 0.5) == 1.0
    assert barrier_factor(64, 0.0) == 1.0


def test_the_smooth_form_lies_between_no_overlap_and_full() -> None:
    assert smooth_step_s(compute_s=2.0, exchange_s=1.0, gamma=1.0) == pytest.approx(3.0)
    assert smooth_step_s(compute_s=2.0, exchange_s=1.0, gamma=50.0) == pytest.approx(2.0, rel=1e-3)
