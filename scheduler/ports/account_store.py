"""Tokens, remembered replies and audit rows. They are written as changes of a unit, read here."""

from typing import Protocol

from scheduler.ports.unit import AuditRow, RememberReply, Token


class AccountStore(Protocol):
    """Who may call, and what was answered before."""

    def token_by_secret(self, secret_sha256: str) -> Token | None:
        """The token with that secret hash, revoked or expired ones too."""
        ...

    def tokens(self) -> tuple[Token, ...]:
        """All tokens, by creation."""
        ...

    def reply(self, *, principal: str, route: str, key: str) -> RememberReply | None:
        """The reply remembered under an idempotency key."""
        ...

    def audit(self, *, limit: int) -> tuple[AuditRow, ...]:
        """The newest audit rows, newest first."""
        ...
