"""Hypothesis draws job specs: every field that a job file can say."""

from dataclasses import replace
from math import prod

from hypothesis import strategies as st

from api.job_files.scalars import NAME_LENGTH_MAX
from scheduler.domain import communication as comm
from scheduler.domain.ids import GpuModel, LevelName, PoolName, QueueName, RoleName
from scheduler.domain.instants import HOUR, SECOND, Duration
from scheduler.domain.job import (
    CheckpointRequest,
    FailurePolicy,
    FailureRule,
    JobSpec,
    Launcher,
    Role,
    Slice,
    TopologyRequest,
)
from scheduler.domain.resources import Resources
from scheduler.domain.storage import SecretUse, Volume, VolumeKind

LEVELS = ("node", "rack", "spine", "cluster")
"""Closest first."""

names = st.from_regex(rf"[a-z]([-a-z0-9]{{0,{NAME_LENGTH_MAX - 2}}}[a-z0-9])?", fullmatch=True)
levels = st.sampled_from(LEVELS).map(LevelName)
pools = st.sampled_from(["h100", "cpu"]).map(PoolName)
printable = st.text(
    st.characters(exclude_categories=["C", "Zl", "Zp"], include_characters="\t\n"), max_size=20
)
counts = st.integers(1, 10**12)
amounts = st.integers(0, 2**40)
times = st.integers(1, 3000 * 24 * HOUR).map(Duration)
second_or_more = st.integers(SECOND, 3000 * 24 * HOUR).map(Duration)
floats = st.floats(0, 1e9, allow_nan=False)

commands = st.tuples(printable.filter(bool), printable, printable)
variables = st.dictionaries(
    st.from_regex(r"MY_[A-Z0-9_]{0,10}", fullmatch=True), printable, max_size=3
)
resources = st.builds(
    Resources, cpu_milli=st.integers(0, 10**6), memory_bytes=st.integers(0, 2**45)
)


paths = st.from_regex(r"/[a-z]{1,8}(/[a-z]{1,8})?", fullmatch=True)
volumes = st.builds(
    Volume,
    name=names,
    kind=st.sampled_from([kind for kind in VolumeKind if kind is not VolumeKind.SCRATCH]),
    source=names,
    mount_path=paths,
    sub_path=st.sampled_from(["", "run1"]),
    is_read_only=st.booleans(),
) | st.builds(
    Volume,
    name=names,
    kind=st.just(VolumeKind.SCRATCH),
    bytes_max=st.integers(1, 2**45),
    mount_path=paths,
)
secrets = st.builds(SecretUse, secret=names, key=names, env=names) | st.builds(
    SecretUse, secret=names, key=names, file=paths
)


@st.composite
def roles(draw: st.DrawFn, name: str, *, pool: bool) -> Role:
    """One role; the only one of a plain job has no pool of its own."""
    spread = draw(st.none() | levels)
    asked, shared = draw(resources), draw(st.integers(0, 2**40))
    memory = asked.memory_bytes + shared if asked.memory_bytes else 0
    return Role(
        name=RoleName(name),
        workers=draw(st.integers(1, 100)),
        gpus_per_worker=draw(st.integers(0, 16)),
        command=draw(commands),
        resources=replace(asked, memory_bytes=memory),
        shared_memory_bytes=shared,
        env=draw(variables),
        pool=draw(st.none() | pools) if pool else None,
        spread_by=spread,
        spread_workers_max=draw(st.integers(1, 10)) if spread else 0,
    )


@st.composite
def gangs(draw: st.DrawFn) -> tuple[Role, ...]:
    """One role, or several with different names."""
    if draw(st.booleans()):
        return (draw(roles("worker", pool=False)),)
    members = draw(st.lists(names, min_size=1, max_size=3, unique=True))
    return tuple(draw(roles(name, pool=True)) for name in members)


