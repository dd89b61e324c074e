"""docs/reference/settings.md and .env.example: every setting of the server, from its code."""

from pathlib import Path
from typing import Any

from pydantic import SecretStr
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from scheduler.domain.instants import Duration
from scheduler.domain.quantities import render_bytes, render_duration
from scheduler.settings import Settings, Size, Span, flag_of, variable_of
from server.app import SERVE_FLAGS
from tools.reference import markdown

_TEXT = """What `dallyd` can be told when it starts. A flag wins over the variable, the variable
over the key under `server:` in dallyd.yaml, that over the default. A variable `DALLYD_*` or a key
that is not listed here is refused with the nearest name there is. Times carry their unit (`90s`,
`10m`, `24h`), sizes as well (`64Mi`, `4Gi`)."""

_ENV_HEAD = """# Made by `make docs` from the code; do not edit.
# Every setting of dallyd with its default. Take the sign away in front of what you change.
"""


def page() -> str:
    """The whole page."""
    rows = (
        (
            markdown.code(variable_of(name)),
            markdown.code(flag_of(name)) if name in SERVE_FLAGS else "",
            "" if name == "config" else markdown.code(to_camel(name)),
            markdown.code(_default(field)) or "none",
            field.description or "",
        )
        for name, field in Settings.model_fields.items()
    )
    lines = [
        *markdown.head("Settings of the server", _TEXT),
        *markdown.table(("variable", "flag", "key in `server:`", "default", "means"), rows),
    ]
    return markdown.page(lines)


def env_example() -> str:
    """An environment file that changes nothing."""
    entries = [
        f"# {field.description}\n#{variable_of(name)}={_default(field)}\n"
        for name, field in Settings.model_fields.items()
    ]
    return _ENV_HEAD + "\n" + "\n".join(entries)


def _default(field: FieldInfo) -> str:
    default: Any = field.default
    if default is None:
        return ""
    if isinstance(default, SecretStr):
        return default.get_secret_value()
    if field.annotation is bool:
        return "true" if default else "false"
    if isinstance(default, Path | str | float):
        return str(default)
    return _amount(default, field)


def _amount(default: int, field: FieldInfo) -> str:
    hints = {name: Settings.__annotations__[name] for name in Settings.model_fields}
    name = next(name for name, known in Settings.model_fields.items() if known is field)
    if hints[name] is Span:
        return render_duration(Duration(default))
    return str(render_bytes(default) if hints[name] is Size else default)
