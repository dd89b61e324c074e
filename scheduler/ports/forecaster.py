"""Forecaster: what will become of a job, worked out beside the service and never in its way."""

from typing import Protocol

from scheduler.domain.forecast import Forecast, ForecastQuestion


class Forecaster(Protocol):
    """Runs snapshots on into the future."""

    def forecast(self, question: ForecastQuestion) -> Forecast:
        """What becomes of the job. Blocks the caller's thread for some seconds, nobody else.

        Raises ForecastBusyError while another one is worked out, and ForecastTooLargeError if it
        takes more time or memory than it may.
        """
        ...

    def close(self) -> None:
        """Give up what is being worked out: the server is about to stop."""
        ...
