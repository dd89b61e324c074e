"""The simulator's errors.

* SimulatorError
  + FileError         a file breaks a rule; names the place
    + TraceError      a trace file can not be read as its format
    + TopologyError   a topology file breaks a rule
  + OptionError       options of a run contradict each other or name what does not exist
  + RunFolderError    a folder does not hold a run
  + StuckError        a run can not go on: jobs are left that nothing will start
"""


class SimulatorError(Exception):
    """Root of what the simulator raises about its input."""


class FileError(SimulatorError):
    """A file breaks a rule; names file, line (0: not known) and field."""

    def __init__(self, source: str, line: int, detail: str, *, field: str | None = None) -> None:
        place = f"{source}:{line}" if line else source
        super().__init__(f"{place}: field {field}: {detail}" if field else f"{place}: {detail}")
        self.source = source
        self.line = line
        self.field = field
        self.detail = detail


class TraceError(FileError):
    """A trace file can not be read as its format."""


class TopologyError(FileError):
    """A topology file breaks a rule."""


class OptionError(SimulatorError):
    """Options of a run contradict each other, or name what does not exist."""

    def __init__(self, option: str, detail: str) -> None:
        super().__init__(f"{option}: {detail}")
        self.option = option
        self.detail = detail


class RunFolderError(SimulatorError):
    """A folder does not hold a run, or only part of one."""

    def __init__(self, folder: str, cause: Exception) -> None:
        super().__init__(f"{folder}: no run of `dally-sim run --out` is here ({cause})")
        self.folder = folder


class StuckError(SimulatorError):
    """A run can not go on: nothing is to happen any more, and jobs are left."""
