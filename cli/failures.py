"""What can go wrong in a command, and the exit code each kind has.

* CommandError              any error                                     1
  + ServerError             the server refused: carries its problem       1 (401 and 403: 4)
  + UnreachableError        no answer from the server                     5
  + NotPlacedError          accepted, and can not be placed now           2
"""

from enum import IntEnum

from api.problems import Problem

UNAUTHORIZED = (401, 403)


class ExitCode(IntEnum):
    """Exit codes of `dally`; documented in docs/reference/cli.md."""

    OK = 0
    ERROR = 1
    NOT_PLACED = 2
    UNCHANGED = 3
    DENIED = 4
    UNREACHABLE = 5
    USAGE = 64
    INTERRUPTED = 130


class CommandError(Exception):
    """A command failed; `reason` is a stable code and `way_out` a command or an advice."""

    exit_code: int = ExitCode.ERROR

    def __init__(self, detail: str, *, reason: str, way_out: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.reason = reason
        self.way_out = way_out


class UnreachableError(CommandError):
    """The server does not answer."""

    exit_code = ExitCode.UNREACHABLE


class NotPlacedError(CommandError):
    """The job was accepted and can not be placed now."""

    exit_code = ExitCode.NOT_PLACED


class ServerError(CommandError):
    """The server refused the request."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title, reason=problem.reason)
        self.problem = problem
        if problem.status in UNAUTHORIZED:
            self.exit_code = ExitCode.DENIED
            self.way_out = "dally config set-context NAME --server URL --token TOKEN"
