"""What every command has: examples in its help, connection flags, a Session to work with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType

import click

from cli.client import Client
from cli.config import Choices, resolve

Body = Callable[..., None]
"""What a command does: it gets the Session, then its flags by name."""

_CONNECTION = (
    click.Option(["--server"], metavar="URL", help="Server to talk to [DALLY_SERVER]."),
    click.Option(["--token"], metavar="TOKEN", help="Token to show [DALLY_TOKEN]."),
    click.Option(["--context"], metavar="NAME", help="Context of the config file [DALLY_CONTEXT]."),
    click.Option(["-p", "--project"], metavar="NAME", help="Project of the jobs."),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What one command works with."""

    choices: Choices

    def connect(self) -> Client:
        """A client of the chosen server. Raises CommandError for a context that does not exist."""
        return Client(resolve(self.choices))


class DallyCommand(click.Command):
    """A command with examples; the part of the line behind `--` is kept apart."""

    takes_program = False
    examples: tuple[str, ...] = ()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Cut the program behind `--` off before the flags are read."""
        if self.takes_program and "--" in args:
            cut = args.index("--")
            ctx.meta["program"] = tuple(args[cut + 1 :])
            args = args[:cut]
        elif self.takes_program:
            # Let the words of the program pass here: the command then says that `--` is missing.
            ctx.allow_extra_args = ctx.ignore_unknown_options = True
        return super().parse_args(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The examples, as they can be pasted."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"  {example}\n")


class DallyGroup(click.Group):
    """A group whose commands are DallyCommands; says the nearest name for a wrong one.

    `modules` names, by command, the module that adds it: imported when the command is asked for.
    """

    modules: Mapping[str, str] = MappingProxyType({})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """All names."""
        return sorted({*self.modules, *self.commands})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name in self.modules and cmd_name not in self.commands:
            import_module(self.modules[cmd_name])
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; an unknown name ends with what to try."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = f"\nSee '{ctx.command_path} --help' for the commands there are."
            raise click.UsageError(error.format_message() + hint, ctx) from error


def command(
    group: click.Group,
    name: str,
    *,
    examples: tuple[str, ...],
    takes_program: bool = False,
) -> Callable[[Body], Body]:
    """Make a function the command `name` of a group; it gets the Session first."""

    def register(function: Body) -> Body:
        def callback(**flags: object) -> None:
            here = Choices(
                server=_taken(flags, "server"),
                token=_taken(flags, "token"),
                context=_taken(flags, "context"),
                project=_taken(flags, "project"),
            )
            outer = click.get_current_context().find_object(Choices) or Choices()
            function(Session(choices=here.under(outer)), **flags)

        made = DallyCommand(
            name,
            callback=callback,
            params=[*reversed(_parameters(function)), *_CONNECTION],
            help=function.__doc__,
        )
        made.examples = examples
        made.takes_program = takes_program
        group.add_command(made)
        return function

    return register


def program_behind_dashes() -> tuple[str, ...] | None:
    """The words behind `--`; None where there was no `--`."""
    found: tuple[str, ...] | None = click.get_current_context().meta.get("program")
    return found


def _taken(flags: dict[str, object], name: str) -> str | None:
    value = flags.pop(name, None)
    return value if isinstance(value, str) else None


def _parameters(function: Body) -> list[click.Parameter]:
    found: list[click.Parameter] = getattr(function, "__click_params__", [])
    return found
