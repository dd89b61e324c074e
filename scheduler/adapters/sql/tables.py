"""The tables, for SQLite and PostgreSQL alike. Instants and durations are BIGINT microseconds.

projects ◁─ jobs ─▷ queues        jobs ◁─ attempts ◁─ placements | reservations | progress
projects ◁─ profiles              jobs ◁─ job_labels | answers | step_times
Without foreign keys, for they outlive what they tell of: events, audit, deleted_jobs, waits, ends,
worker_logs.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Dialect,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.types import TypeDecorator, TypeEngine

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
    }
)


# Code points in their order, as Python and SQLite compare them: keyset paging depends on it.
_TEXT = Text().with_variant(Text(collation="C"), "postgresql")


class PlainText(TypeDecorator[str]):
    """Text with what no database can hold replaced: NUL and halves of surrogate pairs.

    Messages of outside systems may contain anything; a unit must not fail for that.
    """

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str]:
        """The same order of texts in every database."""
        return Text(collation="C") if dialect.name == "postgresql" else Text()

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """The text as it is stored and compared."""
        if value is None or (value.isascii() and "\x00" not in value):
            return value
        return value.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _instant(name: str, *, nullable: bool = False) -> Column[int]:
    return Column(name, BigInteger, nullable=nullable)


def _text(name: str, *, nullable: bool = False) -> Column[str]:
    return Column(name, PlainText, nullable=nullable)


def _json(name: str, *, nullable: bool = False) -> Column[str]:
    """A JSON value written by the codec: ASCII, so that any database holds it."""
    return Column(name, Text, nullable=nullable)


def _job_id(*, primary_key: bool = True) -> Column[str]:
    return Column(
        "job_id",
        _TEXT,
        ForeignKey("jobs.id", ondelete="CASCADE"),
        nullable=False,
        primary_key=primary_key,
    )


def _attempt_key() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["job_id", "attempt"], ["attempts.job_id", "attempts.number"], ondelete="CASCADE"
    )


projects = Table(
    "projects",
    metadata,
    Column("name", PlainText, primary_key=True),
    _json("queues"),
)

queues = Table(
    "queues",
    metadata,
    Column("name", PlainText, primary_key=True),
    _json("knobs"),
)

jobs = Table(
    "jobs",
    metadata,
    Column("id", _TEXT, primary_key=True),
    Column("project", PlainText, ForeignKey("projects.name"), nullable=False),
    _text("name"),
    Column("queue", PlainText, ForeignKey("queues.name"), nullable=False),
    Column("priority", BigInteger, nullable=False),
    _instant("submitted_at"),
    _text("submitted_by"),
    _text("phase"),
    _instant("phase_since"),
    _text("reason"),
    _text("message"),
    _instant("not_before", nullable=True),
    _text("stop_requested", nullable=True),
    Column("stop_now", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("restarts_user", Integer, nullable=False),
    Column("restarts_infra", Integer, nullable=False),
    Column("failures_in_row", Integer, nullable=False),
    Column("ran_for", BigInteger, nullable=False),
    _instant("first_started_at", nullable=True),
    _instant("last_placed_at", nullable=True),
    Column("start_number", BigInteger, nullable=False),
    _instant("ended_at", nullable=True),
    Column("revision", BigInteger, nullable=False),
    Column("changed", BigInteger, nullable=False),
    _json("promised", nullable=True),
    _json("former", nullable=True),
    _json("waiting", nullable=True),
    _json("evictions", nullable=True),
    # The two long ones stand last: SQLite reads a row from its front and stops where it may.
    _json("spec"),
    _text("source"),
    UniqueConstraint("project", "name"),
)
# A list names its phases (all eight if it must), so each of these serves it in order.
Index("ix_jobs_phase_submitted_at_id", jobs.c.phase, jobs.c.submitted_at, jobs.c.id)
Index(
    "ix_jobs_project_phase_submitted_at_id",
    jobs.c.project,
    jobs.c.phase,
    jobs.c.submitted_at,
    jobs.c.id,
)
Index(
    "ix_jobs_queue_phase_submitted_at_id",
    jobs.c.queue,
    jobs.c.phase,
    jobs.c.submitted_at,
    jobs.c.id,
    jobs.c.project,
)
Index("ix_jobs_changed_id", jobs.c.changed, jobs.c.id)

job_labels = Table(
    "job_labels",
    metadata,
    Column("key", PlainText, primary_key=True),
    Column("value", PlainText, primary_key=True),
    Column("submitted_at", BigInteger, primary_key=True),
    _job_id(),
)
Index("ix_job_labels_job_id_key", job_labels.c.job_id, job_labels.c.key)

deleted_jobs = Table(
    "deleted_jobs",
    metadata,
    Column("job_id", _TEXT, primary_key=True),
    Column("sequence", BigInteger, nullable=False),
    _text("project"),
    _text("name"),
    _instant("at"),
)
Index("ix_deleted_jobs_sequence_job_id", deleted_jobs.c.sequence, deleted_jobs.c.job_id)
Index("ix_deleted_jobs_at", deleted_jobs.c.at)

attempts = Table(
    "attempts",
    metadata,
    _job_id(),
    Column("number", Integer, primary_key=True),
    _text("phase"),
    _instant("phase_since"),
    Column("epoch", BigInteger, nullable=False),
    _instant("created_at"),
    _instant("running_since", nullable=True),
    _text("stop_cause", nullable=True),
    _instant("kill_at", nullable=True),
    _text("outcome", nullable=True),
    _text("message"),
    _json("worker_ends"),
    _instant("ended_at", nullable=True),
    Column("tier", Integer, nullable=False),
    _text("tier_name"),
    Column("placement_digest", Text, nullable=False),
)

placements = Table(
    "placements",
    metadata,
    Column("job_id", _TEXT, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    _text("role"),
    _text("node"),
    Column("workers", Integer, nullable=False),
    _attempt_key(),
)
Index("ix_placements_node", placements.c.node)

reservations = Table(
    "reservations",
    metadata,
    Column("job_id", _TEXT, primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("rank", Integer, primary_key=True),
    _text("role"),
    _text("node"),
    Column("gpus", Integer, nullable=False),
    Column("cpu_milli", BigInteger, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    _json("extended"),
    _json("gpu_indices", nullable=True),
    _attempt_key(),
)
Index("ix_reservations_node", reservations.c.node)

progress = Table(
    "progress",
    metadata,
    Column("job_id", _TEXT, primary_key=True),
    Column("sequence", BigInteger, primary_key=True),
    Column("attempt", Integer, nullable=False),
    # As a whole, for a diverging loss is NaN, which SQLite has no number for.
    _json("report"),
    _attempt_key(),
)
Index("ix_progress_job_id_attempt", progress.c.job_id, progress.c.attempt)

step_times = Table(
    "step_times",
    metadata,
    _job_id(),
    Column("revision", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    _json("learned"),
)
Index("ix_step_times_sequence", step_times.c.sequence)

profiles = Table(
    "profiles",
    metadata,
    Column("project", PlainText, ForeignKey("projects.name"), primary_key=True),
    Column("name", PlainText, primary_key=True),
    _json("profile"),
)

waits = Table(
    "waits",
    metadata,
    Column("demand", BigInteger, primary_key=True, autoincrement=False),
    Column("level", PlainText, primary_key=True),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("job_id", _TEXT, primary_key=True),
    Column("wait", BigInteger, nullable=False),
    Column("is_censored", Boolean, nullable=False),
    Column("sequence", BigInteger, nullable=False),
)
Index("ix_waits_sequence", waits.c.sequence)

ends = Table(
    "ends",
    metadata,
    Column("queue", PlainText, primary_key=True),
    Column("at", BigInteger, primary_key=True, autoincrement=False),
    Column("job_id", _TEXT, primary_key=True),
    Column("gpus", Integer, nullable=False),
    Column("ran_for", BigInteger, nullable=False),
    Column("is_complete", Boolean, nullable=False),
    Column("sequence", BigInteger, nullable=False),
)
Index("ix_ends_sequence", ends.c.sequence)

answers = Table(
    "answers",
    metadata,
    _job_id(),
    _json("blocked"),
    _instant("at"),
    Column("position", Integer, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    Column("fold_digest", Text, nullable=False),
    _text("reason"),
    _text("message"),
    _instant("at"),
    _text("kind"),
    _text("actor"),
    _text("project", nullable=True),
    Column("job_id", _TEXT, nullable=True),
    _text("job_name", nullable=True),
    Column("attempt", Integer, nullable=True),
    _text("node", nullable=True),
    Column("times", BigInteger, nullable=False),
    _instant("first_at", nullable=True),
    UniqueConstraint("fold_digest"),
)
Index("ix_events_job_id_sequence", events.c.job_id, events.c.sequence)
Index("ix_events_project_sequence", events.c.project, events.c.sequence)
Index("ix_events_at", events.c.at)

levels = Table(
    "levels",
    metadata,
    Column("position", Integer, primary_key=True, autoincrement=False),
    _json("level"),
)

nodes = Table(
    "nodes",
    metadata,
    Column("name", PlainText, primary_key=True),
    _instant("changed_at"),
    _json("node"),
)

# Without a foreign key: their jobs are those that are not there.
strays = Table(
    "strays",
    metadata,
    Column("job_id", _TEXT, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    _json("stray"),
    _text("order", nullable=True),
)

cordons = Table(
    "cordons",
    metadata,
    Column("node", PlainText, primary_key=True),
    _json("cordon"),
)

exclusions = Table(
    "exclusions",
    metadata,
    Column("node", PlainText, primary_key=True),
    _json("exclusion"),
)

cycles = Table(
    "cycles",
    metadata,
    Column("name", Text, primary_key=True),
    Column("cycle", BigInteger, nullable=False),
    _instant("at"),
)

policy_knobs = Table(
    "policy_knobs",
    metadata,
    Column("name", Text, primary_key=True),
    _json("knobs"),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", PlainText, primary_key=True),
    _text("name"),
    _text("secret_sha256"),
    Column("is_admin", Boolean, nullable=False),
    _json("projects"),
    _instant("created_at"),
    _instant("expires_at", nullable=True),
    Column("is_revoked", Boolean, nullable=False),
    UniqueConstraint("secret_sha256"),
)

replies = Table(
    "replies",
    metadata,
    Column("principal", PlainText, primary_key=True),
    Column("route", PlainText, primary_key=True),
    Column("key", PlainText, primary_key=True),
    _text("body_sha256"),
    Column("status", Integer, nullable=False),
    _text("reply"),
    _instant("at"),
)
Index("ix_replies_at", replies.c.at)

audit = Table(
    "audit",
    metadata,
    Column("sequence", BigInteger, primary_key=True, autoincrement=False),
    _instant("at"),
    _text("principal"),
    _text("verb"),
    _text("target"),
    Column("outcome", Integer, nullable=False),
    _text("request_id"),
    _text("token_id"),
    _text("source"),
)
Index("ix_audit_at", audit.c.at)

worker_logs = Table(
    "worker_logs",
    metadata,
    Column("job_id", _TEXT, primary_key=True),
    Column("attempt", Integer, primary_key=True, autoincrement=False),
    # -1: the attempt is over for good; such a row has no data.
    Column("rank", Integer, primary_key=True, autoincrement=False),
    Column("offset", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    _json("times"),
    _instant("at"),
)
Index("ix_worker_logs_at", worker_logs.c.at)

leader = Table(
    "leader",
    metadata,
    Column("name", Text, primary_key=True),
    _text("holder"),
    Column("epoch", BigInteger, nullable=False),
    Column("renewals", BigInteger, nullable=False),
)

secrets = Table(
    "secrets",
    metadata,
    Column("name", PlainText, primary_key=True),
    Column("secret", Text, nullable=False),
)

instance = Table(
    "instance",
    metadata,
    Column("name", Text, primary_key=True),
    Column("instance_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("horizon", BigInteger, nullable=False),
    # The earliest head of migrations/ whose code still works on this schema: code that is older
    # than the schema may start while it is not older than this.
    Column("code_revision_min", Text, nullable=False),
)

writers = Table(
    "writers",
    metadata,
    Column("id", _TEXT, primary_key=True),
    # Number of the last batch that was committed: tells what became of a commit whose answer
    # was lost. Checks of health count in a row of their own.
    Column("batch", BigInteger, nullable=False),
)

THE_ONLY = "the-only"
"""Name of the row in a table that has one (leader, instance, cycles, ...)."""
