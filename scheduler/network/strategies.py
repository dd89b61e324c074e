"""One training step of a workload on a shape: what is computed, sent and hidden, by strategy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import ceil, sqrt

from scheduler.domain.communication import (
    STALENESS_UNBOUNDED,
    Axis,
    Collective,
    ParallelAxes,
    Strategy,
    Traffic,
)
from scheduler.network.fabric import Fabric, NodeLinks
from scheduler.network.groups import Group, groups_of, whole_gang
from scheduler.network.jitter import barrier_factor
from scheduler.network.neighbours import gossip_degree
from scheduler.network.overlap import BUCKET_BYTES, Block, equal_blocks_step_s
from scheduler.network.pipeline import one_forward_one_backward_s
from scheduler.network.servers import colocated_exchange_s, synchronous_exchange_s
from scheduler.network.shape import Shape
from scheduler.network.transfer import ALONE, FREE, Cost, bus_rate, collective_cost
from scheduler.network.workload import FORWARD_SHARE, Workload

GRADIENT_AXES = frozenset({Axis.DATA, Axis.SHARD, Axis.CONTEXT, Axis.SEQUENCE, Axis.EXPERT})
"""Axes whose ranks hold the same weights, so that gradients are summed over them."""

NEIGHBOUR_DEGREE = 2
"""Up to this many neighbours a gossip graph is a ring that enters each node once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParts:
    """A step taken apart: total = compute + blocking + max(last, exchange - hideable)."""

    compute_s: float
    """Computation, bubbles and waiting for the slowest rank."""
    blocking: Cost = FREE
    """Communication that computation waits for."""
    exchange: Cost = FREE
    """Communication that may hide behind computation."""
    last: Cost = FREE
    """The part of the exchange that nothing hides."""
    hideable_s: float = 0.0
    """Computation that the exchange may hide behind."""
    period_s_min: float = 0.0
    """The step is no shorter than this (servers that serve everybody)."""

    @property
    def exposed_s(self) -> float:
        """Communication that shows."""
        return self.total_s - self.compute_s

    @property
    def total_s(self) -> float:
        """The step."""
        hidden_s = max(self.last.total_s, self.exchange.total_s - self.hideable_s)
        return max(self.compute_s + self.blocking.total_s + hidden_s, self.period_s_min)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """Where a workload runs."""

    workload: Workload
    shape: Shape
    fabric: Fabric
    node: NodeLinks
    dimensions: tuple[tuple[Axis, int], ...]
    """Ranks along every axis, innermost first."""
    shares: tuple[float, ...] = ALONE

    def groups(self, axes: frozenset[Axis]) -> tuple[Group, ...]:
        """The kinds of groups of these axes."""
        return groups_of(self.shape, self.dimensions, axes)

    def cost(self, collective: Collective, size: float, axes: frozenset[Axis]) -> Cost:
        """The slowest group's cost of one collective, encryption included."""
        slowest = FREE
        for group in self.groups(axes):
            cost = collective_cost(
                collective, size, group, self.fabric, node=self.node, shares=self.shares
            )
            if cost.total_s > slowest.total_s:
                slowest = cost
        factor = self.workload.encrypted_factor
        return slowest if factor == 1.0 else slowest.times(factor)

    @property
    def rank_bytes(self) -> float:
        """Gradients that one rank holds."""
        return self.workload.gradient_bytes / self.workload.model_ranks

    @property
    def sent_bytes(self) -> float:
        """The same as it is sent."""
        compression = self.workload.compression
        return self.rank_bytes * (compression.ratio if compression else 1.0)

    @property
    def overlap(self) -> float:
        """Share of backward that hides communication (rho)."""
        if self.workload.overlap is not None:
            return self.workload.overlap
        if self.shape.tier <= self.fabric.nvlink_tier:
            return self.node.inside.overlap
        return self.fabric.network.overlap


def dimensions_of(axes: ParallelAxes, ranks: int) -> tuple[tuple[Axis, int], ...]:
    """Ranks along every axis, innermost first; ranks that are over belong to no group."""
    left = ranks // axes.product
    if axes.product == 1 or not left:
        return ((Axis.DATA, ranks),)
    return tuple((axis, left if axis is Axis.DATA else axes.size(axis)) for axis in axes.ordered)


