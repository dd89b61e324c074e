"""Job file <-> JobSpec: `to_spec(to_request(spec))` is `spec`; defaults are filled in here."""

from api.job_files.communication_mapping import to_communication, to_profile
from api.job_files.schemas import (
    AxisRequest,
    Checkpoint,
    Duration,
    FailurePolicy,
    FailureRule,
    JobRequest,
    ResourceRequest,
    RoleRequest,
    SliceRequest,
    SpreadRequest,
    Topology,
)
from api.job_files.storage import from_secret, from_volume, to_secret, to_volume
from scheduler.domain import instants, job
from scheduler.domain.communication import Axis
from scheduler.domain.ids import GpuModel, LevelName, PoolName, QueueName, RoleName
from scheduler.domain.quantities import (
    parse_bytes,
    parse_cpus,
    parse_duration,
    render_bytes,
    render_cpus,
    render_duration,
)
from scheduler.domain.resources import NOTHING, Resources

ONLY_ROLE = RoleName("worker")
"""Name of the one role of a job whose file has no `roles`."""


def to_spec(
    request: JobRequest, *, labels: dict[str, str], default_queue: QueueName
) -> job.JobSpec:
    """The spec that a checked file means."""
    return job.JobSpec(
        queue=QueueName(request.queue) if request.queue else default_queue,
        roles=_roles(request),
        image=request.image,
        volumes=tuple(to_volume(volume) for volume in request.volumes),
        secrets=tuple(to_secret(secret) for secret in request.secrets),
        pod_profile=request.pod_profile or "",
        working_dir=request.working_dir or "",
        launcher=job.Launcher(request.launcher),
        priority=request.priority,
        is_preemptible=request.preemptible,
        gpu_models=tuple(GpuModel(model) for model in request.gpu_models),
        mixes_gpu_models=request.mix_gpu_models,
        pool=PoolName(request.pool) if request.pool else None,
        topology=_topology(request.topology),
        communication=to_profile(request.communication),
        iterations=request.duration.iterations if request.duration else None,
        run_time_max=_time(request.duration.max_runtime if request.duration else None),
        checkpoint=_checkpoint(request.checkpoint),
        hang_timeout=_time(request.hang_timeout),
        failure_policy=_failure_policy(request.failure_policy),
        success_policy=_success_policy(request.success_policy),
        labels=dict(labels),
    )


def to_request(spec: job.JobSpec) -> JobRequest:
    """The file's `spec` section that means `spec`, with its defaults written out."""
    is_plain = len(spec.roles) == 1 and _is_plain(spec.roles[0])
    only = spec.roles[0] if is_plain else None
    return JobRequest(
        queue=spec.queue,
        workers=only.workers if only else None,
        gpus_per_worker=only.gpus_per_worker if only else None,
        image=spec.image,
        command=only.command if only else None,
        launcher=spec.launcher.value,
        env=dict(only.env) if only else {},
        secrets=tuple(from_secret(use) for use in spec.secrets),
        resources=_to_resources(only) if only else None,
        volumes=tuple(from_volume(volume) for volume in spec.volumes),
        pod_profile=spec.pod_profile or None,
        working_dir=spec.working_dir or None,
        gpu_models=tuple(spec.gpu_models),
        mix_gpu_models=spec.mixes_gpu_models,
        pool=spec.pool,
        priority=spec.priority,
        preemptible=spec.is_preemptible,
        topology=_to_topology(spec.topology, spread_of=only),
        roles=() if only else tuple(_to_role(role) for role in spec.roles),
        communication=to_communication(spec.communication),
        duration=_to_duration(spec),
        checkpoint=_to_checkpoint(spec.checkpoint),
        hang_timeout=_to_time(spec.hang_timeout),
        failure_policy=_to_failure_policy(spec.failure_policy),
        success_policy=_to_success_policy(spec.success_policy),
    )


def _is_plain(role: job.Role) -> bool:
    """Whether `workers` and `gpusPerWorker` at the top can say it."""
    return role.name == ONLY_ROLE and role.pool is None


def _roles(request: JobRequest) -> tuple[job.Role, ...]:
    spread = request.topology.spread if request.topology else None
    if not request.roles:
        assert request.command is not None
        assert request.gpus_per_worker is not None
        return (
            job.Role(
                name=ONLY_ROLE,
                workers=request.workers or 1,
                gpus_per_worker=request.gpus_per_worker,
                command=request.command,
                resources=_resources(request.resources),
                shared_memory_bytes=_shared_memory(request.resources),
                env=dict(request.env),
                spread_by=LevelName(spread.by) if spread else None,
                spread_workers_max=spread.workers_max if spread else 0,
            ),
        )
    return tuple(_role(role, request, spread) for role in request.roles)


def _role(role: RoleRequest, request: JobRequest, job_spread: SpreadRequest | None) -> job.Role:
    command = role.command or request.command
    assert command is not None
    spread = role.spread or (job_spread if role.gpus_per_worker == 0 else None)
    return job.Role(
        name=RoleName(role.name),
        workers=role.workers,
        gpus_per_worker=role.gpus_per_worker,
        command=command,
        resources=_resources(role.resources or request.resources),
        shared_memory_bytes=_shared_memory(role.resources or request.resources),
        env={**request.env, **role.env},
        pool=PoolName(role.pool) if role.pool else None,
        spread_by=LevelName(spread.by) if spread else None,
        spread_workers_max=spread.workers_max if spread else 0,
    )


