"""Parameter servers: what workers and servers exchange in one step."""


def synchronous_exchange_s(
    size: float,
    *,
    workers: int,
    servers: int,
    worker_bytes_per_s: float,
    server_bytes_per_s: float,
    is_full_duplex: bool = True,
) -> float:
    """Push of all gradients and pull of all weights, chunk by chunk, servers on their own nodes."""
    one_way_s = max(
        size / worker_bytes_per_s,
        workers * size / (servers * server_bytes_per_s),
    )
    return one_way_s if is_full_duplex else 2 * one_way_s


def colocated_exchange_s(size: float, *, workers: int, servers: int, bytes_per_s: float) -> float:
    """The same with the servers on the workers' nodes; with as many of each it equals a ring.

    A node with a server receives from the other W - 1 workers for its shard and from the other
    P - 1 servers for its worker: W + P - 2 shards of S/P each way.
    """
    others = (workers - 1) + (servers - 1)
    return others * size / (servers * bytes_per_s)


def asynchronous_period_s(
    size: float,
    *,
    compute_s: float,
    workers: int,
    servers: int,
    worker_bytes_per_s: float,
    server_bytes_per_s: float,
) -> float:
    """Time between two steps of one worker that waits for nobody.

    Alone it computes, pushes and pulls. All workers together can not be served faster than the
    servers' links allow; that is the only place where they hinder each other.
    """
    alone_s = compute_s + 2 * size / worker_bytes_per_s
    served_s = workers * size / (servers * server_bytes_per_s)
    return max(alone_s, served_s)


def update_rate_per_s(
    size: float,
    *,
    compute_s: float,
    workers: int,
    servers: int,
    worker_bytes_per_s: float,
    server_bytes_per_s: float,
) -> float:
    """Updates per second of all asynchronous workers together."""
    return workers / asynchronous_period_s(
        size,
        compute_s=compute_s,
        workers=workers,
        servers=servers,
        worker_bytes_per_s=worker_bytes_per_s,
        server_bytes_per_s=server_bytes_per_s,
    )


def byteps_exchange_s(size: float, *, workers: int, helpers: int, bytes_per_s: float) -> float:
    """n workers and h <= n CPU-only helpers that all serve a share (BytePS, OSDI 2020)."""
    assert 0 <= helpers <= workers
    if workers == 1:
        return 0.0
    share = workers * workers + helpers * workers - 2 * helpers
    return 2 * workers * (workers - 1) * size / (share * bytes_per_s)
