"""The first tables, with the project and the queue that every installation has."""

import secrets

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """To this revision."""
    _create_configuration()
    _create_jobs()
    _create_beside_jobs()
    _create_attempts()
    _create_beside_attempts()
    _create_lessons()
    _create_history()
    _create_accounts()
    _create_instance()
    _fill()


def downgrade() -> None:
    """Back to an empty database."""
    for table in _TABLES:
        op.drop_table(table)


_TABLES = (
    "writers",
    "leader",
    "secrets",
    "instance",
    "replies",
    "profiles",
    "tokens",
    "worker_logs",
    "audit",
    "events",
    "ends",
    "waits",
    "progress",
    "reservations",
    "placements",
    "attempts",
    "deleted_jobs",
    "step_times",
    "answers",
    "strays",
    "job_labels",
    "jobs",
    "cycles",
    "exclusions",
    "cordons",
    "nodes",
    "levels",
    "policy_knobs",
    "projects",
    "queues",
)
"""Those that others refer to come last."""


def _text() -> sa.types.TypeEngine[str]:
    """Text in the order of code points."""
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _create_configuration() -> None:
    """What an admin sets and what the cluster is."""
    op.create_table(
        "queues",
        sa.Column("name", _text(), nullable=False),
        sa.Column("knobs", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_queues"),
    )
    op.create_table(
        "projects",
        sa.Column("name", _text(), nullable=False),
        sa.Column("queues", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_projects"),
    )
    op.create_table(
        "profiles",
        sa.Column("project", _text(), nullable=False),
        sa.Column("name", _text(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name="fk_profiles_project"),
        sa.PrimaryKeyConstraint("project", "name", name="pk_profiles"),
    )
    op.create_table(
        "policy_knobs",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("knobs", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_policy_knobs"),
    )
    op.create_table(
        "levels",
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("level", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("position", name="pk_levels"),
    )
    op.create_table(
        "nodes",
        sa.Column("name", _text(), nullable=False),
        sa.Column("changed_at", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_nodes"),
    )
    op.create_table(
        "cordons",
        sa.Column("node", _text(), nullable=False),
        sa.Column("cordon", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node", name="pk_cordons"),
    )
    op.create_table(
        "exclusions",
        sa.Column("node", _text(), nullable=False),
        sa.Column("exclusion", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("node", name="pk_exclusions"),
    )
    op.create_table(
        "cycles",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("cycle", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_cycles"),
    )


def _create_jobs() -> None:
    """What users submit."""
    op.create_table(
        "jobs",
        sa.Column("id", _text(), nullable=False),
        sa.Column("project", _text(), nullable=False),
        sa.Column("name", _text(), nullable=False),
        sa.Column("queue", _text(), nullable=False),
        sa.Column("priority", sa.BigInteger(), nullable=False),
        sa.Column("submitted_at", sa.BigInteger(), nullable=False),
        sa.Column("submitted_by", _text(), nullable=False),
        sa.Column("phase", _text(), nullable=False),
        sa.Column("phase_since", sa.BigInteger(), nullable=False),
        sa.Column("reason", _text(), nullable=False),
        sa.Column("message", _text(), nullable=False),
        sa.Column("not_before", sa.BigInteger(), nullable=True),
        sa.Column("stop_requested", _text(), nullable=True),
        sa.Column("stop_now", sa.Boolean(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("restarts_user", sa.Integer(), nullable=False),
        sa.Column("restarts_infra", sa.Integer(), nullable=False),
        sa.Column("failures_in_row", sa.Integer(), nullable=False),
        sa.Column("ran_for", sa.BigInteger(), nullable=False),
        sa.Column("first_started_at", sa.BigInteger(), nullable=True),
        sa.Column("last_placed_at", sa.BigInteger(), nullable=True),
        sa.Column("start_number", sa.BigInteger(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("changed", sa.BigInteger(), nullable=False),
        sa.Column("promised", sa.Text(), nullable=True),
        sa.Column("former", sa.Text(), nullable=True),
        sa.Column("waiting", sa.Text(), nullable=True),
        sa.Column("evictions", sa.Text(), nullable=True),
        sa.Column("spec", sa.Text(), nullable=False),
        sa.Column("source", _text(), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name="fk_jobs_project"),
        sa.ForeignKeyConstraint(["queue"], ["queues.name"], name="fk_jobs_queue"),
        sa.PrimaryKeyConstraint("id", name="pk_jobs"),
        sa.UniqueConstraint("project", "name", name="uq_jobs_project_name"),
    )
    op.create_index("ix_jobs_changed_id", "jobs", ["changed", "id"])
    op.create_index("ix_jobs_phase_submitted_at_id", "jobs", ["phase", "submitted_at", "id"])
    op.create_index(
        "ix_jobs_project_phase_submitted_at_id", "jobs", ["project", "phase", "submitted_at", "id"]
    )
    op.create_index(
        "ix_jobs_queue_phase_submitted_at_id",
        "jobs",
        ["queue", "phase", "submitted_at", "id", "project"],
    )


def _create_beside_jobs() -> None:
    """Labels to find jobs by, why they wait, what is left of deleted ones."""
    op.create_table(
        "job_labels",
        sa.Column("key", _text(), nullable=False),
        sa.Column("value", _text(), nullable=False),
        sa.Column("submitted_at", sa.BigInteger(), nullable=False),
        sa.Column("job_id", _text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_job_labels_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("key", "value", "submitted_at", "job_id", name="pk_job_labels"),
    )
    op.create_index("ix_job_labels_job_id_key", "job_labels", ["job_id", "key"])
    op.create_table(
        "answers",
        sa.Column("job_id", _text(), nullable=False),
        sa.Column("blocked", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_answers_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_answers"),
    )
    op.create_table(
        "strays",
        sa.Column("job_id", _text(), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("stray", sa.Text(), nullable=False),
        sa.Column("order", _text(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "attempt", name="pk_strays"),
    )
    op.create_table(
        "step_times",
        sa.Column("job_id", _text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("learned", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_step_times_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", name="pk_step_times"),
    )
    op.create_index("ix_step_times_sequence", "step_times", ["sequence"])
    op.create_table(
        "deleted_jobs",
        sa.Column("job_id", _text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("project", _text(), nullable=False),
        sa.Column("name", _text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name="pk_deleted_jobs"),
    )
    op.create_index("ix_deleted_jobs_at", "deleted_jobs", ["at"])
    op.create_index("ix_deleted_jobs_sequence_job_id", "deleted_jobs", ["sequence", "job_id"])


def _create_attempts() -> None:
    """Starts of a job and where its workers lie."""
    op.create_table(
        "attempts",
        sa.Column("job_id", _text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("phase", _text(), nullable=False),
        sa.Column("phase_since", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("running_since", sa.BigInteger(), nullable=True),
        sa.Column("stop_cause", _text(), nullable=True),
        sa.Column("kill_at", sa.BigInteger(), nullable=True),
        sa.Column("outcome", _text(), nullable=True),
        sa.Column("message", _text(), nullable=False),
        sa.Column("worker_ends", sa.Text(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("tier", sa.Integer(), nullable=False),
        sa.Column("tier_name", _text(), nullable=False),
        sa.Column("placement_digest", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id"], ["jobs.id"], name="fk_attempts_job_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("job_id", "number", name="pk_attempts"),
    )
    op.create_table(
        "placements",
        sa.Column("job_id", _text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("role", _text(), nullable=False),
        sa.Column("node", _text(), nullable=False),
        sa.Column("workers", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.number"],
            name="fk_placements_job_id_attempt",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "position", name="pk_placements"),
    )
    op.create_index("ix_placements_node", "placements", ["node"])


def _create_beside_attempts() -> None:
    """What attempts hold and report."""
    op.create_table(
        "reservations",
        sa.Column("job_id", _text(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("role", _text(), nullable=False),
        sa.Column("node", _text(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("cpu_milli", sa.BigInteger(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("extended", sa.Text(), nullable=False),
        sa.Column("gpu_indices", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.number"],
            name="fk_reservations_job_id_attempt",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "rank", name="pk_reservations"),
    )
    op.create_index("ix_reservations_node", "reservations", ["node"])
    op.create_table(
        "progress",
        sa.Column("job_id", _text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("report", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["attempts.job_id", "attempts.number"],
            name="fk_progress_job_id_attempt",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "sequence", name="pk_progress"),
    )
    op.create_index("ix_progress_job_id_attempt", "progress", ["job_id", "attempt"])


def _create_lessons() -> None:
    """What past jobs teach."""
    op.create_table(
        "waits",
        sa.Column("demand", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("level", _text(), nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("job_id", _text(), nullable=False),
        sa.Column("wait", sa.BigInteger(), nullable=False),
        sa.Column("is_censored", sa.Boolean(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("demand", "level", "at", "job_id", name="pk_waits"),
    )
    op.create_index("ix_waits_sequence", "waits", ["sequence"])
    op.create_table(
        "ends",
        sa.Column("queue", _text(), nullable=False),
        sa.Column("at", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("job_id", _text(), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("ran_for", sa.BigInteger(), nullable=False),
        sa.Column("is_complete", sa.Boolean(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("queue", "at", "job_id", name="pk_ends"),
    )
    op.create_index("ix_ends_sequence", "ends", ["sequence"])


def _create_history() -> None:
    """What happened and who did it."""
    op.create_table(
        "events",
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("fold_digest", sa.Text(), nullable=False),
        sa.Column("reason", _text(), nullable=False),
        sa.Column("message", _text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", _text(), nullable=False),
        sa.Column("actor", _text(), nullable=False),
        sa.Column("project", _text(), nullable=True),
        sa.Column("job_id", _text(), nullable=True),
        sa.Column("job_name", _text(), nullable=True),
        sa.Column("attempt", sa.Integer(), nullable=True),
        sa.Column("node", _text(), nullable=True),
        sa.Column("times", sa.BigInteger(), nullable=False),
        sa.Column("first_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("sequence", name="pk_events"),
        sa.UniqueConstraint("fold_digest", name="uq_events_fold_digest"),
    )
    op.create_index("ix_events_at", "events", ["at"])
    op.create_index("ix_events_job_id_sequence", "events", ["job_id", "sequence"])
    op.create_index("ix_events_project_sequence", "events", ["project", "sequence"])
    op.create_table(
        "audit",
        sa.Column("sequence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("principal", _text(), nullable=False),
        sa.Column("verb", _text(), nullable=False),
        sa.Column("target", _text(), nullable=False),
        sa.Column("outcome", sa.Integer(), nullable=False),
        sa.Column("request_id", _text(), nullable=False),
        sa.Column("token_id", _text(), nullable=False),
        sa.Column("source", _text(), nullable=False),
        sa.PrimaryKeyConstraint("sequence", name="pk_audit"),
    )
    op.create_index("ix_audit_at", "audit", ["at"])
    op.create_table(
        "worker_logs",
        sa.Column("job_id", _text(), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rank", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("times", sa.Text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", "rank", name="pk_worker_logs"),
    )
    op.create_index("ix_worker_logs_at", "worker_logs", ["at"])


def _create_accounts() -> None:
    """Who may call and what was answered."""
    op.create_table(
        "tokens",
        sa.Column("id", _text(), nullable=False),
        sa.Column("name", _text(), nullable=False),
        sa.Column("secret_sha256", _text(), nullable=False),
        sa.Column("is_admin", sa.Boolean(), nullable=False),
        sa.Column("projects", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("is_revoked", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("secret_sha256", name="uq_tokens_secret_sha256"),
    )
    op.create_table(
        "replies",
        sa.Column("principal", _text(), nullable=False),
        sa.Column("route", _text(), nullable=False),
        sa.Column("key", _text(), nullable=False),
        sa.Column("body_sha256", _text(), nullable=False),
        sa.Column("status", sa.Integer(), nullable=False),
        sa.Column("reply", _text(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("principal", "route", "key", name="pk_replies"),
    )
    op.create_index("ix_replies_at", "replies", ["at"])


def _create_instance() -> None:
    """The installation itself and who acts for it."""
    op.create_table(
        "instance",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("instance_id", sa.Text(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("horizon", sa.BigInteger(), nullable=False),
        sa.Column("code_revision_min", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_instance"),
    )
    op.create_table(
        "secrets",
        sa.Column("name", _text(), nullable=False),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_secrets"),
    )
    op.create_table(
        "leader",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", _text(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("renewals", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_leader"),
    )
    op.create_table(
        "writers",
        sa.Column("id", _text(), nullable=False),
        sa.Column("batch", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_writers"),
    )


def _fill() -> None:
    queue = {"name": "default", "knobs": '{"changed":{},"seeded":{}}'}
    project = {"name": "default", "queues": '{"items":["default"]}'}
    instance = {
        "name": "the-only",
        "instance_id": secrets.token_hex(8),
        "sequence": 0,
        "horizon": 0,
        "code_revision_min": revision,
    }
    lease = {"name": "the-only", "holder": "", "epoch": 0, "renewals": 0}
    for table, row in (
        ("queues", queue),
        ("projects", project),
        ("instance", instance),
        ("leader", lease),
        ("writers", {"id": "the-only", "batch": 0}),
    ):
        op.bulk_insert(sa.table(table, *map(sa.column, row)), [row])
