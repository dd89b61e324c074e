"""Wall-clock times of traces as instants: microseconds since 1970 UTC."""

from datetime import UTC, datetime, tzinfo

from scheduler.domain.instants import SECOND, Instant
from simulator.traces.source import Fields

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def instant_of(fields: Fields, name: str, *, zone: tzinfo) -> Instant:
    """The field, an ISO date and time; where it has no offset of its own it is read in `zone`.

    An hour that a clock change repeats is taken as its first pass.
    """
    text = fields.text(name)
    moment = parsed(text, zone=zone)
    if moment is None:
        raise fields.error(name, f"{text!r} is not a date and time")
    return moment


def parsed(text: str, *, zone: tzinfo) -> Instant | None:
    """The instant `text` names, None if it is not a date and time."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=zone)
    elapsed = moment - EPOCH
    return Instant((elapsed.days * 86_400 + elapsed.seconds) * SECOND + elapsed.microseconds)
