"""`python3 -m dally_runtime.mpi lead -- COMMAND... | agent | rsh HOST COMMAND...`."""

import sys
from collections.abc import Sequence

from dally_runtime.contract import variable
from dally_runtime.mpi import wire
from dally_runtime.mpi.agent import Agent
from dally_runtime.mpi.lead import lead

USAGE = 2
CONNECT_S_MAX = 600.0
"""So long the agent of a worker may take to listen: its image may still be on its way."""


def main(words: Sequence[str]) -> int:
    """Do as the words say; the exit code."""
    secret, port = variable("DALLY_MPI_SECRET"), variable("DALLY_MPI_PORT")
    if not secret or not port.isdecimal():
        return _refuse("this is for pods of a Dally job with launcher: mpi")
    match words:
        case ["lead", "--", _, *_]:
            return lead(words[2:], _others(int(port)), secret)
        case ["agent"]:
            return Agent(int(port), secret).run()
        case ["rsh", *rest]:
            return _rsh(rest, int(port), secret)
        case _:
            return _refuse("lead -- COMMAND... | agent | rsh HOST COMMAND...")


def _rsh(words: Sequence[str], port: int, secret: str) -> int:
    # Launchers of MPI may pass options of ssh, which say nothing here.
    host, *command = [*words[next((i for i, w in enumerate(words) if w[:1] != "-"), 0) :], ""]
    request = wire.Request(command=" ".join(command).strip())
    if not host or not request.command:
        return _refuse("rsh needs a host and a command")
    try:
        return wire.ask((host, port), secret, request, patience_s=CONNECT_S_MAX)
    except wire.SilentError as error:
        sys.stderr.write(f"dally: worker {host} does not start anything: {error}\n")
        return wire.NO_ANSWER


def _others(port: int) -> list[tuple[str, int]]:
    hosts, rank = variable("DALLY_HOSTS").split(","), variable("DALLY_RANK")
    return [(host, port) for number, host in enumerate(hosts) if str(number) != rank and host]


def _refuse(text: str) -> int:
    sys.stderr.write(f"dally: {text}\n")
    return USAGE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