def step_parts(
    workload: Workload, shape: Shape, fabric: Fabric, node: NodeLinks, shares: tuple[float, ...]
) -> StepParts:
    """One step of the workload on the shape."""
    scene = Scene(
        workload=workload,
        shape=shape,
        fabric=fabric,
        node=node,
        dimensions=dimensions_of(workload.parallel, shape.ranks),
        shares=shares,
    )
    compute_s = _rank_compute_s(scene)
    blocking = hidden = FREE
    if workload.traffic:
        blocking, hidden = _axis_traffic(scene)
    if any(entry.axis is Axis.DATA for entry in workload.traffic):
        parts = _overlapped(scene, compute_s, hidden, FREE)
    else:
        parts = _BY_STRATEGY[workload.strategy](scene, compute_s)
        if hidden.total_s:
            parts = replace(parts, exchange=parts.exchange.plus(hidden))
    if workload.compression:
        blocking = blocking.plus(Cost(workload.compression.codec_s, 0.0))
    if blocking.total_s:
        parts = replace(parts, blocking=parts.blocking.plus(blocking))
    if workload.parallel.pipeline > 1:
        parts = _pipelined(scene, parts, blocking)
    if fabric.busy_kernels_factor != 1.0 and parts.exchange.total_s:
        parts = replace(parts, compute_s=parts.compute_s * fabric.busy_kernels_factor)
    return parts


def _rank_compute_s(scene: Scene) -> float:
    """Compute of one rank among its neighbours on the node, and the wait for the slowest rank."""
    workload = scene.workload
    node = scene.node
    compute_s = workload.compute_s
    if node.packing_factor != 1.0 and node.gpus > 1:
        crowd = (max(scene.shape.ranks_by_level[0]) - 1) / (node.gpus - 1)
        compute_s *= 1.0 + (node.packing_factor - 1.0) * min(1.0, crowd)
    members, rounds = _barrier(workload, scene.shape.ranks)
    return compute_s * barrier_factor(members, scene.fabric.compute_variation / sqrt(rounds))


def _barrier(workload: Workload, ranks: int) -> tuple[int, int]:
    """Who waits for each other, and over how many steps of each the wait is evened out."""
    match workload.strategy:
        case Strategy.NONE:
            return 1, 1
        case Strategy.GOSSIP:
            return gossip_degree(ranks, workload.degree) + 1, 1
        case Strategy.LOCAL_SGD:
            return ranks, workload.local_steps
        case Strategy.PS if workload.staleness == STALENESS_UNBOUNDED:
            return 1, 1
        case Strategy.PS:
            return ranks, workload.staleness + 1
        case _:
            return ranks, 1


def _axis_traffic(scene: Scene) -> tuple[Cost, Cost]:
    """Blocking and hideable communication of the listed axes; pipeline transfers come later."""
    blocking = hidden = FREE
    for entry in scene.workload.traffic:
        if entry.axis is Axis.PIPELINE:
            continue
        cost = _traffic_cost(scene, entry)
        if entry.is_blocking:
            blocking = blocking.plus(cost)
        else:
            hidden = hidden.plus(cost)
    return blocking, hidden


def _traffic_cost(scene: Scene, entry: Traffic) -> Cost:
    size = entry.bytes_per_step / entry.messages_per_step
    axes = GRADIENT_AXES if entry.axis is Axis.DATA else frozenset({entry.axis})
    return scene.cost(entry.collective, size, axes).times(entry.messages_per_step)


def _overlapped(scene: Scene, compute_s: float, exchange: Cost, last: Cost) -> StepParts:
    """Hidden behind the backward pass of the last micro-step."""
    workload = scene.workload
    backward_s = compute_s * (1 - FORWARD_SHARE) / workload.accumulation_steps
    return StepParts(
        compute_s=compute_s,
        exchange=exchange,
        last=last,
        hideable_s=scene.overlap * backward_s,
    )


def _in_buckets(
    scene: Scene, collective: Collective, axes: frozenset[Axis], size: float
) -> tuple[Cost, Cost]:
    """A whole exchange in buckets, and its last bucket."""
    if size <= 0:
        return FREE, FREE
    buckets = max(1, ceil(size / BUCKET_BYTES))
    one = scene.cost(collective, size / buckets, axes)
    return one.times(buckets), one


