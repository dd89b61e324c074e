"""Workers belong to the data folder they run from: a server on another one must not take over.

The folder has an id of its own; the nodes in the store carry it as a label. So a server on a fresh
folder, but on the same database, sees that the workers of running jobs are not its own, and does
not take them for lost and start them again.
"""

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from scheduler.domain.errors import AlreadyServingError
from scheduler.domain.explain import counted
from scheduler.domain.topology import Node
from scheduler.ports.job_store import JobStore

FILE_NAME = "executor-id"
LABEL = "dally.internal/executor"


def executor_id(data_dir: Path) -> str:
    """The id of the folder, made once."""
    file = data_dir / FILE_NAME
    if not file.exists():
        new = data_dir / f".{FILE_NAME}.new"
        new.write_text(secrets.token_hex(8))
        new.rename(file)
    return file.read_text().strip()


def labelled(nodes: tuple[Node, ...], folder_id: str) -> Iterator[Node]:
    """The nodes, each saying which folder's they are."""
    for node in nodes:
        yield replace(node, labels={**node.labels, LABEL: folder_id})


def refuse_workers_of_others(store: JobStore, data_dir: Path) -> None:
    """Raise AlreadyServingError if jobs run whose workers belong to another folder."""
    running = store.live().attempts
    _, nodes = store.topology()
    owners = {node.labels[LABEL] for node in nodes if LABEL in node.labels}
    own = executor_id(data_dir)
    if running and owners and owners != {own}:
        raise AlreadyServingError(
            f"another data folder runs {counted(len(running), 'job')} of this database (executor "
            f"{', '.join(sorted(owners))}, this one is {own}); serve from that folder, or end them "
            "there first"
        )
