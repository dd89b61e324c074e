"""docs/reference/cli.md: every command of `dally` with its options and examples."""

import inspect
from collections.abc import Iterator

import click

from cli.failures import ExitCode
from cli.root import dally
from tools.reference import markdown

_TEXT = """Flags win over variables, variables over the context of the config file. TYPE is a
noun in the singular or the plural, or its short name; `TYPE/NAME` works as well. Data goes to
stdout, everything said about it to stderr. Every command takes the options of `dally` itself,
too."""

_EXIT_CODES = {
    ExitCode.OK: "done; with `--wait` or `--follow`, the job succeeded",
    ExitCode.ERROR: "an error; with `--wait` or `--follow`, the job failed",
    ExitCode.NOT_PLACED: "the job was accepted and could not be placed in time (`--wait-placed`)",
    ExitCode.UNCHANGED: "nothing changed, and `--error-unchanged` was given",
    ExitCode.DENIED: "not logged in, or not allowed",
    ExitCode.UNREACHABLE: "the server did not answer; trying again is sensible",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C; the job goes on",
}


def page() -> str:
    """The whole page."""
    lines = [
        *markdown.head("The command line: `dally`", _TEXT),
        "## Exit codes",
        "",
        *markdown.table(
            ("code", "means"), ((str(int(code)), _EXIT_CODES[code]) for code in ExitCode)
        ),
    ]
    for path, command in _commands("dally", dally):
        lines += _section(path, command)
    return markdown.page(lines)


def _commands(path: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None and not inner.hidden:
                yield from _commands(f"{path} {name}", inner)


def _section(path: str, command: click.Command) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(click.Context(command, info_name=path)))
    yield from (f"## {path}", "", inspect.cleandoc(command.help or ""), "")
    yield from ("```", f"{path} {usage}", "```", "")
    options = [_option(param) for param in command.params if isinstance(param, click.Option)]
    if command is not dally:
        options = [option for option in options if option not in _COMMON]
    yield from markdown.table(("option", "means"), options)
    examples: tuple[str, ...] = getattr(command, "examples", ())
    if examples:
        yield from ("```sh", *examples, "```", "")


def _option(option: click.Option) -> tuple[str, str]:
    names = ", ".join((*option.opts, *option.secondary_opts))
    if option.is_flag:
        return markdown.code(names), option.help or ""
    value = option.make_metavar(click.Context(click.Command("")))
    return markdown.code(f"{names} {value}"), option.help or ""


_COMMON = [_option(param) for param in dally.params if isinstance(param, click.Option)]
