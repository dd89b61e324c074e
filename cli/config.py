"""Contexts: which server to talk to and as whom. The file is `$DALLY_CONFIG`, else in the home.

A flag wins over a variable, a variable over the file.
"""

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from cli.failures import CommandError

DEFAULT_SERVER = "http://127.0.0.1:8470"
DEFAULT_PROJECT = "default"


class Context(BaseModel):
    """One server and who the caller is there."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    server: str = DEFAULT_SERVER
    token: str = ""
    project: str = DEFAULT_PROJECT


class ConfigFile(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    current: str = ""
    contexts: dict[str, Context] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What the flags say; None where a flag was not given."""

    server: str | None = None
    token: str | None = None
    context: str | None = None
    project: str | None = None
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    def under(self, outer: "Choices") -> "Choices":
        """These choices, filled up from the flags given before the command."""
        return replace(
            self,
            server=self.server or outer.server,
            token=self.token or outer.token,
            context=self.context or outer.context,
            project=self.project or outer.project,
        )


def path_of_file() -> Path:
    """Where the contexts are kept."""
    chosen = os.environ.get("DALLY_CONFIG")
    return Path(chosen) if chosen else Path.home() / ".config" / "dally" / "config.yaml"


def load() -> ConfigFile:
    """The file; an empty one where there is none. Raises CommandError if it can not be read."""
    path = path_of_file()
    if not path.exists():
        return ConfigFile()
    try:
        return ConfigFile.model_validate(yaml.safe_load(path.read_text()) or {})
    except (OSError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise CommandError(
            f"can't read {path}: {_in_a_line(error)}",
            reason="InvalidConfig",
            way_out=f"mend or remove {path}",
        ) from error


def _in_a_line(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(step) for step in first["loc"])
        return f"{place}: {first['msg']}" if place else first["msg"]
    return " ".join(str(error).split())


def change(make: Callable[[ConfigFile], ConfigFile]) -> None:
    """Write what `make` makes of the file, readable by its owner alone since it holds tokens.

    One at a time: of two that change it at once, none loses what the other has written.
    """
    path = path_of_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f"{path.name}.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        changed = make(load())
        draft = path.with_name(f"{path.name}.new")
        draft.touch(mode=0o600)
        draft.write_text(yaml.safe_dump(changed.model_dump(), sort_keys=False))
        draft.replace(path)


def resolve(choices: Choices) -> Context:
    """The context a command uses. Raises CommandError if the named one does not exist."""
    config = load()
    variables = choices.environment
    name = choices.context or variables.get("DALLY_CONTEXT") or config.current
    if name:
        expect_context(name, config)
    context = config.contexts[name] if name else Context()
    return Context(
        server=choices.server or variables.get("DALLY_SERVER") or context.server,
        token=choices.token or variables.get("DALLY_TOKEN") or context.token,
        project=choices.project or context.project,
    )


def expect_context(name: str, config: ConfigFile) -> None:
    """Raise CommandError if the file has no such context."""
    if name not in config.contexts:
        raise CommandError(
            f"no context named {name!r}; there are: {', '.join(config.contexts) or 'none'}",
            reason="NoSuchContext",
            way_out="dally config get-contexts",
        )
