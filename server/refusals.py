"""Settings that can not be served, each with the reason and what to do instead."""

import ipaddress
from collections.abc import Iterator

from scheduler.config_file import ConfigError
from scheduler.settings import Executor, Role, Settings, flag_of, variable_of
from scheduler.topology_file import FileProblem
from server.data_folder import is_sqlite
from server.killing import trap_of


def refuse_what_can_not_be(settings: Settings) -> None:
    """Raises ConfigError with every reason."""
    problems = list(_problems(settings))
    if problems:
        raise ConfigError("the configuration of dallyd", problems)


def _problems(settings: Settings) -> Iterator[FileProblem]:
    if not _is_loopback(settings.host) and not settings.allow_plain_http:
        yield FileProblem(
            place=flag_of("host"),
            detail=f"{settings.host} is reachable from outside, and the server speaks plain HTTP: "
            "tokens would cross the network unencrypted; put a proxy that ends TLS in front and "
            "say --allow-plain-http, or listen on 127.0.0.1",
        )
    if settings.role is not Role.ALL and is_sqlite(settings):
        yield FileProblem(
            place=flag_of("role"),
            detail="roles share a PostgreSQL database (--database-url); on SQLite one process "
            "does everything: --role all",
        )
    if settings.role is Role.SCHEDULER and settings.executor is Executor.LOCAL:
        yield FileProblem(
            place=flag_of("role"),
            detail="the local executor runs workers beside the API that shows their logs: it needs "
            "--role all; pods need no such thing: --executor kubernetes",
        )
    if settings.kill_point and trap_of(settings.kill_point) is None:
        yield FileProblem(
            place=variable_of("kill_point"), detail=f"there is no point {settings.kill_point}"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
