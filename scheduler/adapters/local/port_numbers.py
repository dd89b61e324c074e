"""Free port numbers for the rendezvous of gangs."""

import socket
from collections.abc import Collection

FIRST, LAST = 15_000, 32_767
"""Below the range from which Linux takes ports for outgoing connections, above the well-known."""


class PortNumbers:
    """Hands out ports round robin, so that one just given back is not used at once."""

    def __init__(self, seed: int) -> None:
        """Executors with different seeds begin at different numbers."""
        self._next = FIRST + seed % (LAST - FIRST + 1)

    def take(self, count: int, *, used: Collection[int]) -> tuple[int, ...]:
        """So many ports that nobody listens on and that are not in `used`. Raises OSError."""
        taken: list[int] = []
        for _ in range(LAST - FIRST + 1):
            if len(taken) == count:
                return tuple(taken)
            port, self._next = self._next, FIRST + (self._next + 1 - FIRST) % (LAST - FIRST + 1)
            if port not in used and _is_free(port):
                taken.append(port)
        raise OSError(f"no {count} free ports between {FIRST} and {LAST}")


def _is_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
