"""What an exit code says of a worker's end, before anybody knows who asked for that end."""

from scheduler.domain.job import Outcome

SIGNAL_BASE = 128
"""A worker ended by signal n reports exit code 128+n, as shells do."""

SIGNAL_MAX = 64
"""The largest signal number there is; larger exit codes are the program's own."""

SIGKILL_EXIT_CODE = SIGNAL_BASE + 9
SIGTERM_EXIT_CODE = SIGNAL_BASE + 15


def is_signal(exit_code: int) -> bool:
    """Whether the exit code tells of a signal."""
    return SIGNAL_BASE < exit_code <= SIGNAL_BASE + SIGNAL_MAX


def outcome_of_exit_code(exit_code: int) -> Outcome:
    """The outcome of a worker that ended with `exit_code` by itself or by a stranger's signal."""
    if exit_code == 0:
        return Outcome.COMPLETED
    if is_signal(exit_code):
        return Outcome.KILLED
    return Outcome.USER_ERROR
