"""The simulator's errors.

* SimulatorError
  + TraceError      a trace file can not be read as its format
  + OptionError     options of a run contradict each other or name what does not exist
"""


class SimulatorError(Exception):
    """Root of what the simulator raises about its input."""


class TraceError(SimulatorError):
    """A trace file can not be read as its format; names file, line and field."""

    def __init__(self, source: str, line: int, detail: str, *, field: str | None = None) -> None:
        place = f"{source}:{line}" if line else source
        super().__init__(f"{place}: field {field}: {detail}" if field else f"{place}: {detail}")
        self.source = source
        self.line = line
        self.field = field
        self.detail = detail


class OptionError(SimulatorError):
    """Options of a run contradict each other, or name what does not exist."""

    def __init__(self, option: str, detail: str) -> None:
        super().__init__(f"{option}: {detail}")
        self.option = option
        self.detail = detail
