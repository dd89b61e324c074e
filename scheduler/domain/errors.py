"""The error tree. Each leaf has a stable `code` and its facts as attributes.

* SchedulerError
  + InvalidSpecError           a job file breaks a rule; carries every problem with its JSON pointer
  + NotFoundError              no such job, queue, node, project or attempt
  + NameTakenError             a job of that name exists in the project
  + ConflictError              the object has changed since it was read
  + InvalidTransitionError     a job or attempt was moved along an arrow that does not exist
  + NotSupportedYetError       the feature is known and has not landed
  + HistoryGoneError           changes since that version are no longer kept: read anew
  + StaleEpochError            a write by a leader that has been deposed
  + LeaseLapsedError           the leader has not renewed its lease in time, and must not act
  + StoreRestoredError         the database is as it was before: a backup was put back under us
  + StoreReplacedError         another file lies where the database was opened
  + IdempotencyMismatchError   an idempotency key came back with another body
  + AlreadyServingError        another server holds the data folder or the leadership
  + StoreUnavailableError      the database does not answer or refuses writes; try again
  + WrongSchemaError           the database has another schema than this version works with
  + UnreadableRowError         a stored row is broken or newer than this version can read
  + ClusterUnavailableError    the cluster does not answer; the loop tries again
  + ForecastBusyError          another forecast is being worked out; try again
  + ForecastStoppedError       a forecast was given up, for the server stops
  + ForecastTooLargeError      a forecast takes more time or memory than it may
  + BrokenPlanError            a plan breaks a promise: a bug of ours
"""

from dataclasses import dataclass

from scheduler.domain.ids import Epoch, JobId


class SchedulerError(Exception):
    """Root of all errors this product raises on purpose."""

    code = "SchedulerError"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecProblem:
    """One broken rule of a job file."""

    pointer: str
    """JSON pointer (RFC 6901) of the offending value; the empty string is the whole document."""
    reason: str
    """CamelCase code of the rule, e.g. `UnknownField`."""
    detail: str
    """What is wrong and how to mend it, in one sentence."""


class InvalidSpecError(SchedulerError):
    """A job file breaks one or more rules; all of them are listed."""

    code = "InvalidSpec"

    def __init__(self, problems: tuple[SpecProblem, ...]) -> None:
        super().__init__("; ".join(f"{p.pointer}: {p.detail}" for p in problems))
        self.problems = problems


class NotFoundError(SchedulerError):
    """The named object does not exist (or may not be seen by the caller)."""

    code = "NotFound"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no {kind} named {name!r}")
        self.kind = kind
        self.name = name


class NameTakenError(SchedulerError):
    """A job of that name exists in its project and is not deleted."""

    code = "AlreadyExists"

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"a {kind} named {name!r} exists")
        self.kind = kind
        self.name = name


class ConflictError(SchedulerError):
    """The object has another revision than the writer expected."""

    code = "Conflict"

    def __init__(self, kind: str, name: str, *, expected: int, found: int | None) -> None:
        super().__init__(f"{kind} {name!r} has revision {found}, not {expected}")
        self.kind = kind
        self.name = name
        self.expected = expected
        self.found = found


class InvalidTransitionError(SchedulerError):
    """A job or an attempt was moved along an arrow that its table does not have."""

    code = "InvalidTransition"

    def __init__(self, job_id: JobId, origin: str, target: str) -> None:
        super().__init__(f"{job_id}: no arrow from {origin} to {target}")
        self.job_id = job_id
        self.origin = origin
        self.target = target


class NotSupportedYetError(SchedulerError):
    """A known feature that has not landed."""

    code = "NotSupportedYet"

    def __init__(self, feature: str, *, version: str) -> None:
        super().__init__(f"{feature} is not supported yet; it comes with version {version}")
        self.feature = feature
        self.version = version


class HistoryGoneError(SchedulerError):
    """Changes since a version can not be told any more: list again and go on from there."""

    code = "Gone"

    def __init__(self, *, asked: int, horizon: int) -> None:
        super().__init__(
            f"changes after {asked} are asked for; those up to {horizon} are forgotten"
        )
        self.asked = asked
        self.horizon = horizon


class StaleEpochError(SchedulerError):
    """The writer's leadership term is over; nothing of its unit was written."""

    code = "StaleEpoch"

    def __init__(self, *, mine: Epoch, current: Epoch) -> None:
        super().__init__(f"epoch {mine} is over; the store is at {current}")
        self.mine = mine
        self.current = current


class LeaseLapsedError(SchedulerError):
    """The leader's last renewal is too old to act on outside the store."""

    code = "LeaseLapsed"

    def __init__(self) -> None:
        super().__init__("the lease was not renewed in time")


class StoreRestoredError(SchedulerError):
    """The store went back to what it was before: a backup was restored while it was in use."""

    code = "StoreRestored"

    def __init__(self, what: str, *, known: int, found: int) -> None:
        super().__init__(f"the database was restored: {what} {found} where {known} had been seen")
        self.known = known
        self.found = found


class StoreReplacedError(SchedulerError):
    """Another file lies where the database was opened; what is written goes nowhere."""

    code = "StoreReplaced"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} is not the file that was opened: start the server anew")
        self.path = path


class IdempotencyMismatchError(SchedulerError):
    """An idempotency key was used before with another body."""

    code = "IdempotencyKeyReused"


class AlreadyServingError(SchedulerError):
    """Another process serves from the same data folder or holds the leadership."""

    code = "AlreadyServing"


class StoreUnavailableError(SchedulerError):
    """The database does not answer or can not write; nothing was acknowledged."""

    code = "StoreUnavailable"


class WrongSchemaError(SchedulerError):
    """The database's schema is older than this version needs, or too new for it."""

    code = "WrongSchema"

    def __init__(self, *, found: str | None, needed: str, what_to_do: str) -> None:
        is_at = f"the schema is at {found}, not {needed}" if found else "there is no database yet"
        super().__init__(f"{is_at}: {what_to_do}")
        self.found = found
        self.needed = needed
        self.what_to_do = what_to_do


class UnreadableRowError(SchedulerError):
    """A stored row can not be turned into what it stands for; it is kept and reported as stuck."""

    code = "UnreadableRow"

    def __init__(self, table: str, key: str, *, problem: str) -> None:
        super().__init__(f"the row {key!r} of {table} can not be read: {problem}")
        self.table = table
        self.key = key
        self.problem = problem


class ClusterUnavailableError(SchedulerError):
    """The cluster does not answer; running gangs are untouched and the loop tries again."""

    code = "ClusterUnavailable"


class ForecastBusyError(SchedulerError):
    """Forecasts are worked out one at a time."""

    code = "ForecastBusy"

    def __init__(self) -> None:
        super().__init__("another plan is being worked out")


class ForecastStoppedError(SchedulerError):
    """A forecast was given up, or not begun: whoever works it out is about to stop."""

    code = "ForecastStopped"

    def __init__(self) -> None:
        super().__init__("the plan was given up: the server is stopping")


class ForecastTooLargeError(SchedulerError):
    """A forecast was given up: the cluster has too many jobs, or they run for too long."""

    code = "ForecastTooLarge"

    def __init__(self, limit: str) -> None:
        super().__init__(f"the plan was given up: it takes more than {limit}")
        self.limit = limit


class BrokenPlanError(SchedulerError):
    """A plan breaks one of its promises; it is not applied."""

    code = "BrokenPlan"
