"""Every gang of any install in some namespaces, read once, to make a lost database of it again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from scheduler.adapters.kubernetes import manifests, names
from scheduler.adapters.kubernetes.access import Access
from scheduler.adapters.kubernetes.budget import Budget
from scheduler.adapters.kubernetes.client import ApiServer
from scheduler.adapters.kubernetes.errors import ApiFailure
from scheduler.adapters.kubernetes.objects import JsonObject, labels_of, parts, text
from scheduler.adapters.kubernetes.pods import facts_of
from scheduler.adapters.kubernetes.watch import PAGE, collection
from scheduler.domain.errors import ClusterUnavailableError
from scheduler.domain.ids import Epoch, Rank
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import GangOrder, WorkerReport

REQUESTS_PER_SECOND = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundGang:
    """One attempt that has pods, or is at least described."""

    instance: str
    """Whose it is."""
    order: GangOrder
    reports: Mapping[Rank, WorkerReport] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What there is."""

    gangs: tuple[FoundGang, ...]
    epochs: Mapping[str, Epoch]
    """The latest leadership term of each install, by anything of it."""
    unreadable: tuple[str, ...] = ()
    """Anchors that do not say what they are."""


def find_gangs(access: Access, namespaces: Sequence[str]) -> Findings:
    """Look. Raises ClusterUnavailableError."""
    server = ApiServer(access, Budget(REQUESTS_PER_SECOND))
    try:
        anchors = [each for name in namespaces for each in _all(server, name, "configmaps")]
        pods = [each for name in namespaces for each in _all(server, name, "pods")]
    except ApiFailure as failure:
        raise ClusterUnavailableError(f"the API server says: {failure.message}") from failure
    finally:
        server.close()
    return _findings(anchors, pods)


def _all(server: ApiServer, namespace: str, plural: str) -> Iterator[JsonObject]:
    query = {"labelSelector": names.INSTANCE, "limit": str(PAGE)}
    while True:
        page = server.get(collection(namespace, plural), query)
        yield from parts(page, "items")
        if not text(page, "metadata", "continue"):
            return
        query = {**query, "continue": text(page, "metadata", "continue")}


def _findings(anchors: list[JsonObject], pods: list[JsonObject]) -> Findings:
    reports: dict[tuple[str, AttemptKey], dict[Rank, WorkerReport]] = {}
    for pod in pods:
        facts = facts_of(pod)
        if facts is not None:
            key = (labels_of(pod)[names.INSTANCE], facts.attempt)
            reports.setdefault(key, {})[facts.rank] = facts.report
    gangs: list[FoundGang] = []
    unreadable: list[str] = []
    for anchor in anchors:
        instance = labels_of(anchor)[names.INSTANCE]
        try:
            order = manifests.order_of(anchor)
        except ValueError:
            unreadable.append(text(anchor, "metadata", "name"))
            continue
        found = reports.get((instance, order.attempt), {})
        gangs.append(FoundGang(instance=instance, order=order, reports=found))
    epochs: dict[str, Epoch] = {}
    for each in (*anchors, *pods):
        instance = labels_of(each)[names.INSTANCE]
        epochs[instance] = max(epochs.get(instance, Epoch(0)), names.epoch_of(each))
    gangs.sort(key=lambda gang: (gang.instance, gang.order.attempt))
    return Findings(gangs=tuple(gangs), epochs=epochs, unreadable=tuple(sorted(unreadable)))
