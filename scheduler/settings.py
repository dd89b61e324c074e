"""Flags, environment and file -> Settings; read once.

A flag of `dallyd` wins over a variable DALLYD_*, that over `server:` in dallyd.yaml, that over the
default. A variable or key that no setting has is refused with the nearest name there is.
"""

import os
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SecretStr,
    ValidationError,
)
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from scheduler.config_file import ConfigError
from scheduler.domain.instants import DAY, Duration, seconds
from scheduler.domain.quantities import parse_bytes, parse_duration
from scheduler.knob_settings import nearest
from scheduler.topology_file import FileProblem, quantity

PREFIX = "DALLYD_"
TOKEN_PATTERN = re.compile(r"dally_[A-Za-z0-9_-]{32,190}")


def _admin_token(token: SecretStr) -> SecretStr:
    if token and not TOKEN_PATTERN.fullmatch(token.get_secret_value()):
        raise PydanticCustomError(
            "Token", "a token is dally_ and 32 to 190 letters, digits, - and _"
        )
    return token


def _absolute(folder: Path) -> Path:
    try:
        return folder.expanduser().absolute()
    except RuntimeError as error:
        raise PydanticCustomError("Folder", "there is no such user's home") from error


def _database(secret: SecretStr) -> SecretStr:
    """The URL; what is wrong is said without it, for it may hold a password."""
    url = secret.get_secret_value()
    if not url:
        return secret
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise PydanticCustomError("Database", "is not a URL: its host or port is wrong") from error
    if parts.scheme == "sqlite" and len(parts.path) > 1:
        return secret
    if parts.scheme.partition("+")[0] == "postgresql" and parts.path.strip("/"):
        return secret
    raise PydanticCustomError(
        "Database", "must be postgresql://user:password@host/name or sqlite:////path/of/file"
    )


Span = Annotated[Duration, quantity(parse_duration)]
Size = Annotated[int, quantity(parse_bytes)]
Folder = Annotated[Path, AfterValidator(_absolute)]
DatabaseUrl = Annotated[SecretStr, AfterValidator(_database)]


class Executor(StrEnum):
    """What runs the workers."""

    LOCAL = "local"
    KUBERNETES = "kubernetes"


class Role(StrEnum):
    """What one process of `dallyd serve` does."""

    ALL = "all"
    API = "api"
    SCHEDULER = "scheduler"


