"""What a store is given before it serves: queues, projects, knobs, and the first admin token."""

import time
from collections.abc import Sequence
from typing import Protocol

import uuid_utils

from api.callers import new_secret, secret_hash
from scheduler.config_file import Config
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import ProjectName
from scheduler.domain.instants import DAY, Duration, Instant, after
from scheduler.ports.account_store import AccountStore
from scheduler.ports.job_store import JobStore
from scheduler.ports.unit import Change, SaveProject, SaveQueue, SaveToken, SeedKnobs, Token, Unit

ADMIN = "admin"
GIVEN_TOKEN_ID = "00000000-0000-0000-0000-000000000001"  # noqa: S105 - an id, no secret
"""The one token that the settings name: another value takes the place of the earlier one."""


class Store(JobStore, AccountStore, Protocol):
    """A store of jobs and of accounts."""


def apply_config(store: JobStore, config: Config) -> None:
    """Write what the file says of queues, projects and policy, where the store says otherwise.

    Knobs that the file does not name any more go back to their defaults, in queues that it does not
    name any more as well. What was changed live stays.
    """
    known = {queue.name: queue for queue in store.queues()}
    named = {queue.name: queue for queue in config.queues}
    projects = {project.name: project for project in store.projects()}
    changes: list[Change] = [
        SaveQueue(queue=queue) for name, queue in named.items() if name not in known
    ]
    for name, queue in known.items():
        seeded = named[name].knobs.seeded if name in named else {}
        if queue.knobs.seeded != seeded:
            changes.append(SeedKnobs(seeded=seeded, queue=name))
    changes += [
        SaveProject(project=project)
        for project in config.projects
        if projects.get(project.name) != project
    ]
    if store.knob_sheet().seeded != config.policy:
        changes.append(SeedKnobs(seeded=config.policy))
    if changes:
        store.write(Unit(changes=tuple(changes)))


def first_token(store: Store, *, days: int) -> str | None:
    """An admin token if the store has no token at all, else None."""
    return None if store.tokens() else make_token(store, name=ADMIN, projects=(), days=days)


def keep_given_token(store: Store, secret: str) -> None:
    """Let the admin token of the settings in, and no longer the one they named before.

    One that was revoked stays so.
    """
    present = {token.id: token for token in store.tokens()}.get(GIVEN_TOKEN_ID)
    if present is None or present.secret_sha256 != secret_hash(secret):
        token = Token(
            id=GIVEN_TOKEN_ID,
            name=ADMIN,
            secret_sha256=secret_hash(secret),
            is_admin=True,
            created_at=Instant(time.time_ns() // 1_000),
        )
        store.write(Unit(changes=(SaveToken(token=token),)))


def make_token(store: Store, *, name: str, projects: Sequence[str], days: int) -> str:
    """A new token's secret; without projects it is an admin's. Raises NotFoundError."""
    known = {project.name for project in store.projects()}
    for project in projects:
        if project not in known:
            raise NotFoundError("project", project)
    secret = new_secret()
    now = Instant(time.time_ns() // 1_000)
    token = Token(
        id=str(uuid_utils.uuid7()),
        name=name,
        secret_sha256=secret_hash(secret),
        is_admin=not projects,
        projects=tuple(ProjectName(project) for project in projects),
        created_at=now,
        expires_at=after(now, Duration(days * DAY)),
    )
    store.write(Unit(changes=(SaveToken(token=token),)))
    return secret
