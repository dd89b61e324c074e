"""The Kubernetes cluster as this server uses it: settings and configuration become an executor.

The client library is an extra: it is imported only where the executor is Kubernetes.
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING

from api.attempt_tokens import AttemptTokens
from scheduler.config_file import Config, ConfigError
from scheduler.domain.copying import replace
from scheduler.domain.errors import SpecProblem
from scheduler.domain.explain import counted
from scheduler.domain.ids import PoolName, ProjectName
from scheduler.domain.instants import in_seconds
from scheduler.domain.job import JobSpec
from scheduler.domain.pod_policy import PodPolicy
from scheduler.ports.log_source import LogSource
from scheduler.settings import Settings, flag_of
from scheduler.topology_file import FileProblem
from server.foundation import Foundation
from server.known_term import KnownTerm

if TYPE_CHECKING:
    from scheduler.adapters.kubernetes.access import Access
    from scheduler.adapters.kubernetes.cluster import KubernetesCluster
    from scheduler.adapters.kubernetes.nodes import NodeRules


def open_cluster(
    foundation: Foundation, stack: ExitStack, *, term: KnownTerm, on_change: Callable[[], None]
) -> "KubernetesCluster":
    """The executor, started; `stack` closes it."""
    _expect_client()
    from scheduler.adapters.kubernetes.cluster import (  # noqa: PLC0415 - an extra
        KubernetesCluster,
        KubernetesSettings,
    )
    from scheduler.adapters.kubernetes.keeper_times import KeeperTimes  # noqa: PLC0415 - an extra
    from scheduler.adapters.kubernetes.manifests import RenderSettings  # noqa: PLC0415 - an extra

    settings, config = foundation.settings, foundation.config
    render = RenderSettings(
        instance=foundation.store.instance_id(),
        namespace_of=lambda project: namespace_of(settings, config, project),
        attempt_token=AttemptTokens(foundation.secret).sign,
        api_url=settings.worker_api_url,
        policy=config.pods,
    )
    cluster = KubernetesCluster(
        KubernetesSettings(
            access=access(settings),
            namespaces=namespaces(settings, config),
            render=render,
            rules=_rules(config),
            requests_per_second=settings.kubernetes_requests_per_second,
            sweep_s=in_seconds(settings.kubernetes_sweep),
            keeper_times=KeeperTimes(
                unschedulable_s=in_seconds(settings.kubernetes_unschedulable_after)
            ),
        ),
        foundation.clock,
        foundation.store,
        term=term.term,
        may_write=term.is_leader,
        may_sweep=lambda: not any(s.shows_an_older_store for s in foundation.store.strays()),
        on_change=on_change,
        emit=foundation.metrics.emit,
    )
    return stack.enter_context(cluster)


def open_logs(foundation: Foundation, stack: ExitStack) -> LogSource:
    """Logs for a process that serves the API and does not schedule; `stack` closes it."""
    _expect_client()
    from scheduler.adapters.kubernetes.remote_logs import RemoteLogs  # noqa: PLC0415 - an extra

    settings = foundation.settings
    logs = RemoteLogs(
        access(settings),
        namespaces(settings, foundation.config),
        foundation.store.instance_id(),
        foundation.store,
    )
    stack.callback(logs.close)
    return logs


def oversizes(foundation: Foundation) -> Callable[[JobSpec], tuple[SpecProblem, ...]]:
    """What of a job would be too large for the objects that describe its gang."""
    _expect_client()
    from scheduler.adapters.kubernetes.manifests import RenderSettings  # noqa: PLC0415 - an extra
    from scheduler.adapters.kubernetes.trial import too_large  # noqa: PLC0415 - an extra

    render = RenderSettings(
        instance="0" * 32,
        namespace_of=lambda _project: "trial",
        api_url=foundation.settings.worker_api_url,
        policy=foundation.config.pods,
    )
    return partial(too_large, render)


def look_at_cluster(settings: Settings, config: Config) -> str:
    """What the API server says. Raises ClusterUnavailableError."""
    _expect_client()
    from scheduler.adapters.kubernetes.probing import look  # noqa: PLC0415 - an extra

    nodes = look(access(settings), namespaces(settings, config))
    return f"{counted(nodes, 'node')}; gangs go to {', '.join(namespaces(settings, config))}"


def pod_policy(foundation: Foundation) -> PodPolicy:
    """What admins say about pods, and in which namespaces these are."""
    config = foundation.config
    return replace(
        config.pods, namespaces=config.namespaces, namespace=foundation.settings.job_namespace
    )


def namespace_of(settings: Settings, config: Config, project: ProjectName) -> str:
    """The namespace of a project's pods."""
    return config.namespaces.get(project, settings.job_namespace)


def namespaces(settings: Settings, config: Config) -> tuple[str, ...]:
    """Every namespace that gangs may be in."""
    return tuple(sorted({settings.job_namespace, *config.namespaces.values()}))


def access(settings: Settings) -> "Access":
    """How the API server is reached. Raises ConfigError without the client library."""
    _expect_client()
    from scheduler.adapters.kubernetes.access import Access  # noqa: PLC0415 - an extra

    kubeconfig = None if settings.kubeconfig is None else settings.kubeconfig.expanduser()
    return Access(kubeconfig=kubeconfig, context=settings.kube_context)


def _rules(config: Config) -> "NodeRules":
    from scheduler.adapters.kubernetes.nodes import NodeRules, Pool  # noqa: PLC0415 - an extra

    labelled = tuple(level for level in config.topology.levels if level.label)
    pools = tuple(
        Pool(name=PoolName(pool.name), selector=pool.node_selector) for pool in config.pools
    )
    return NodeRules(
        levels=labelled, pools=pools, counted=tuple(sorted(config.pods.counted_resources))
    )


def _expect_client() -> None:
    if find_spec("kubernetes") is None:
        detail = "the client library is not installed: pip install 'dally[kubernetes]'"
        problem = FileProblem(place=flag_of("executor"), detail=detail)
        raise ConfigError("the configuration of dallyd", [problem])