class LogLevel(StrEnum):
    """The least that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class Settings(BaseModel):
    """Everything `dallyd` can be told when it starts."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
    config: Path | None = Field(
        default=None, description="Path of dallyd.yaml: topology, queues, projects, policy."
    )
    data_dir: Folder = Field(
        default=Path("~/.local/share/dally"),
        validate_default=True,
        description="Folder of the SQLite database, of worker logs and checkpoints.",
    )
    database_url: DatabaseUrl = Field(
        default=SecretStr(""),
        description="Database, `postgresql://user:password@host/name`; empty: SQLite in data_dir.",
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(
        default=8470, ge=0, le=65535, description="Port to listen on; 0: one the system picks."
    )
    allow_plain_http: bool = Field(
        default=False,
        description="Listen on other addresses than loopback, although tokens cross the network "
        "unencrypted: only behind a proxy that ends TLS.",
    )
    role: Role = Field(
        default=Role.ALL,
        description="`all`, or `api` and `scheduler` in processes of their own (PostgreSQL only).",
    )
    executor: Executor = Field(
        default=Executor.LOCAL,
        description="`local`: workers are processes of this machine; `kubernetes`: they are pods.",
    )
    kubeconfig: Path | None = Field(
        default=None,
        description="Kubeconfig of the cluster; empty: the service account of the pod that dallyd "
        "runs in.",
    )
    kube_context: str = Field(
        default="", description="Context of the kubeconfig; empty: its current one."
    )
    job_namespace: str = Field(
        default="dally-jobs",
        pattern=r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$",
        description="Namespace of the pods of projects that name no namespace of their own.",
    )
    kubernetes_requests_per_second: float = Field(
        default=100.0, gt=0, description="Requests to the Kubernetes API server over time."
    )
    kubernetes_sweep: Span = Field(
        default=seconds(300),
        description="How often is looked for what gangs have left behind on Kubernetes; what is "
        "found twice in a row is removed.",
    )
    kubernetes_unschedulable_after: Span = Field(
        default=seconds(30),
        description="How long kube-scheduler may say that a pod of a gang can not be placed before "
        "the gang is unwound and the node left alone for a while.",
    )
    worker_api_url: str = Field(
        default="",
        pattern=r"^(https?://[^\s]+)?$",
        description="Where pods reach this API to report steps; empty: they do not. Workers of the "
        "local executor use the address that the server listens on.",
    )
    log_level: LogLevel = Field(
        default=LogLevel.WARNING, description="The least that is logged, as JSON lines on stderr."
    )
    metrics_port: int = Field(
        default=0,
        ge=0,
        le=65535,
        description="Port on which /metrics needs no token; 0: it is on `port` alone, with one.",
    )
    slots: int = Field(
        default=8,
        ge=0,
        le=1024,
        description="Slots of this machine, only counted, where NVML finds no GPU and the topology "
        "names no nodes.",
    )
    admin_token: Annotated[SecretStr, AfterValidator(_admin_token)] = Field(
        default=SecretStr(""),
        description="An admin token, `dally_` and at least 32 characters, good as long as it is "
        "set here; another value takes its place. Empty: the first start makes one and prints it.",
    )
    token_days: int = Field(
        default=90, ge=1, le=3650, description="Days after which the first admin token expires."
    )
    tick_every: Span = Field(
        default=seconds(1), description="Longest time between two cycles of the scheduler loop."
    )
    lease: Span = Field(
        default=seconds(15),
        description="Another server takes over when the leader has not been heard of for so long.",
    )
    stop_timeout: Span = Field(
        default=seconds(5), description="Time open requests get to end when the server stops."
    )
    events_kept: Span = Field(
        default=Duration(30 * DAY), description="How long events stay in the store."
    )
    audit_kept: Span = Field(
        default=Duration(365 * DAY), description="How long audit rows stay in the store."
    )
    logs_kept: Span = Field(
        default=Duration(7 * DAY), description="How long logs of ended attempts stay in data_dir."
    )
    logs_bytes_max: Size = Field(
        default=4 << 30, description="Bytes of all ended attempts in data_dir; the oldest go first."
    )
    worker_log_bytes_max: Size = Field(
        default=64 << 20, description="Last bytes kept of each worker's log."
    )
    checkpoints_kept: Span = Field(
        default=Duration(30 * DAY),
        description="How long checkpoints in data_dir stay after the job's last attempt is gone.",
    )
    requests_per_second: float = Field(
        default=100.0, gt=0, description="Requests of one token over time; admins are not counted."
    )
    requests_burst: float = Field(default=400.0, ge=1, description="Requests of one token at once.")
    kill_point: str = Field(
        default="",
        description="For tests only: the process kills itself with SIGKILL when it reaches this "
        "point of scheduler/ports/kill_points.py (`NAME`, or `NAME:COUNT` for the COUNTth time).",
    )


def setting_names() -> tuple[str, ...]:
    """Every setting by its name in Python."""
    return tuple(Settings.model_fields)


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return f"{PREFIX}{name.upper()}"


def flag_of(name: str) -> str:
    """The flag of a setting, as far as `dallyd` has one."""
    return f"--{name.replace('_', '-')}"


def load_settings(
    flags: Mapping[str, str | int | Path | bool | None],
    *,
    environ: Mapping[str, str] | None = None,
    file_values: Mapping[str, JsonValue] | None = None,
) -> Settings:
    """Settings from flags (None: not given), environment and the file's `server:` section.

    Raises ConfigError with every mistake.
    """
    variables = os.environ if environ is None else environ
    file = file_values or {}
    given = {name: value for name, value in flags.items() if value is not None}
    problems = [*_unknown_variables(variables), *_unknown_keys(file)]
    from_environment = {
        name: variables[variable_of(name)]
        for name in setting_names()
        if variables.get(variable_of(name))
    }
    from_file = {name: file[to_camel(name)] for name in setting_names() if to_camel(name) in file}
    settings: Settings | None = None
    try:
        settings = Settings.model_validate({**from_file, **from_environment, **given})
    except ValidationError as error:
        for found in error.errors():
            name = str(found["loc"][0])
            place = (
                flag_of(name)
                if name in given
                else variable_of(name)
                if name in from_environment
                else f"server.{to_camel(name)}"
            )
            message = found["msg"]
            problems.append(FileProblem(place=place, detail=message[:1].lower() + message[1:]))
    if problems or settings is None:
        raise ConfigError("the configuration of dallyd", problems)
    return settings


def _unknown_variables(environ: Mapping[str, str]) -> Iterator[FileProblem]:
    known = tuple(variable_of(name) for name in setting_names())
    for variable in sorted(environ):
        if variable.startswith(PREFIX) and variable not in known:
            detail = f"there is no such setting{nearest(variable, known)}"
            yield FileProblem(place=variable, detail=detail)


def _unknown_keys(file: Mapping[str, JsonValue]) -> Iterator[FileProblem]:
    known = tuple(to_camel(name) for name in setting_names() if name != "config")
    for key in file:
        if key not in known:
            detail = f"there is no such setting{nearest(key, known)}"
            yield FileProblem(place=f"server.{key}", detail=detail)
