"""Errors of a user's input end a command with one line on stderr and exit code 2."""

from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager

import typer

from simulator.errors import SimulatorError

EXIT_BAD_INPUT = 2
EXIT_BROKEN = 1


@contextmanager
def told_as_errors() -> Iterator[None]:
    """Turns an error that names its cause into a message and exit code 2."""
    try:
        yield
    except BrokenPipeError:
        # Whoever read our output has stopped, e.g. `| head`: nobody is there to be told.
        raise
    except (SimulatorError, OSError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(EXIT_BAD_INPUT) from error
    except BrokenExecutor as error:
        typer.echo("error: a process of this run was ended from outside; has it memory?", err=True)
        raise typer.Exit(EXIT_BROKEN) from error
