"""Rank 0: runs the command of the job file, which calls mpirun, and tells the others the end."""

import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from dally_runtime.mpi import wire
from dally_runtime.mpi.processes import STOPS, Children

NOT_FOUND, CAN_NOT_RUN = 127, 126
TELL_S_MAX = 60.0
"""So long after the end workers are asked again that can not be reached; of all of them together,
so that a gang of hundreds whose agents have gone ends as soon as a small one."""
PAUSE_S = 0.5
"""Between two rounds of asking those that are left."""
ANSWER_S_MAX = 10.0
TELLERS = 64
"""A worker that swallows what is sent costs one of them a few times ten seconds: five minutes for
512 of that kind, and no more."""


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


def tell_the_end(
    others: Sequence[tuple[str, int]], secret: str, *, patience_s: float = TELL_S_MAX
) -> int:
    """Have the agents of the other workers end well; 1 if one of them can not be reached."""

    def tell(address: tuple[str, int]) -> wire.SilentError | None:
        try:
            wire.ask(address, secret, wire.Request(), patience_s=0, answer_s_max=ANSWER_S_MAX)
        except wire.SilentError as error:
            return error
        return None

    end = time.monotonic() + patience_s
    left = list(others)
    answers: dict[tuple[str, int], wire.SilentError | None] = {}
    with ThreadPoolExecutor(TELLERS) as pool:
        while left:
            answers |= dict(zip(left, pool.map(tell, left), strict=True))
            # One that was reached may have taken it, and would not be there to be asked again.
            left = [each for each in left if isinstance(answers[each], wire.UnreachedError)]
            if not left or time.monotonic() >= end:
                break
            time.sleep(PAUSE_S)
    troubles = {host: error for (host, _), error in answers.items() if error is not None}
    for host, error in troubles.items():
        sys.stderr.write(f"dally: the end could not be told to {host}: {error}\n")
    return 1 if troubles else 0
