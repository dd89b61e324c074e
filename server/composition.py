"""Which adapter stands behind which port: the only place that knows."""

import os
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import uuid_utils

from api.attempt_tokens import AttemptTokens
from api.cluster_facts import ClusterFacts
from api.dependencies import ApiDependencies, ReadinessCheck
from api.limits import ApiLimits
from scheduler.adapters.local.cluster import LocalCluster
from scheduler.adapters.local.gang_making import GangSettings, inherited
from scheduler.adapters.local.retention import RetentionLimits
from scheduler.adapters.log_sink import LogSink
from scheduler.control.loop import ControlLoop
from scheduler.control.outside import Outside
from scheduler.domain.instants import in_seconds
from scheduler.engine.ladders import Ladders
from scheduler.network.cluster_fabric import fabric_of_cluster
from scheduler.policies.registry import POLICIES
from scheduler.ports.cluster import Cluster
from scheduler.ports.leadership import Leadership
from scheduler.ports.log_source import LogSource
from scheduler.settings import Executor
from server import kubernetes_home
from server.database import leadership_on
from server.driver import LoopDriver
from server.executor_home import executor_id, labelled, refuse_workers_of_others
from server.fan_out import FanOut
from server.foretelling import ForecastProcesses
from server.foundation import Foundation
from server.housekeeping import Housekeeping, KeepTimes
from server.known_term import KnownTerm
from server.log_steps import LogSteps, LogStepsThread
from server.machine import Machine
from server.release import VERSION
from server.sole_scheduler import SoleLeadership


class ClusterAndLogs(Cluster, LogSource, Protocol):
    """An executor: it runs gangs and shows their output."""

    def check(self) -> None:
        """Raise ClusterUnavailableError with what is wrong, unless all is well."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """The running scheduler and the executor under it."""

    driver: LoopDriver
    cluster: ClusterAndLogs


def start_scheduler(
    foundation: Foundation,
    machine: Machine | None,
    stack: ExitStack,
    *,
    on_death: Callable[[], None],
) -> Scheduler:
    """The executor and the loop over it; `stack` takes them down in the right order.

    The executor is this machine, or where there is none, the Kubernetes cluster.
    """
    settings, store, clock = foundation.settings, foundation.store, foundation.clock
    links = foundation.config.topology.links
    wake = threading.Event()
    leadership, cluster = _leadership_and_cluster(foundation, machine, stack, on_change=wake.set)
    outside = Outside(
        store=store,
        cluster=cluster,
        leadership=leadership,
        clock=clock,
        sink=FanOut(LogSink(), foundation.metrics),
        step_times=partial(
            Ladders,
            fabric_maker=partial(fabric_of_cluster, plan=links),
        ),
    )
    kept = KeepTimes(
        events=settings.events_kept, audit=settings.audit_kept, logs=settings.logs_kept
    )
    housekeeping = Housekeeping(store, clock, kept)

    def between_ticks() -> None:
        housekeeping.run_if_due()
        if store.must_restart:
            raise RuntimeError("the disk failed to sync: what it says can not be believed")

    driver = LoopDriver(
        ControlLoop(outside, poll=settings.tick_every),
        clock,
        leadership,
        wake=wake,
        between_ticks=between_ticks,
        on_death=on_death,
    )
    stack.callback(store.on_change(driver.wake, requests_only=True))
    steps = LogSteps(store, cluster, clock, ClusterFacts(store, clock, links).distances)
    reader = LogStepsThread(steps, is_leader=leadership.is_leader)
    reader.start()
    stack.callback(reader.stop, in_seconds(settings.stop_timeout))
    driver.start()
    stack.callback(driver.stop, in_seconds(settings.stop_timeout))
    return Scheduler(driver=driver, cluster=cluster)


def _leadership_and_cluster(
    foundation: Foundation,
    machine: Machine | None,
    stack: ExitStack,
    *,
    on_change: Callable[[], None],
) -> tuple[Leadership, ClusterAndLogs]:
    settings, store = foundation.settings, foundation.store
    leadership = leadership_on(store, settings)
    if machine is None:
        term = KnownTerm(leadership)
        return term, kubernetes_home.open_cluster(foundation, stack, term=term, on_change=on_change)
    refuse_workers_of_others(store, settings.data_dir)
    cluster = stack.enter_context(local_cluster(foundation, machine, on_change=on_change))
    return SoleLeadership(leadership, store), cluster


def local_cluster(
    foundation: Foundation, machine: Machine, *, on_change: Callable[[], None]
) -> LocalCluster:
    """The executor of this machine."""
    settings = foundation.settings
    tokens = AttemptTokens(foundation.secret)
    return LocalCluster(
        settings.data_dir,
        foundation.clock,
        GangSettings(
            nodes=tuple(labelled(machine.nodes, executor_id(settings.data_dir))),
            api_url=foundation.address,
            attempt_token=tokens.sign,
            server_dir=Path.cwd(),
            environment=inherited(os.environ, python=sys.executable),
            log_bytes_max=settings.worker_log_bytes_max,
        ),
        levels=machine.levels,
        limits=RetentionLimits(
            attempts_for=settings.logs_kept,
            attempts_bytes_max=settings.logs_bytes_max,
            checkpoints_for=settings.checkpoints_kept,
        ),
        on_change=on_change,
    )


def api_dependencies(
    foundation: Foundation, scheduler: Scheduler | None, stack: ExitStack
) -> ApiDependencies:
    """What the API is given."""
    settings, store = foundation.settings, foundation.store
    logs: LogSource | None = None if scheduler is None else scheduler.cluster
    if logs is None and settings.executor is Executor.KUBERNETES:
        logs = kubernetes_home.open_logs(foundation, stack)
    is_on_pods = settings.executor is Executor.KUBERNETES
    readiness = [ReadinessCheck(name="store", check=store.check)]
    if scheduler is not None:
        readiness.append(ReadinessCheck(name="scheduler", check=scheduler.driver.check))
        # Without its cluster a server still takes jobs and answers for those there are.
        readiness.append(
            ReadinessCheck(name="cluster", check=scheduler.cluster.check, is_vital=False)
        )
    return ApiDependencies(
        store=store,
        accounts=store,
        clock=foundation.clock,
        new_id=lambda: str(uuid_utils.uuid7()),
        secret=foundation.secret,
        version=VERSION,
        logs=logs,
        on_write=(lambda: None) if scheduler is None else scheduler.driver.wake,
        readiness=tuple(readiness),
        limits=ApiLimits(
            requests_per_second=settings.requests_per_second,
            requests_burst=settings.requests_burst,
        ),
        priorities=foundation.config.priorities,
        links=foundation.config.topology.links,
        policies=tuple(POLICIES),
        forecaster=ForecastProcesses(),
        observe_request=foundation.metrics.observe_request,
        pods=kubernetes_home.pod_policy(foundation) if is_on_pods else None,
        oversizes=kubernetes_home.oversizes(foundation) if is_on_pods else (lambda _spec: ()),
    )
