"""Rows of the cluster and its configuration to domain values and back."""

from dataclasses import dataclass, replace

from scheduler.adapters.sql.rows import AnyRow, Values, reading
from scheduler.adapters.sql.tables import THE_ONLY
from scheduler.domain.codec import from_json, to_json
from scheduler.domain.cordon import Cordon
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import NodeName, QueueName
from scheduler.domain.knob_sheet import KnobSheet
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.queue import Project, Queue
from scheduler.domain.stray import Stray, StrayOrder
from scheduler.domain.topology import Level, Node


@dataclass(frozen=True, slots=True, kw_only=True)
class _QueueNames:
    items: tuple[QueueName, ...]


def node_row(node: Node) -> Values:
    """A node."""
    return {"name": node.name, "node": to_json(node)}


def to_node(row: AnyRow) -> Node:
    """A row of `nodes`."""
    return reading("nodes", row.name, lambda r: from_json(Node, r.node), row)


def level_row(level: Level, *, position: int) -> Values:
    """A level."""
    return {"position": position, "level": to_json(level)}


def to_level(row: AnyRow) -> Level:
    """A row of `levels`."""
    return reading("levels", str(row.position), lambda r: from_json(Level, r.level), row)


def stray_row(stray: Stray) -> Values:
    """A stray, without its order."""
    key = stray.attempt
    told = replace(stray, order=None)
    return {"job_id": key.job_id, "attempt": key.number, "stray": to_json(told)}


def to_stray(row: AnyRow) -> Stray:
    """A row of `strays`."""
    key = f"{row.job_id}/{row.attempt}"
    stray = reading("strays", key, lambda r: from_json(Stray, r.stray), row)
    order = reading("strays", key, lambda r: None if r.order is None else StrayOrder(r.order), row)
    return replace(stray, order=order)


def cordon_row(cordon: Cordon) -> Values:
    """What an admin says of a node."""
    return {"node": cordon.node, "cordon": to_json(cordon)}


def to_cordon(row: AnyRow) -> Cordon:
    """A row of `cordons`."""
    return reading("cordons", row.node, lambda r: from_json(Cordon, r.cordon), row)


def exclusion_row(node: NodeName, exclusion: Exclusion) -> Values:
    """Why a node is left alone."""
    return {"node": node, "exclusion": to_json(exclusion)}


def to_exclusion(row: AnyRow) -> tuple[NodeName, Exclusion]:
    """A row of `exclusions`."""
    found = reading("exclusions", row.node, lambda r: from_json(Exclusion, r.exclusion), row)
    return NodeName(row.node), found


def project_row(project: Project) -> Values:
    """A project."""
    return {"name": project.name, "queues": to_json(_QueueNames(items=project.queues))}


def to_project(row: AnyRow) -> Project:
    """A row of `projects`."""
    queues = reading("projects", row.name, lambda r: from_json(_QueueNames, r.queues), row)
    return Project(name=row.name, queues=queues.items)


def queue_row(queue: Queue) -> Values:
    """A queue."""
    return {"name": queue.name, "knobs": to_json(queue.knobs)}


def to_queue(row: AnyRow) -> Queue:
    """A row of `queues`."""
    return Queue(name=row.name, knobs=reading("queues", row.name, _to_sheet, row.knobs))


def to_knob_sheet(text: str) -> KnobSheet:
    """The column `knobs` of `policy_knobs`."""
    return reading("policy_knobs", THE_ONLY, _to_sheet, text)


def _to_sheet(text: str) -> KnobSheet:
    sheet = from_json(KnobSheet, text)
    # One that says what can not be is as broken as one that can not be read.
    sheet.over(PolicyKnobs())
    return sheet
