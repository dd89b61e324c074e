"""Forecaster: what will become of a job, worked out beside the service and never in its way."""

from contextlib import AbstractContextManager
from typing import Protocol

from scheduler.domain.forecast import Forecast, ForecastQuestion


class Forecaster(Protocol):
    """Runs snapshots on into the future."""

    def turn(self) -> AbstractContextManager[None]:
        """Inside nobody else may ask. Raises ForecastBusyError at once if it is another's turn.

        Whoever asks takes it before he makes up his question: that reads all jobs.
        """
        ...

    def forecast(self, question: ForecastQuestion) -> Forecast:
        """What becomes of the job; to be asked inside a turn. Blocks the caller's thread for some
        seconds, nobody else.

        Raises ForecastTooLargeError if it takes more time or memory than it may, and
        ForecastStoppedError while the server stops.
        """
        ...

    def close(self) -> None:
        """Give up what is being worked out: the server is about to stop."""
        ...
