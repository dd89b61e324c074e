"""Who counts what the store does, for metrics."""

from typing import Protocol


class StoreObserver(Protocol):
    """Told by any thread."""

    def observe_write(self, *, seconds: float, failure: str) -> None:
        """One write has ended; `failure` is the code of its error, or empty."""
        ...

    def observe_retry(self) -> None:
        """A transaction got in another's way and is run again."""
        ...

    def observe_audit(self, rows: int) -> None:
        """So many audit rows were written."""
        ...


class NobodyObserves:
    """See StoreObserver."""

    def observe_write(self, *, seconds: float, failure: str) -> None:
        """See StoreObserver."""

    def observe_retry(self) -> None:
        """See StoreObserver."""

    def observe_audit(self, rows: int) -> None:
        """See StoreObserver."""
