"""docs/reference/dallyd.md: every command of `dallyd` with its options and examples."""

import inspect
from collections.abc import Iterator

import typer
from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from server.app import app
from tools.reference import markdown

_TEXT = """Every flag of `serve` is also a variable and a key of dallyd.yaml: see
[settings](settings.md) and [configuration](configuration.md). Exit code 0: done; 1: refused or
failed, and stderr says why."""

_EXAMPLES = "Examples:"


def page() -> str:
    """The whole page."""
    tree = get_command(app)
    assert isinstance(tree, TyperGroup)
    lines = markdown.head("The server: `dallyd`", _TEXT)
    for path, command in _commands("dallyd", tree):
        lines += _section(path, command)
    return markdown.page(lines)


def _commands(path: str, group: TyperGroup) -> Iterator[tuple[str, typer.core.TyperCommand]]:
    for name, command in sorted(group.commands.items()):
        if isinstance(command, TyperGroup):
            yield from _commands(f"{path} {name}", command)
        else:
            assert isinstance(command, typer.core.TyperCommand)
            yield f"{path} {name}", command


def _section(path: str, command: typer.core.TyperCommand) -> Iterator[str]:
    text, _, examples = inspect.cleandoc(command.help or "").partition(_EXAMPLES)
    yield from (f"## {path}", "", text.strip(), "")
    options = (one for one in command.params if isinstance(one, TyperOption))
    yield from markdown.table(
        ("option", "means"),
        ((markdown.code(", ".join(option.opts)), option.help or "") for option in options),
    )
    if examples:
        yield from ("```sh", *filter(None, examples.splitlines()), "```", "")
