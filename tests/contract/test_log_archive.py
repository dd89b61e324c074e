"""What every LogArchive promises about the logs it is given."""

from collections.abc import Iterator

import pytest

from scheduler.adapters.memory.log_archive import MemoryLogArchive
from scheduler.adapters.sql.job_store import open_store
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Instant
from scheduler.ports.log_archive import KeptLog, LogArchive
from scheduler.ports.log_source import LogTime
from scheduler.ports.unit import Expire, Unit
from tests.databases import Databases
from tests.gangs import a_key

KEY = a_key()
AT = Instant(1_000)
LOG = KeptLog(data=b"one\n\xff\x00two", offset=7, times=(LogTime(offset=7, at=AT),))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def archive(request: pytest.FixtureRequest, databases: Databases) -> Iterator[LogArchive]:
    """A new archive."""
    if request.param == "memory":
        yield MemoryLogArchive()
        return
    with databases.lent(request.param) as url, open_store(url) as store:
        yield store


def test_a_log_comes_back_as_it_was_given(archive: LogArchive) -> None:
    archive.keep_log(KEY, Rank(3), LOG, at=AT)
    assert archive.kept_log(KEY, Rank(3)) == LOG
    assert archive.kept_log(KEY, Rank(0)) is None
    assert archive.kept_log(a_key("job-2"), Rank(3)) is None


def test_a_later_log_replaces_an_earlier_one(archive: LogArchive) -> None:
    archive.keep_log(KEY, Rank(0), LOG, at=AT)
    longer = KeptLog(data=b"all of it", offset=0)
    archive.keep_log(KEY, Rank(0), longer, at=AT)
    assert archive.kept_log(KEY, Rank(0)) == longer


def test_an_attempt_is_closed_once_that_was_said(archive: LogArchive) -> None:
    archive.keep_log(KEY, Rank(0), LOG, at=AT)
    assert not archive.is_attempt_closed(KEY)
    archive.close_attempt(KEY, at=AT)
    archive.close_attempt(KEY, at=AT)
    assert archive.is_attempt_closed(KEY)
    assert not archive.is_attempt_closed(a_key(number=1))
    assert archive.kept_log(KEY, Rank(0)) == LOG


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_old_logs_are_forgotten_in_time(kind: str, databases: Databases) -> None:
    with databases.lent(kind) as url, open_store(url) as store:
        store.keep_log(KEY, Rank(0), LOG, at=Instant(1))
        store.keep_log(KEY, Rank(1), LOG, at=Instant(9))
        never = Instant(0)
        store.write(
            Unit(
                changes=(
                    Expire(
                        events_before=never,
                        replies_before=never,
                        audit_before=never,
                        logs_before=Instant(5),
                    ),
                )
            )
        )
        assert store.kept_log(KEY, Rank(0)) is None
        assert store.kept_log(KEY, Rank(1)) == LOG