def _gradient_exchange(scene: Scene) -> tuple[Cost, Cost]:
    """All gradients of all replicas added up, and the last bucket of that."""
    size = scene.sent_bytes
    compression = scene.workload.compression
    if compression is None or not compression.is_sparse:
        return _in_buckets(scene, Collective.ALL_REDUCE, GRADIENT_AXES, size)
    # Ranks send different entries, so all of them go to everybody.
    members = max(group.ranks for group in scene.groups(GRADIENT_AXES))
    return _in_buckets(scene, Collective.ALL_GATHER, GRADIENT_AXES, size * members)


def _all_reduced(scene: Scene, compute_s: float) -> StepParts:
    return _overlapped(scene, compute_s, *_gradient_exchange(scene))


def _state_sharded(scene: Scene, compute_s: float) -> StepParts:
    """ZeRO-1 and 2: gradients are scattered under backward, parameters gathered in the open."""
    scatter, last = _in_buckets(scene, Collective.REDUCE_SCATTER, GRADIENT_AXES, scene.sent_bytes)
    gather, _ = _in_buckets(scene, Collective.ALL_GATHER, GRADIENT_AXES, scene.rank_bytes)
    return replace(_overlapped(scene, compute_s, scatter, last), blocking=gather)


def _fully_sharded(scene: Scene, compute_s: float) -> StepParts:
    """FSDP, ZeRO-3, HSDP: blocks gathered ahead of use, gradients scattered behind it."""
    workload = scene.workload
    inner = GRADIENT_AXES if workload.parallel.shard == 1 else frozenset({Axis.SHARD})
    blocks, passes = workload.blocks, workload.accumulation_steps
    gather = scene.cost(Collective.ALL_GATHER, scene.rank_bytes / blocks, inner)
    scatter = scene.cost(Collective.REDUCE_SCATTER, scene.sent_bytes / blocks, inner)
    block = Block(
        forward_s=compute_s * FORWARD_SHARE / (blocks * passes),
        backward_s=compute_s * (1 - FORWARD_SHARE) / (blocks * passes),
        gather_s=gather.total_s,
        scatter_s=scatter.total_s,
    )
    total_s = passes * equal_blocks_step_s(block, blocks, optimizer_s=0.0, is_resharded=True)
    exchange = gather.times(2).plus(scatter).times(blocks * passes)
    last = gather.times(2).plus(scatter).times(passes)
    exposed_s = total_s - compute_s
    hideable_s = exchange.total_s - exposed_s
    if exposed_s <= last.total_s * (1 + 1e-9):
        # All but the ends is hidden; the exchange may grow until it outlasts the computation.
        hideable_s = compute_s * (1 - 1 / blocks)
    parts = StepParts(compute_s=compute_s, exchange=exchange, last=last, hideable_s=hideable_s)
    if inner == GRADIENT_AXES:
        return parts
    # The replicas of a shard sum up their part of the gradients.
    shard_bytes = scene.rank_bytes / workload.parallel.shard
    outer, _ = _in_buckets(scene, Collective.ALL_REDUCE, GRADIENT_AXES - {Axis.SHARD}, shard_bytes)
    hidden_s = scene.overlap * compute_s * (1 - FORWARD_SHARE) / passes
    left_s = max(0.0, outer.total_s - hidden_s)
    share = left_s / outer.total_s if outer.total_s else 0.0
    return replace(parts, blocking=outer.times(share))


def _served(scene: Scene, compute_s: float) -> StepParts:
    """Parameter servers: synchronous, or with workers that run ahead."""
    workload = scene.workload
    workers = scene.shape.ranks
    if workers == 1 and not workload.servers:
        return StepParts(compute_s=compute_s)
    servers = workload.servers or workers
    size = scene.sent_bytes
    rate = _rank_rate(scene)
    server_rate = scene.fabric.network.efficiency * scene.node.nics_bytes_per_s
    if not workload.servers or not server_rate:
        server_rate = rate
    if workload.staleness != 0:
        served_s = workers * size / (servers * server_rate) * workload.encrypted_factor
        both_ways_s = 2 * size / rate * workload.encrypted_factor
        return StepParts(
            compute_s=compute_s,
            blocking=Cost(0.0, both_ways_s),
            period_s_min=served_s,
        )
    if workload.servers:
        wire_s = synchronous_exchange_s(
            size,
            workers=workers,
            servers=servers,
            worker_bytes_per_s=rate,
            server_bytes_per_s=server_rate,
        )
    else:
        wire_s = colocated_exchange_s(size, workers=workers, servers=servers, bytes_per_s=rate)
    exchange = Cost(0.0, wire_s * workload.encrypted_factor)
    last = exchange.times(min(1.0, BUCKET_BYTES / size) if size else 0.0)
    return _overlapped(scene, compute_s, exchange, last)


