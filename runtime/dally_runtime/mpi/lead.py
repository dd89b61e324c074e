"""Rank 0: runs the command of the job file, which calls mpirun, and tells the others the end."""

import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dally_runtime.mpi import wire
from dally_runtime.mpi.processes import STOPS, Children

NOT_FOUND, CAN_NOT_RUN = 127, 126
TELL_S_MAX = 60.0
"""For so long a worker may not be reached at the end, and for so long again not answer."""
TELLERS = 16


def lead(command: Sequence[str], others: Sequence[tuple[str, int]], secret: str) -> int:
    """Run the command until it has ended; its exit code.

    A stop is told to the processes that mpirun has started and not to mpirun, which would kill them
    soon after; then this waits until none of them is left.
    """
    children = Children()
    try:
        first = children.start(*command)
    except OSError as error:
        sys.stderr.write(f"dally: {command[0]} can not be started: {error}\n")
        return NOT_FOUND if isinstance(error, FileNotFoundError) else CAN_NOT_RUN
    is_stopping = False
    while first.code is None or (is_stopping and not children.are_gone()):
        got = children.next_signal()
        if got in STOPS:
            is_stopping = True
            children.ask_to_stop()
        children.reap()
    if first.code == 0 and not is_stopping:
        return tell_the_end(others, secret)
    # Of other ends the service tells the others, which a stop needs and a failure too.
    return first.code


def tell_the_end(others: Sequence[tuple[str, int]], secret: str) -> int:
    """Have the agents of the other workers end well; 1 if one of them can not be reached."""

    def tell(address: tuple[str, int]) -> str:
        try:
            wire.ask(
                address, secret, wire.Request(), patience_s=TELL_S_MAX, answer_s_max=TELL_S_MAX
            )
        except wire.SilentError as error:
            return f"{address[0]}: {error}"
        return ""

    with ThreadPoolExecutor(TELLERS) as pool:
        troubles = [trouble for trouble in pool.map(tell, others) if trouble]
    for trouble in troubles:
        sys.stderr.write(f"dally: the end could not be told to {trouble}\n")
    return 1 if troubles else 0
