"""Which bound volumes a node can not mount: what their PersistentVolumes say of nodes.

Only volumes that are bound count. Where a claim waits for its first pod, kube-scheduler chooses the
volume once the pod is pinned to its node; if there is none for that node, it says so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from scheduler.adapters.kubernetes.cache import Change
from scheduler.adapters.kubernetes.objects import (
    JsonObject,
    Uid,
    at,
    labels_of,
    parts,
    text,
    uid_of,
)
from scheduler.domain.ids import NodeName
from scheduler.domain.storage import claim_key

ZONE_LABELS = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
"""Labels of a volume that bind it to nodes with the same, as kube-scheduler reads them."""

_SEVERAL = "__"
"""Between the zones of a volume that lies in several."""

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """A volume that is bound to a claim."""

    claim: str
    zones: tuple[tuple[str, frozenset[str]], ...]
    terms: tuple[JsonObject, ...] | None
    """One of them must hold; None: any node will do."""

    def reaches(self, name: NodeName, labels: Mapping[str, str]) -> bool:
        """Whether a node can mount it."""
        if any(labels.get(key) not in zones for key, zones in self.zones):
            return False
        return self.terms is None or any(_holds(term, name, labels) for term in self.terms)


class Reach:
    """Bound volumes and nodes; not safe against threads."""

    def __init__(self) -> None:
        self._volumes: dict[Uid, _Bound] = {}
        self._labels: dict[NodeName, Mapping[str, str]] = {}
        self._beyond: dict[NodeName, frozenset[str]] = {}

    def beyond(self, node: NodeName) -> frozenset[str]:
        """The claims whose volume the node can not mount."""
        return self._beyond.get(node, NOTHING)

    def take_node(self, name: NodeName, node: JsonObject | None) -> None:
        """A node is new, has changed or is gone."""
        if node is None:
            self._labels.pop(name, None)
            self._beyond.pop(name, None)
            return
        labels = labels_of(node)
        if self._labels.get(name) == labels:
            return
        self._labels[name] = labels
        out_of_reach = (v.claim for v in self._volumes.values() if not v.reaches(name, labels))
        self._set(name, out_of_reach)

    def take_volumes(self, changes: Iterable[Change]) -> bool:
        """Volumes have come, changed or gone; whether that changes anything for a node."""
        before = dict(self._beyond)
        for change in changes:
            seen = change.after if change.after is not None else change.before
            assert seen is not None
            self._take(uid_of(seen), None if change.after is None else _bound(change.after))
        return before != self._beyond

    def _take(self, uid: Uid, volume: _Bound | None) -> None:
        former = self._volumes.pop(uid, None)
        if volume is not None:
            self._volumes[uid] = volume
        if former == volume:
            return
        for name, labels in self._labels.items():
            kept = self.beyond(name) - (NOTHING if former is None else {former.claim})
            is_new = volume is not None and not volume.reaches(name, labels)
            self._set(name, kept | {volume.claim} if is_new and volume is not None else kept)

    def _set(self, name: NodeName, claims: Iterable[str]) -> None:
        if found := frozenset(claims):
            self._beyond[name] = found
        else:
            self._beyond.pop(name, None)


def _bound(volume: JsonObject) -> _Bound | None:
    """What a PersistentVolume says; None while no claim has it."""
    claim = text(volume, "spec", "claimRef", "name")
    if text(volume, "status", "phase") != "Bound" or not claim:
        return None
    labels = labels_of(volume)
    has_terms = at(volume, "spec", "nodeAffinity", "required") is not None
    terms = parts(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms")
    return _Bound(
        claim=claim_key(text(volume, "spec", "claimRef", "namespace"), claim),
        zones=tuple(
            (key, frozenset(labels[key].split(_SEVERAL))) for key in ZONE_LABELS if key in labels
        ),
        terms=tuple(terms) if has_terms else None,
    )


def _holds(term: JsonObject, name: NodeName, labels: Mapping[str, str]) -> bool:
    """Whether every part of a term holds; an empty term never does."""
    of_labels, of_fields = parts(term, "matchExpressions"), parts(term, "matchFields")
    fields = {"metadata.name": str(name)}
    return bool(of_labels or of_fields) and (
        all(_matches(each, labels) for each in of_labels)
        and all(_matches(each, fields) for each in of_fields)
    )


def _matches(requirement: JsonObject, values: Mapping[str, str]) -> bool:
    key, operator = text(requirement, "key"), text(requirement, "operator")
    wanted = at(requirement, "values")
    named = [str(value) for value in wanted] if isinstance(wanted, list) else []
    match operator:
        case "In":
            return values.get(key) in named
        case "NotIn":
            return values.get(key) not in named
        case "Exists":
            return key in values
        case "DoesNotExist":
            return key not in values
        case _:
            return _compares(operator, values.get(key, ""), named)


def _compares(operator: str, value: str, named: list[str]) -> bool:
    """Gt and Lt compare whole numbers; what is none, and an operator of later, never holds."""
    try:
        number, bound = int(value), int(named[0])
    except (ValueError, IndexError):
        return False
    return number > bound if operator == "Gt" else operator == "Lt" and number < bound
