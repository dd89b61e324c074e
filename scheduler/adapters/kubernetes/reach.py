"""Which bound volumes a node can not mount: what their PersistentVolumes say of nodes.

Only volumes that are bound count. Where a claim waits for its first pod, kube-scheduler chooses the
volume once the pod is pinned to its node; if there is none for that node, it says so.
"""

from collections.abc import Collection, Iterable, Mapping
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

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
ZONE_LABELS = {
    _ZONE: _ZONE,
    _REGION: _REGION,
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
}
"""Labels of a volume that bind it to nodes with the same, as kube-scheduler reads them; with what a
node may call them instead. A node that has none of them can mount the volumes of all zones."""

_SEVERAL = "__"
"""Between the zones of a volume that lies in several."""

_NUMBER_END = 1 << 63

NOTHING: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bound:
    """A volume that is bound to a claim."""

    claim: str
    zones: tuple[tuple[str, frozenset[str]], ...]
    terms: tuple[JsonObject, ...] | None
    """One of them must hold; None: any node will do."""

    @property
    def is_choosy(self) -> bool:
        """Whether it says anything of nodes."""
        return bool(self.zones) or self.terms is not None

    def reaches(self, name: NodeName, labels: Mapping[str, str]) -> bool:
        """Whether a node can mount it."""
        has_zone = any(key in labels for key in ZONE_LABELS)
        if has_zone and any(_zone(labels, key) not in zones for key, zones in self.zones):
            return False
        return self.terms is None or any(_holds(term, name, labels) for term in self.terms)


class Reach:
    """Bound volumes and nodes; not safe against threads."""

    def __init__(self, namespaces: Collection[str]) -> None:
        """`namespaces`: where gangs may be; claims of others do not matter."""
        self._namespaces = namespaces
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
        touched: set[str] = set()
        for change in changes:
            seen = change.after if change.after is not None else change.before
            assert seen is not None
            volume = None if change.after is None else self._bound(change.after)
            former = self._volumes.pop(uid_of(seen), None)
            if volume is not None:
                self._volumes[uid_of(seen)] = volume
            if former != volume:
                touched |= {each.claim for each in (former, volume) if each is not None}
        # Once for the whole batch: a list brings thousands, and every node has a set of its own.
        again = [each for each in self._volumes.values() if each.claim in touched]
        for name, labels in self._labels.items() if touched else ():
            kept = self.beyond(name) - touched
            self._set(name, kept.union(v.claim for v in again if not v.reaches(name, labels)))
        return before != self._beyond

    def _bound(self, volume: JsonObject) -> _Bound | None:
        """What a volume says of nodes; None where that is nothing, or of no claim of ours."""
        found = _bound(volume)
        namespace = text(volume, "spec", "claimRef", "namespace")
        return found if found and found.is_choosy and namespace in self._namespaces else None

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
    if len(named) != 1 or not all(_is_number(each) for each in (value, *named)):
        return False
    number, bound = int(value), int(named[0])
    return number > bound if operator == "Gt" else operator == "Lt" and number < bound


def _is_number(value: str) -> bool:
    """As kube-scheduler reads them: 64 bits, nothing but digits."""
    return value.isascii() and value.isdecimal() and int(value) < _NUMBER_END


def _zone(labels: Mapping[str, str], key: str) -> str | None:
    return labels.get(key, labels.get(ZONE_LABELS[key]))
