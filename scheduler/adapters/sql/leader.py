"""Leadership by the row in `leader`: at most one process acts, on whichever machine."""

import os
import secrets
import socket
import time
from collections.abc import Callable

from scheduler.adapters.sql.job_store import SqlStore
from scheduler.domain.lease import LeaseTimes
from scheduler.ports.leasing import LeaseLeadership


class SqlLeadership(LeaseLeadership):
    """A Leadership. On SQLite nobody competes, so that a restarted server leads at once."""

    def __init__(
        self,
        store: SqlStore,
        *,
        holder: str | None = None,
        times: LeaseTimes | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            store,
            holder=holder or this_process(),
            times=times or LeaseTimes(),
            monotonic=monotonic,
        )


def this_process() -> str:
    """A name that no other process has, and that tells an operator where to look."""
    return f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