def _to_role(role: job.Role) -> RoleRequest:
    return RoleRequest(
        name=role.name,
        workers=role.workers,
        gpus_per_worker=role.gpus_per_worker,
        command=role.command,
        resources=_to_resources(role),
        env=dict(role.env),
        pool=role.pool,
        spread=_to_spread(role),
    )


def _to_spread(role: job.Role) -> SpreadRequest | None:
    if role.spread_by is None:
        return None
    return SpreadRequest(by=role.spread_by, workers_max=role.spread_workers_max)


def _resources(request: ResourceRequest | None) -> Resources:
    if request is None:
        return NOTHING
    memory = 0 if request.memory is None else parse_bytes(request.memory)
    return Resources(
        cpu_milli=0 if request.cpus is None else parse_cpus(request.cpus),
        # What lies in /dev/shm counts against the memory of the worker.
        memory_bytes=memory + _shared_memory(request) if memory else 0,
    )


def _shared_memory(request: ResourceRequest | None) -> int:
    if request is None or request.shared_memory is None:
        return 0
    return parse_bytes(request.shared_memory)


def _to_resources(role: job.Role) -> ResourceRequest | None:
    resources, shared = role.resources, role.shared_memory_bytes
    if resources == NOTHING and not shared:
        return None
    memory = resources.memory_bytes - shared if resources.memory_bytes else 0
    return ResourceRequest(
        cpus=render_cpus(resources.cpu_milli) if resources.cpu_milli else None,
        memory=render_bytes(memory) if memory else None,
        shared_memory=render_bytes(shared) if shared else None,
    )


def _topology(request: Topology | None) -> job.TopologyRequest:
    if request is None:
        return job.TopologyRequest()
    return job.TopologyRequest(
        required=LevelName(request.required) if request.required else None,
        preferred=LevelName(request.preferred) if request.preferred else None,
        slices=tuple(
            job.Slice(workers=piece.workers, within=LevelName(piece.within))
            for piece in request.slices
        ),
        axes=tuple(
            job.AxisWithin(axis=Axis(rule.axis), within=LevelName(rule.within))
            for rule in request.axes
        ),
    )


def _to_topology(topology: job.TopologyRequest, *, spread_of: job.Role | None) -> Topology | None:
    spread = _to_spread(spread_of) if spread_of else None
    if topology == job.TopologyRequest() and spread is None:
        return None
    return Topology(
        required=topology.required,
        preferred=topology.preferred,
        slices=tuple(SliceRequest(workers=s.workers, within=s.within) for s in topology.slices),
        axes=tuple(AxisRequest(axis=a.axis.value, within=a.within) for a in topology.axes),
        spread=spread,
    )


def _to_duration(spec: job.JobSpec) -> Duration | None:
    if spec.iterations is None and spec.run_time_max is None:
        return None
    return Duration(iterations=spec.iterations, max_runtime=_to_time(spec.run_time_max))


def _checkpoint(request: Checkpoint | None) -> job.CheckpointRequest:
    if request is None:
        return job.CheckpointRequest()
    default = job.CheckpointRequest()
    return job.CheckpointRequest(
        path=request.path or "",
        every=_time(request.every),
        grace=_time(request.grace) or default.grace,
        restart_cost=_time(request.restart_cost),
        warning=_time(request.warning) or default.warning,
        is_declared=True,
    )


def _to_checkpoint(checkpoint: job.CheckpointRequest) -> Checkpoint | None:
    if not checkpoint.is_declared:
        return None
    return Checkpoint(
        path=checkpoint.path or None,
        every=_to_time(checkpoint.every),
        grace=_to_time(checkpoint.grace),
        restart_cost=_to_time(checkpoint.restart_cost),
        warning=_to_time(checkpoint.warning),
    )


def _failure_policy(request: FailurePolicy | None) -> job.FailurePolicy:
    if request is None:
        return job.FailurePolicy()
    return job.FailurePolicy(
        restarts_max=request.max_restarts,
        rules=tuple(
            job.FailureRule(exit_codes=rule.on_exit_codes, action=rule.action)
            for rule in request.rules
        ),
    )


def _to_failure_policy(policy: job.FailurePolicy) -> FailurePolicy:
    return FailurePolicy(
        max_restarts=policy.restarts_max,
        rules=tuple(
            FailureRule.model_validate({"onExitCodes": rule.exit_codes, "action": rule.action})
            for rule in policy.rules
        ),
    )


def _success_policy(rule: str | dict[str, str]) -> str:
    return rule if isinstance(rule, str) else f"role:{rule['role']}"


def _to_success_policy(policy: str) -> str | dict[str, str]:
    _, found, role = policy.partition("role:")
    return {"role": role} if found else policy


def _time(text: str | None) -> instants.Duration | None:
    return None if text is None else parse_duration(text)


def _to_time(duration: instants.Duration | None) -> str | None:
    return None if duration is None else render_duration(duration)
