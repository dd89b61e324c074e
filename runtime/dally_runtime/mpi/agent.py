"""A worker that is not rank 0: starts what mpirun asks for, and ends when rank 0 says so."""

import os
import socket
import sys
import threading
import time

from dally_runtime.mpi import wire
from dally_runtime.mpi.processes import STOPS, WAKE, Children

STOPPED = 128 + 15
CAN_NOT_RUN = 126
RETRY_S = 0.5


class Agent:
    """Owns the processes of this worker."""

    def __init__(self, port: int, secret: str) -> None:
        self._children = Children()
        self._secret = secret
        self._is_over = threading.Event()
        self._listener = _listener(port)

    def run(self) -> int:
        """Serve until rank 0 has ended, or somebody wants a stop; the exit code."""
        threading.Thread(target=self._accept, daemon=True).start()
        is_stopping = False
        while True:
            got = self._children.next_signal()
            self._children.reap()
            if self._is_over.is_set():
                return 0
            if got in STOPS:
                is_stopping = True
                # The shells that stand between mpirun and its daemon are not the training.
                self._children.ask_to_stop(spares=self._children.pids())
            if is_stopping and self._children.are_gone():
                return STOPPED

    def _accept(self) -> None:
        while True:
            try:
                self._take(*self._listener.accept())
            except (OSError, RuntimeError) as error:
                # Out of files or threads for now. An agent that listens no more would never end.
                _say(f"nobody can connect: {error}")
                time.sleep(RETRY_S)

    def _take(self, connection: socket.socket, peer: tuple[str, int]) -> None:
        thread = threading.Thread(target=self._serve, args=(connection, peer[0]), daemon=True)
        try:
            thread.start()
        except RuntimeError:
            connection.close()
            raise

    def _serve(self, connection: socket.socket, peer: str) -> None:
        with connection:
            try:
                request = wire.take_request(connection, self._secret)
                if request.command:
                    wire.answer(connection, self._run(request.command))
                else:
                    wire.answer(connection, 0)
                    self._end()
            except wire.SilentError as error:
                _say(f"refused what {peer} asked for: {error}")
            except OSError as error:
                _say(f"{peer} hung up: {error}")

    def _run(self, command: str) -> int:
        try:
            child = self._children.start("/bin/sh", "-c", command)
        except OSError as error:
            _say(f"/bin/sh can not be started: {error}")
            return CAN_NOT_RUN
        return child.ended.get()

    def _end(self) -> None:
        self._is_over.set()
        os.kill(os.getpid(), WAKE)


def _listener(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", port))


def _say(text: str) -> None:
    sys.stderr.write(f"dally: {text}\n")
    sys.stderr.flush()
