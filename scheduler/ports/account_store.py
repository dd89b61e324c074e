"""Tokens, remembered replies, audit rows, secrets; changes to them are part of units."""

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

    def instance_id(self) -> str:
        """The id of this installation, made once with its store: 16 hexadecimal digits."""
        ...

    def server_secret(self, name: str) -> bytes:
        """32 random bytes kept under that name, made on first use; every server gets the same."""
        ...
