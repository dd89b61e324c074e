"""Rows of tokens, replies and audit to domain values and back."""

from dataclasses import dataclass

from scheduler.adapters.sql.rows import AnyRow, Values, reading
from scheduler.domain.codec import from_json, to_json
from scheduler.domain.ids import ProjectName
from scheduler.ports.unit import AuditRow, RememberReply, Token


@dataclass(frozen=True, slots=True, kw_only=True)
class _ProjectNames:
    items: tuple[ProjectName, ...]


def token_row(token: Token) -> Values:
    """A token."""
    return {
        "id": token.id,
        "name": token.name,
        "secret_sha256": token.secret_sha256,
        "is_admin": token.is_admin,
        "projects": to_json(_ProjectNames(items=token.projects)),
        "created_at": token.created_at,
        "expires_at": token.expires_at,
        "is_revoked": token.is_revoked,
    }


def to_token(row: AnyRow) -> Token:
    """A row of `tokens`."""
    projects = reading("tokens", row.id, lambda r: from_json(_ProjectNames, r.projects), row)
    return Token(
        id=row.id,
        name=row.name,
        secret_sha256=row.secret_sha256,
        is_admin=row.is_admin,
        projects=projects.items,
        created_at=row.created_at,
        expires_at=row.expires_at,
        is_revoked=row.is_revoked,
    )


def reply_row(reply: RememberReply) -> Values:
    """A remembered reply."""
    return {
        "principal": reply.principal,
        "route": reply.route,
        "key": reply.key,
        "body_sha256": reply.body_sha256,
        "status": reply.status,
        "reply": reply.reply,
        "at": reply.at,
    }


def to_reply(row: AnyRow) -> RememberReply:
    """A row of `replies`."""
    return RememberReply(
        principal=row.principal,
        route=row.route,
        key=row.key,
        body_sha256=row.body_sha256,
        status=row.status,
        reply=row.reply,
        at=row.at,
    )


def audit_row(row: AuditRow) -> Values:
    """An audit row."""
    return {
        "at": row.at,
        "principal": row.principal,
        "verb": row.verb,
        "target": row.target,
        "outcome": row.outcome,
        "request_id": row.request_id,
        "token_id": row.token_id,
        "source": row.source,
    }


def to_audit_row(row: AnyRow) -> AuditRow:
    """A row of `audit`."""
    return AuditRow(
        at=row.at,
        principal=row.principal,
        verb=row.verb,
        target=row.target,
        outcome=row.outcome,
        request_id=row.request_id,
        token_id=row.token_id,
        source=row.source,
    )
