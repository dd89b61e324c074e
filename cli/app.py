"""`dally` from the command line to an exit code."""

import sys

import click
from pydantic import ValidationError

from cli import output
from cli.failures import CommandError, ExitCode
from cli.root import dally


def main() -> None:
    """Run one command; the process ends with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command; its exit code (docs/reference/cli.md)."""
    try:
        dally.main(args=arguments, prog_name="dally", standalone_mode=False)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitCode.ERROR
    except BrokenPipeError:
        sys.stderr.close()
        return ExitCode.ERROR
    except (click.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except (CommandError, click.ClickException, ValidationError) as error:
        return _failed(error)
    except OSError as error:
        output.note(f"error: OutputFailed: {error.strerror or error}")
        return ExitCode.ERROR
    return ExitCode.OK


def _unreadable(error: ValidationError) -> CommandError:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(step) for step in first["loc"])
    return CommandError(
        f"the server answered with a {error.title} that this client can not read: "
        + (f"{place}: {first['msg']}" if place else first["msg"]),
        reason="UnreadableAnswer",
        way_out="dally version",
    )


def _failed(error: CommandError | click.ClickException | ValidationError) -> int:
    match error:
        case ValidationError():
            # Nothing but the server's answers is read into wire types without a look.
            return _failed(_unreadable(error))
        case CommandError():
            output.failure(error)
            return error.exit_code
        case click.exceptions.NoArgsIsHelpError():
            output.note(error.format_message())
            return ExitCode.USAGE
        case click.UsageError():
            where = error.ctx.command_path if error.ctx else "dally"
            output.note(f"error: Usage: {error.format_message()}")
            output.note(f"  try: {where} --help")
            return ExitCode.USAGE
        case _:
            output.note(f"error: {error.format_message()}")
            return ExitCode.ERROR
