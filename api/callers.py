"""Who is calling: bearer tokens, what they allow, and what of another project may be seen."""

import hashlib
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import ProjectName
from scheduler.domain.instants import SECOND, Duration, Instant, after
from scheduler.ports.account_store import AccountStore
from scheduler.ports.unit import Token

TOKEN_PREFIX = "dally_"  # noqa: S105 - what all tokens begin with, no secret
"""Lets secret scanners recognise a token."""

_SECRET_BYTES = 32
_TOKEN_LENGTH_MAX = 200
CACHED_FOR = Duration(5 * SECOND)
"""How long a revoked token may still pass in a process that has just seen it."""
_CACHED_MAX = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """An authenticated principal."""

    name: str
    token_id: str
    is_admin: bool
    projects: tuple[ProjectName, ...]
    """Where it may act; an admin may everywhere."""

    def may_see(self, project: ProjectName) -> bool:
        """Whether it may read and write in `project`."""
        return self.is_admin or project in self.projects

    def require(self, project: ProjectName) -> None:
        """Raises NotFoundError unless `may_see`: what is hidden does not exist."""
        if not self.may_see(project):
            raise NotFoundError("project", project)

    @property
    def visible_projects(self) -> tuple[ProjectName, ...] | None:
        """For queries: None means all."""
        return None if self.is_admin else self.projects


def new_secret() -> str:
    """A token's secret: 256 random bits behind the prefix."""
    return TOKEN_PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def secret_hash(secret: str) -> str:
    """What is stored of a secret. It has full entropy, so no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def bearer(authorization: str) -> str | None:
    """The secret in an Authorization header, if it is a bearer token of bounded length."""
    scheme, _, secret = authorization.partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret or len(secret) > _TOKEN_LENGTH_MAX:
        return None
    return secret if secret.isascii() else None


class Callers:
    """Finds the caller of a secret; remembers the last ones for a few seconds."""

    def __init__(self, accounts: AccountStore) -> None:
        self._accounts = accounts
        self._lock = Lock()
        self._cache: OrderedDict[str, tuple[Token, Instant]] = OrderedDict()

    def cached(self, secret: str, now: Instant) -> Caller | None:
        """The caller, if it was looked up a moment ago; never asks the store."""
        with self._lock:
            entry = self._cache.get(secret_hash(secret))
        if entry is None or now >= after(entry[1], CACHED_FOR):
            return None
        return _caller(entry[0], secret, now)

    def find(self, secret: str, now: Instant) -> Caller | None:
        """The caller, by the store; None if the token is unknown, expired or revoked."""
        hashed = secret_hash(secret)
        token = self._accounts.token_by_secret(hashed)
        if token is None:
            return None
        with self._lock:
            self._cache[hashed] = (token, now)
            self._cache.move_to_end(hashed)
            if len(self._cache) > _CACHED_MAX:
                self._cache.popitem(last=False)
        return _caller(token, secret, now)

    def forget(self) -> None:
        """Drop what is remembered: a token was revoked here."""
        with self._lock:
            self._cache.clear()


def _caller(token: Token, secret: str, now: Instant) -> Caller | None:
    is_same = hmac.compare_digest(token.secret_sha256, secret_hash(secret))
    is_expired = token.expires_at is not None and now >= token.expires_at
    if not is_same or is_expired or token.is_revoked:
        return None
    return Caller(
        name=token.name,
        token_id=token.id,
        is_admin=token.is_admin,
        projects=token.projects,
    )
