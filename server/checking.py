"""`dallyd check`: could the server start with these settings, and what would it find."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from scheduler.adapters.sql.migrating import current, head
from scheduler.config_file import Config, ConfigError
from scheduler.domain.errors import SchedulerError, WrongSchemaError
from scheduler.domain.explain import counted
from scheduler.settings import Executor, Role, Settings
from server import data_folder, kubernetes_home
from server.machine import offered
from server.refusals import refuse_what_can_not_be


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    what: str
    is_well: bool
    said: str


def findings(settings: Settings, config: Config) -> tuple[Finding, ...]:
    """Everything `serve` would need, looked at without changing anything."""
    return tuple(_finding(what, look) for what, look in _looks(settings, config))


def _looks(settings: Settings, config: Config) -> Iterator[tuple[str, Callable[[], str]]]:
    yield "settings", lambda: _settings(settings)
    yield "configuration", lambda: _configuration(config)
    yield "data folder", lambda: data_folder.look_at_data_dir(settings)
    yield "database", lambda: _database(settings)
    if settings.executor is Executor.KUBERNETES:
        yield "cluster", lambda: kubernetes_home.look_at_cluster(settings, config)
    elif settings.role is Role.ALL:
        yield "machine", lambda: _machine(settings, config)


def _finding(what: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(what=what, is_well=True, said=look())
    except ConfigError as error:
        said = "; ".join(f"{problem.place}: {problem.detail}" for problem in error.problems)
        return Finding(what=what, is_well=False, said=said)
    except (SchedulerError, OSError) as error:
        return Finding(what=what, is_well=False, said=str(error))


def _settings(settings: Settings) -> str:
    refuse_what_can_not_be(settings)
    return f"role {settings.role}, {settings.host} port {settings.port}"


def _configuration(config: Config) -> str:
    nodes = counted(len(config.topology.nodes), "node")
    queues = counted(len(config.queues), "queue")
    return f"names {nodes}, {queues} and {counted(len(config.projects), 'project')}"


def _database(settings: Settings) -> str:
    url = data_folder.database_url(settings)
    revision = current(url)
    kind = "SQLite" if data_folder.is_sqlite(settings) else "PostgreSQL"
    if revision is None and data_folder.is_sqlite(settings):
        return f"{kind}: not there yet, `serve` makes it in {settings.data_dir}"
    if revision != head() and not data_folder.is_sqlite(settings):
        raise WrongSchemaError(found=revision, needed=head(), what_to_do="run `dallyd migrate`")
    return f"{kind}: revision {revision} of {head()}"


def _machine(settings: Settings, config: Config) -> str:
    machine = offered(settings, config)
    nodes = counted(len(machine.nodes), "node")
    if machine.has_gpus:
        return f"{counted(machine.gpus, 'GPU')} on {nodes}"
    return f"{counted(machine.gpus, 'slot')} on {nodes} (no GPU is used)"
