"""Processes of tests: a failure ends them, for `Popen` alone would wait for them for ever."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import AnyStr


@contextmanager
def ended_on_failure(process: subprocess.Popen[AnyStr]) -> Iterator[subprocess.Popen[AnyStr]]:
    """The process itself; killed if the block raises, else waited for."""
    with process:
        try:
            yield process
        except BaseException:
            process.kill()
            raise
