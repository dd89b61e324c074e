"""What everything of one server stands on."""

from dataclasses import dataclass, field

from scheduler.adapters.prometheus import Metrics
from scheduler.adapters.sql.job_store import SqlStore
from scheduler.adapters.system_clock import SystemClock
from scheduler.config_file import Config
from scheduler.domain.instants import Instant
from scheduler.settings import Settings

API_SECRET = "api"  # noqa: S105 - the name under which the secret is kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Foundation:
    """What everything stands on."""

    settings: Settings
    config: Config
    store: SqlStore
    metrics: Metrics
    address: str
    """URL of the API."""
    clock: SystemClock = field(init=False)

    def __post_init__(self) -> None:
        last = self.store.last_cycle()
        clock = SystemClock(not_before=Instant(0) if last is None else last.at)
        object.__setattr__(self, "clock", clock)

    @property
    def secret(self) -> bytes:
        """Signs the tokens of attempts and of pages."""
        return self.store.server_secret(API_SECRET)