def _rank_rate(scene: Scene) -> float:
    """Rate at which each rank reaches ranks anywhere in the gang."""
    group = whole_gang(scene.shape)
    rate = bus_rate(Collective.ALL_TO_ALL, group, scene.fabric, scene.node, scene.shares)
    if group.ranks == 1 and scene.node.nics:
        rate = min(rate, scene.fabric.network.efficiency * scene.node.nics_bytes_per_s)
    return rate


def _averaged(scene: Scene, compute_s: float) -> StepParts:
    """Local SGD: the average of every H-th step, spread over the H."""
    workload = scene.workload
    whole, _ = _gradient_exchange(scene)
    hidden = (workload.overlap or 0.0) * compute_s
    return StepParts(
        compute_s=compute_s,
        exchange=whole.times(1 / workload.local_steps),
        hideable_s=hidden,
    )


def _one_step_late(scene: Scene, compute_s: float) -> StepParts:
    """Pipe-SGD: the exchange runs under the whole next step."""
    whole, _ = _gradient_exchange(scene)
    return StepParts(compute_s=compute_s, exchange=whole, hideable_s=compute_s)


def _gossiped(scene: Scene, compute_s: float) -> StepParts:
    """Gossip: one message to and from each neighbour."""
    workload = scene.workload
    group = whole_gang(scene.shape)
    degree = gossip_degree(group.ranks, workload.degree)
    if degree <= 0:
        return StepParts(compute_s=compute_s)
    size = scene.sent_bytes
    pattern = Collective.ALL_REDUCE if degree <= NEIGHBOUR_DEGREE else Collective.ALL_TO_ALL
    rate = bus_rate(pattern, group, scene.fabric, scene.node, scene.shares)
    message = scene.cost(Collective.SEND_RECEIVE, 1.0, GRADIENT_AXES)
    exchange = Cost(message.latency_s, degree * size / rate * workload.encrypted_factor)
    return StepParts(
        compute_s=compute_s,
        exchange=exchange,
        hideable_s=(workload.overlap or 0.0) * compute_s,
    )


def _pipelined(scene: Scene, parts: StepParts, blocking: Cost) -> StepParts:
    """The same step cut into stages: bubbles, and activations from stage to stage."""
    workload = scene.workload
    stages, micro_batches = workload.parallel.pipeline, workload.accumulation_steps
    stretch = (micro_batches + stages - 1) / micro_batches
    transfers = FREE
    for entry in workload.traffic:
        if entry.axis is Axis.PIPELINE:
            size = entry.bytes_per_step / entry.messages_per_step
            one = scene.cost(Collective.SEND_RECEIVE, size, frozenset({Axis.PIPELINE}))
            waits = one_forward_one_backward_s(
                stages=stages, micro_batches=micro_batches, micro_batch_s=0.0, transfer_s=1.0
            )
            transfers = transfers.plus(one.times(waits if entry.is_blocking else 2 * (stages - 1)))
    bubbles = blocking.times(stretch - 1.0)
    return replace(
        parts,
        compute_s=parts.compute_s * stretch,
        blocking=parts.blocking.plus(bubbles).plus(transfers),
    )


_BY_STRATEGY: Mapping[Strategy, Callable[[Scene, float], StepParts]] = {
    Strategy.DDP: _all_reduced,
    Strategy.ZERO1: _state_sharded,
    Strategy.ZERO2: _state_sharded,
    Strategy.ZERO3: _fully_sharded,
    Strategy.FSDP: _fully_sharded,
    Strategy.HSDP: _fully_sharded,
    Strategy.PS: _served,
    Strategy.LOCAL_SGD: _averaged,
    Strategy.PIPE_SGD: _one_step_late,
    Strategy.GOSSIP: _gossiped,
    Strategy.NONE: lambda _, compute_s: StepParts(compute_s=compute_s),
}