axes = st.builds(
    comm.ParallelAxes,
    tensor=st.integers(1, 16),
    shard=st.integers(1, 16),
    pipeline=st.integers(1, 16),
    order=st.lists(st.sampled_from(comm.Axis), unique=True).map(tuple),
)
traffic = st.builds(
    comm.Traffic,
    axis=st.sampled_from(comm.Axis),
    collective=st.sampled_from(comm.Collective),
    bytes_per_step=st.integers(1, 2**40),
    is_blocking=st.booleans(),
    messages_per_step=counts,
)
compression = st.builds(
    comm.Compression,
    ratio=st.floats(0.001, 1),
    codec_s=floats,
    from_step=st.integers(0, 10**9),
    is_sparse=st.booleans(),
)
phases = st.builds(
    comm.CommunicationPhase,
    until_step=st.integers(1, 10**9),
    gradient_bytes=st.none() | amounts,
    compute_s=st.none() | floats,
    local_steps=st.none() | counts,
)
profiles = st.builds(
    comm.CommunicationProfile,
    model=st.sampled_from(["", "resnet50"]),
    strategy=st.none() | st.sampled_from(comm.Strategy),
    gradient_bytes=st.none() | amounts,
    compute_s=st.none() | floats,
    batch_per_gpu=st.none() | counts,
    precision=st.none() | st.sampled_from(comm.Precision),
    accumulation_steps=counts,
    overlap=st.none() | st.floats(0, 1),
    parallel=axes,
    traffic=st.lists(traffic, max_size=2).map(tuple),
    servers=st.integers(0, 100),
    staleness=st.integers(-1, 100),
    local_steps=counts,
    degree=st.integers(1, 100),
    compression=st.none() | compression,
    encrypted_factor=st.floats(1, 10),
    phases=st.lists(phases, max_size=3, unique_by=lambda phase: phase.until_step).map(
        lambda found: tuple(sorted(found, key=lambda phase: phase.until_step))
    ),
)


@st.composite
def topologies(draw: st.DrawFn, gang: tuple[Role, ...]) -> TopologyRequest:
    """Caps on a gang's placement; slices cut up its first role with GPUs, one inside the other."""
    slices: list[Slice] = []
    with_gpus = [role for role in gang if role.gpus_per_worker]
    if with_gpus:
        size, level = with_gpus[0].workers, len(LEVELS) - 1
        for _ in range(draw(st.integers(0, 2))):
            size = draw(st.sampled_from([n for n in range(1, size + 1) if size % n == 0]))
            level = draw(st.integers(0, level))
            slices.append(Slice(workers=size, within=LevelName(LEVELS[level])))
    return TopologyRequest(
        required=draw(st.none() | levels),
        preferred=draw(st.none() | levels),
        slices=tuple(slices),
    )


checkpoints = st.just(CheckpointRequest()) | st.builds(
    CheckpointRequest,
    path=st.sampled_from(["", "/ckpt/run1"]),
    every=st.none() | times,
    grace=st.integers(SECOND, HOUR).map(Duration),
    restart_cost=st.none() | times,
    is_declared=st.just(True),  # noqa: FBT003 - hypothesis takes the value so
)
failure_policies = st.builds(
    FailurePolicy,
    restarts_max=st.integers(0, 1000),
    rules=st.lists(
        st.builds(
            FailureRule,
            exit_codes=st.lists(st.integers(1, 255), min_size=1, max_size=3).map(tuple),
            action=st.sampled_from(["Fail", "Restart"]),
        ),
        max_size=2,
    ).map(tuple),
)


def _is_cut_by(gang: tuple[Role, ...], axes: comm.ParallelAxes) -> bool:
    """Whether the axes divide the ranks of each role."""
    sizes = (axes.tensor, axes.sequence, axes.context, axes.expert, axes.shard, axes.pipeline)
    ranks = (role.workers * (role.gpus_per_worker or 1) for role in gang)
    return all(number % prod(sizes) == 0 for number in ranks)


@st.composite
def specs(draw: st.DrawFn) -> JobSpec:
    """A spec that a job file can say."""
    gang = draw(gangs())
    communication = draw(st.none() | profiles)
    if communication is not None and not _is_cut_by(gang, communication.parallel):
        communication = replace(communication, parallel=comm.ParallelAxes())
    role = draw(st.sampled_from([role.name for role in gang]))
    return JobSpec(
        queue=QueueName(draw(st.sampled_from(["default", "team-a"]))),
        roles=gang,
        image=draw(st.sampled_from(["", "registry/train:1"])),
        volumes=tuple(draw(st.lists(volumes, max_size=2))),
        secrets=tuple(draw(st.lists(secrets, max_size=2))),
        pod_profile=draw(st.sampled_from(["", "rdma"])),
        working_dir=draw(st.sampled_from(["", "/workspace"])),
        launcher=draw(st.sampled_from(Launcher)),
        priority=draw(st.sampled_from(["low", "normal", "high"])),
        is_preemptible=draw(st.booleans()),
        gpu_models=tuple(GpuModel(m) for m in draw(st.sampled_from([(), ("H100-80GB",)]))),
        mixes_gpu_models=draw(st.booleans()),
        pool=draw(st.none() | pools),
        topology=draw(topologies(gang)),
        communication=communication,
        iterations=draw(st.none() | counts),
        run_time_max=draw(st.none() | second_or_more),
        checkpoint=draw(checkpoints),
        hang_timeout=draw(st.none() | second_or_more),
        failure_policy=draw(failure_policies),
        success_policy=draw(st.sampled_from(["all", "rank0", f"role:{role}"])),
        labels=draw(st.dictionaries(names, names, max_size=2)),
    )
