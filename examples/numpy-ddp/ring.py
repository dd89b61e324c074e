"""A ring of processes that sums arrays: all-reduce over TCP sockets, with NumPy and nothing else.

Every process talks to its two neighbours only. An array is cut into as many chunks as there are
processes. In the first round each chunk travels once around the ring and collects a summand at
every stop; in the second round the finished sums travel once around. So each process sends and
receives 2 * (n - 1) / n of the array, whatever n is. A chunk is finished by one process and copied
to the others, so that all hold the same bits.
"""

import json
import select
import socket
import time
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

TIMEOUT_S = 60.0
"""Without a word from a neighbour for so long, the gang is taken for broken."""


@dataclass(frozen=True)
class Member:
    """Who this process is among the others."""

    rank: int
    size: int
    master: tuple[str, int]
    """Where rank 0 tells the others about each other."""
    gang: str
    """Name of the gang; strangers that knock at a port by mistake bring another one."""


class Ring:
    """Connections to the next and from the previous process."""

    def __init__(self, member: Member) -> None:
        self.rank = member.rank
        self.size = member.size
        if self.size > 1:
            self._next, self._previous = _connect(member)
            for link in (self._next, self._previous):
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                link.settimeout(0.0)

    def all_reduce(self, array: npt.NDArray[np.float64]) -> None:
        """Replace a one-dimensional array by the sum of all processes' arrays."""
        chunks = np.array_split(array, self.size)
        for step in range(self.size - 1):
            going = chunks[(self.rank - step) % self.size]
            summed = chunks[(self.rank - step - 1) % self.size]
            summand = np.empty_like(summed)
            self._exchange(going, summand)
            summed += summand
        for step in range(self.size - 1):
            going = chunks[(self.rank - step + 1) % self.size]
            coming = chunks[(self.rank - step) % self.size]
            self._exchange(going, coming)

    def all_gather(self, item: bytes) -> list[bytes]:
        """Every process's item, by rank; all items are equally long."""
        items = [bytes(len(item)) for _ in range(self.size)]
        items[self.rank] = item
        for step in range(self.size - 1):
            coming = np.empty(len(item), np.uint8)
            going = np.frombuffer(items[(self.rank - step) % self.size], np.uint8)
            self._exchange(going, coming)
            items[(self.rank - step - 1) % self.size] = coming.tobytes()
        return items

    def _exchange(self, going: npt.NDArray[np.generic], coming: npt.NDArray[np.generic]) -> None:
        """Send to the next while receiving from the previous: one after the other would lock up."""
        unsent, missing = memoryview(going.view(np.uint8)), memoryview(coming.view(np.uint8))
        while unsent or missing:
            readable, writable, _ = select.select(
                [self._previous] if missing else [], [self._next] if unsent else [], [], TIMEOUT_S
            )
            if not readable and not writable:
                raise TimeoutError(f"rank {self.rank}: no word from its neighbours")
            if writable:
                unsent = unsent[self._next.send(unsent) :]
            if readable:
                count = self._previous.recv_into(missing)
                if count == 0:
                    raise ConnectionError(f"rank {self.rank}: the previous process has left")
                missing = missing[count:]


def _connect(member: Member) -> tuple[socket.socket, socket.socket]:
    """Meet at rank 0, learn where everybody listens, then link up with the neighbours."""
    if member.rank == 0:
        with socket.create_server(member.master, backlog=member.size) as meeting:
            listener = socket.create_server((member.master[0], 0))
            addresses = _gather_addresses(meeting, listener.getsockname()[1], member)
    else:
        with _knock(member.master) as host:
            listener = socket.create_server((host.getsockname()[0], 0))
            hello = [member.gang, member.rank, listener.getsockname()[1]]
            host.sendall(json.dumps(hello).encode() + b"\n")
            addresses = json.loads(_line(host))
    with listener:
        next_host, next_port = addresses[(member.rank + 1) % member.size]
        following = socket.create_connection((next_host, next_port), TIMEOUT_S)
        following.sendall(json.dumps([member.gang, member.rank]).encode() + b"\n")
        listener.settimeout(TIMEOUT_S)
        previous = [member.gang, (member.rank - 1) % member.size]
        while True:
            link, _ = listener.accept()
            if _hello(link) == previous:
                return following, link
            link.close()


def _gather_addresses(
    meeting: socket.socket, own_port: int, member: Member
) -> list[tuple[str, int]]:
    """At rank 0: the address of every process, by rank; each of them is told all."""
    addresses = {0: (member.master[0], own_port)}
    guests: list[socket.socket] = []
    meeting.settimeout(TIMEOUT_S)
    while len(addresses) < member.size:
        guest, (host, *_) = meeting.accept()
        match _hello(guest):
            case [member.gang, int(rank), int(port)]:
                addresses[rank] = (host, port)
                guests.append(guest)
            case _:
                guest.close()
    table = [addresses[rank] for rank in range(member.size)]
    for guest in guests:
        with guest:
            guest.sendall(json.dumps(table).encode() + b"\n")
    return table


def _knock(address: tuple[str, int]) -> socket.socket:
    """Connect to rank 0, which may not be listening yet."""
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return socket.create_connection(address, TIMEOUT_S)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _hello(link: socket.socket) -> list[object]:
    """What a process says of itself when it connects; nothing if it makes no sense."""
    link.settimeout(TIMEOUT_S)
    try:
        said = json.loads(_line(link))
    except (OSError, ValueError):
        return []
    return said if isinstance(said, list) else []


def _line(link: socket.socket) -> bytes:
    """One line, byte by byte: what follows belongs to somebody else."""
    line = b""
    while not line.endswith(b"\n"):
        byte = link.recv(1)
        if not byte:
            raise ConnectionError("the other side has left")
        line += byte
    return line
