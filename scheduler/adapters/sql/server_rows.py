"""Rows of the installation itself: its id, its secrets, the lease of its leader.

What writes here takes a Transaction and is run by the writer.
"""

import secrets as chance

from sqlalchemy import Connection, bindparam, insert, select, update

from scheduler.adapters.sql.tables import THE_ONLY, instance, leader, secrets, writers
from scheduler.adapters.sql.writer import Transaction
from scheduler.domain.ids import Epoch
from scheduler.domain.lease import LeaseRow

_SECRET_BYTES = 32


def instance_id(connection: Connection) -> str:
    """The id of this installation, made by its first migration."""
    wanted = select(instance.c.instance_id).where(instance.c.name == THE_ONLY)
    found: str = connection.execute(wanted).scalar_one()
    return found


def become(transaction: Transaction, new: str) -> None:
    """Be another installation from now on."""
    transaction.connection.execute(
        update(instance).where(instance.c.name == THE_ONLY).values(instance_id=new)
    )


def raise_epoch(transaction: Transaction, epoch: Epoch) -> None:
    """Let every later term be larger than this one."""
    transaction.connection.execute(
        update(leader).where(_THE_LEASE, leader.c.epoch < epoch).values(epoch=epoch)
    )


def prove_writable(transaction: Transaction) -> None:
    """Change a row that nobody reads, so that a full or broken disk shows.

    SQLite would not write a row that stays as it is.
    """
    transaction.connection.execute(
        update(writers).where(writers.c.id == THE_ONLY).values(batch=writers.c.batch + 1)
    )


# Secrets.


def secret(connection: Connection, name: str) -> bytes | None:
    """The secret of that name, if it was made."""
    wanted = select(secrets.c.secret).where(secrets.c.name == name)
    found: str | None = connection.execute(wanted).scalar_one_or_none()
    return None if found is None else bytes.fromhex(found)


def make_secret(transaction: Transaction, name: str) -> bytes:
    """The secret of that name, made unless another server was faster."""
    found = secret(transaction.connection, name)
    if found is not None:
        return found
    made = chance.token_bytes(_SECRET_BYTES)
    transaction.connection.execute(insert(secrets), {"name": name, "secret": made.hex()})
    return made


# The lease.

_THE_LEASE = leader.c.name == THE_ONLY
_OF_EPOCH = leader.c.epoch == bindparam("wanted_epoch")
_TAKE = update(leader).where(
    _THE_LEASE, _OF_EPOCH, leader.c.renewals == bindparam("wanted_renewals")
)
_RENEW = (
    update(leader)
    .where(_THE_LEASE, _OF_EPOCH)
    .values(renewals=leader.c.renewals + 1)
    .returning(leader.c.renewals)
)
_LEAVE = update(leader).where(_THE_LEASE, _OF_EPOCH).values(holder="")


def lease(connection: Connection) -> LeaseRow:
    """The lease as it stands."""
    row = connection.execute(select(leader).where(_THE_LEASE)).one()
    return LeaseRow(holder=row.holder, epoch=row.epoch, renewals=row.renewals)


def take_lease(transaction: Transaction, *, seen: LeaseRow, holder: str) -> Epoch | None:
    """Begin a new epoch, unless the lease was renewed or taken since it was seen."""
    epoch = Epoch(seen.epoch + 1)
    taken = transaction.connection.execute(
        _TAKE,
        {
            "wanted_epoch": seen.epoch,
            "wanted_renewals": seen.renewals,
            "holder": holder,
            "epoch": epoch,
            "renewals": 0,
        },
    )
    return epoch if taken.rowcount else None


def renew_lease(transaction: Transaction, epoch: Epoch) -> int | None:
    """Count a renewal of that epoch, if it is still the current one; how many there are now."""
    renewals: int | None = transaction.connection.scalar(_RENEW, {"wanted_epoch": epoch})
    return renewals


def leave_lease(transaction: Transaction, epoch: Epoch) -> None:
    """Say that nobody holds the lease, if that epoch is still the current one."""
    transaction.connection.execute(_LEAVE, {"wanted_epoch": epoch})
