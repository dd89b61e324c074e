"""Reading Kubernetes objects: plain JSON as the API server sends it, whatever fields it has."""

from datetime import datetime
from typing import NewType, TypeAlias

from scheduler.domain.codec import Json
from scheduler.domain.instants import Instant

JsonObject: TypeAlias = dict[str, Json]

Uid = NewType("Uid", str)
"""Identity of one object for its whole life; its name may be used again, its uid never."""


def at(data: Json, *path: str) -> Json:
    """The value at a path; None where it, or something on the way, is missing."""
    for step in path:
        if not isinstance(data, dict):
            return None
        data = data.get(step)
    return data


def text(data: Json, *path: str) -> str:
    """The text at a path; empty where there is none."""
    found = at(data, *path)
    return found if isinstance(found, str) else ""


def number(data: Json, *path: str) -> int | None:
    """The whole number at a path; None where there is none."""
    found = at(data, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) else None


def parts(data: Json, *path: str) -> list[JsonObject]:
    """The objects in the list at a path; none where there is no list."""
    found = at(data, *path)
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list) else []


def texts(data: Json, *path: str) -> dict[str, str]:
    """The texts in the object at a path by name, e.g. labels."""
    found = at(data, *path)
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def uid_of(data: Json) -> Uid:
    """The uid of an object."""
    return Uid(text(data, "metadata", "uid"))


def name_of(data: Json) -> str:
    """The name of an object."""
    return text(data, "metadata", "name")


def namespace_of(data: Json) -> str:
    """The namespace of an object; empty if it has none."""
    return text(data, "metadata", "namespace")


def labels_of(data: Json) -> dict[str, str]:
    """The labels of an object."""
    return texts(data, "metadata", "labels")


def version_of(data: Json) -> int:
    """The resource version of an object or list: larger is later. 0 where it has none."""
    version = text(data, "metadata", "resourceVersion")
    return int(version) if version.isdecimal() else 0


def condition_of(data: Json, kind: str) -> JsonObject | None:
    """A condition of a node's or pod's status."""
    for condition in parts(data, "status", "conditions"):
        if text(condition, "type") == kind:
            return condition
    return None


def instant_of(stamp: str) -> Instant | None:
    """A point in time as Kubernetes writes it, to the second or finer; None if it is none."""
    if not stamp:
        return None
    try:
        moment = datetime.fromisoformat(stamp)
    except ValueError:
        return None
    return Instant(round(moment.timestamp() * 1_000_000))
