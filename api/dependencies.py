"""What a request may use, and who is calling."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Protocol

from fastapi import Depends
from starlette.requests import Request

from api.attempt_tokens import AttemptTokens
from api.callers import Caller, Callers
from api.catalogue import Catalogue
from api.cluster_facts import ClusterFacts
from api.errors import RequestError, too_many_requests
from api.limits import ApiLimits, RateLimiter
from api.logs.following import LogPump
from api.paging import PageSigner
from api.streams.broadcaster import Broadcaster
from api.streams.responses import StreamPermits
from scheduler.domain.errors import SpecProblem
from scheduler.domain.instants import Instant
from scheduler.domain.job import JobSpec
from scheduler.domain.links import FabricPlan
from scheduler.domain.pod_policy import PodPolicy
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.account_store import AccountStore
from scheduler.ports.clock import Clock
from scheduler.ports.forecaster import Forecaster
from scheduler.ports.job_store import JobStore
from scheduler.ports.log_source import LogSource

DEFAULT_PRIORITIES: Mapping[str, int] = {"low": -100, "normal": 0, "high": 100}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessCheck:
    """One thing that must be well before the server takes requests."""

    name: str
    check: Callable[[], None]
    """Raises when it is not well."""
    is_vital: bool = True
    """Whether the server can not take requests without it; else it is shown as degraded."""


class RequestObserver(Protocol):
    """Counts requests, for metrics."""

    def __call__(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """One request has been answered; `route` is the template, never the raw path."""
        ...


def _observe_nothing(*, route: str, method: str, status: int, seconds: float) -> None:
    """Nobody counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiDependencies:
    """All that the API is given by the composition root."""

    store: JobStore
    accounts: AccountStore
    clock: Clock
    new_id: Callable[[], str]
    secret: bytes
    """The server's secret: signs attempt tokens and continue tokens; equal on all replicas."""
    version: str
    logs: LogSource | None = None
    """None where this process can not read logs."""
    on_write: Callable[[], None] = field(default=lambda: None)
    """Wakes the loop, after a write it should act on."""
    readiness: tuple[ReadinessCheck, ...] = ()
    limits: ApiLimits = field(default_factory=ApiLimits)
    priorities: Mapping[str, int] = field(default_factory=lambda: DEFAULT_PRIORITIES)
    """Priority classes by name."""
    links: FabricPlan = field(default_factory=FabricPlan)
    """The links of the cluster, as the configuration says."""
    policies: Collection[str] = ()
    """Names of the policies that the scheduler can run."""
    forecaster: Forecaster | None = None
    """None where this process can not work out plans."""
    observe_request: RequestObserver = _observe_nothing
    pods: PodPolicy | None = None
    """What admins say about pods; None where workers are processes of this machine."""
    oversizes: Callable[[JobSpec], tuple[SpecProblem, ...]] = field(default=lambda _spec: ())
    """What of a job is too large for the cluster to hold."""


class Services:
    """The dependencies, with what the API itself keeps while it runs."""

    def __init__(self, given: ApiDependencies) -> None:
        self.given = given
        self.store = given.store
        self.clock = given.clock
        self.limits = given.limits
        self.callers = Callers(given.accounts)
        self.rate_limiter = RateLimiter(
            per_second=given.limits.requests_per_second, burst=given.limits.requests_burst
        )
        self.pages = PageSigner(given.secret)
        self.is_closed = False
        self.catalogue = Catalogue(given.store, given.clock)
        self.cluster = ClusterFacts(given.store, given.clock, given.links)
        self.permits = StreamPermits(
            total_max=given.limits.streams_max, per_token=given.limits.streams_per_token
        )
        self.broadcaster = Broadcaster(given.store)
        self.log_pump = None if given.logs is None else LogPump(given.store, given.logs)
        self.attempt_tokens = AttemptTokens(given.secret)
        self._attempt_limiter = RateLimiter(
            per_second=given.limits.reports_per_second, burst=given.limits.reports_burst
        )

    def close_streams(self) -> None:
        """End every open stream and refuse new ones: the server is about to stop."""
        self.is_closed = True
        self.permits.close()
        self.broadcaster.close()
        if self.log_pump is not None:
            self.log_pump.close()
        if self.given.forecaster is not None:
            self.given.forecaster.close()

    def throttle_attempt(self, attempt: AttemptKey, now: Instant) -> None:
        """Raises RequestError if the attempt reports too often."""
        wait_s = self._attempt_limiter.wait_s(str(attempt), now)
        if wait_s > 0:
            raise too_many_requests(wait_s)


def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


def _caller(request: Request) -> Caller:
    """The authenticated caller: the gate lets nobody else through to a route that asks for one."""
    caller: Caller = request.state.caller
    return caller


# Async only so that they cost no worker thread: they wait for nothing.
async def _services_of(request: Request) -> Services:
    return _services(request)


async def _caller_of(request: Request) -> Caller:
    return _caller(request)


async def _admin_of(request: Request) -> Caller:
    caller = _caller(request)
    if not caller.is_admin:
        raise RequestError("Forbidden", f"{caller.name} is not an admin")
    return caller


ServicesOf = Annotated[Services, Depends(_services_of)]
CallerOf = Annotated[Caller, Depends(_caller_of)]
AdminOf = Annotated[Caller, Depends(_admin_of)]
