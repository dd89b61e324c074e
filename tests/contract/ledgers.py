"""A load in a process of its own, and the ledger of what it was told is written."""

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Ledger:
    """What the load has said so far."""

    acked: set[str] = field(default_factory=set)
    synced_bytes: int = 0
    pid: int = 0

    def enter(self, line: str) -> None:
        """Take down one line."""
        word, _, rest = line.partition(" ")
        match word:
            case "acked":
                self.acked.add(rest)
            case "synced":
                self.synced_bytes = int(rest)
            case "pid":
                self.pid = int(rest)
            case _:
                raise AssertionError(line)


class Load:
    """A running `store_load`; killed at the end."""

    def __init__(self, url: str, *death: str) -> None:
        self.ledger = Ledger()
        self._rest = ""
        self.process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-m", "tests.contract.store_load", url, *death],
            cwd=ROOT,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        """The load itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def read_until_acked(self, count: int) -> None:
        """Follow the load until so many writes are acknowledged."""
        while len(self.ledger.acked) < count:
            assert self._read_some(), "the load has ended"

    def read_what_is_there(self) -> None:
        """Take down what was said until now, without waiting for more."""
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        try:
            while self._read_some():
                pass
        except BlockingIOError:
            pass
        finally:
            os.set_blocking(self.process.stdout.fileno(), True)

    def read_to_the_end(self) -> None:
        """Follow the load until it is dead."""
        while self._read_some():
            pass

    def _read_some(self) -> bool:
        assert self.process.stdout is not None
        data = os.read(self.process.stdout.fileno(), 65536)
        *lines, self._rest = (self._rest + data.decode()).split("\n")
        for line in lines:
            self.ledger.enter(line)
        return bool(data)
