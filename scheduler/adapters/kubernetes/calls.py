"""The calls that make, release and remove a gang, each made so that making it again does no harm.

A lost answer is no news: the next try finds the object, and it is ours if it says so and belongs to
our anchor. An object that is not ours is never touched.
"""

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from scheduler.adapters.kubernetes import manifests, names
from scheduler.adapters.kubernetes.checking import violations
from scheduler.adapters.kubernetes.client import ApiServer
from scheduler.adapters.kubernetes.errors import (
    AlreadyThere,
    ApiFailure,
    Missing,
    Outdated,
    Refused,
)
from scheduler.adapters.kubernetes.grants import Grants, grants_of
from scheduler.adapters.kubernetes.manifests import PodRenderer, RenderSettings
from scheduler.adapters.kubernetes.objects import (
    JsonObject,
    Uid,
    labels_of,
    parts,
    text,
    uid_of,
)
from scheduler.adapters.kubernetes.pods import PodFacts, facts_of
from scheduler.adapters.kubernetes.watch import collection
from scheduler.domain.ids import Rank
from scheduler.domain.job import Outcome
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import GangOrder
from scheduler.ports.kill_points import KillPoint, reach

OPEN_TRIES_MAX = 5

Item = TypeVar("Item")
Result = TypeVar("Result")

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NotMade:
    """The API server will not have an object, or its name is taken by one that is not ours."""

    outcome: Outcome
    message: str


class GangCalls:
    """Calls to one API server."""

    def __init__(self, server: ApiServer, settings: RenderSettings) -> None:
        self._server = server
        self._settings = settings

    def make_anchor(self, order: GangOrder) -> Uid | NotMade:
        """The anchor and the Service; adopted if they are there. Raises ApiFailure."""
        try:
            wanted = manifests.anchor(order, self._settings)
        except manifests.TooLargeError as error:
            return NotMade(outcome=Outcome.LAUNCH_FAILED, message=str(error))
        reach(KillPoint.KUBERNETES_BEFORE_ANCHOR)
        made = self._make("configmaps", wanted, lambda found: _is_order(found, order))
        reach(KillPoint.KUBERNETES_AFTER_ANCHOR)
        if isinstance(made, NotMade):
            return made
        uid = uid_of(made)
        reach(KillPoint.KUBERNETES_BEFORE_SERVICE)
        service = self._make(
            "services",
            manifests.service(order, self._settings, uid),
            lambda found: _is_owned_by(found, uid),
        )
        reach(KillPoint.KUBERNETES_AFTER_SERVICE)
        return service if isinstance(service, NotMade) else uid

    def make_pod(self, renderer: PodRenderer, rank: Rank, anchor: Uid) -> JsonObject | NotMade:
        """A gated pod; adopted if it is there. Raises ApiFailure."""
        wanted = renderer.pod(rank, anchor)
        broken = violations(wanted, self._grants(renderer.order, rank))
        if broken:
            return NotMade(outcome=Outcome.LAUNCH_FAILED, message="; ".join(broken))
        reach(KillPoint.KUBERNETES_BEFORE_POD)
        made = self._make("pods", wanted, lambda found: _is_owned_by(found, anchor))
        reach(KillPoint.KUBERNETES_AFTER_POD)
        return made

    def _grants(self, order: GangOrder, rank: Rank) -> Grants:
        policy, held = self._settings.policy, order.reservations[rank]
        role = next(role for role in order.spec.roles if role.name == held.role)
        name = policy.profile_name(order.project, order.spec, role)
        return grants_of(policy, order.project, name)

    def open_gate(self, facts: PodFacts) -> JsonObject | None:
        """Take our gate from that very pod; None if it is gone. Raises ApiFailure."""
        path = _path(facts)
        uid, version = facts.uid, facts.version
        reach(KillPoint.KUBERNETES_BEFORE_GATE)
        for _ in range(OPEN_TRIES_MAX):
            change: JsonObject = {
                "metadata": {"uid": uid, "resourceVersion": str(version)},
                "spec": {"schedulingGates": [{"$patch": "delete", "name": names.GATE}]},
            }
            try:
                opened = self._server.patch(path, change)
            except Missing:
                return None
            except Outdated:
                # Somebody has written to it since: only if it is still the same pod, and gated.
                found = self._find(path)
                seen = None if found is None else facts_of(found)
                if seen is None or seen.uid != uid or not seen.is_gated:
                    return found if seen is not None and seen.uid == uid else None
                version = seen.version
                continue
            reach(KillPoint.KUBERNETES_AFTER_GATE)
            return opened
        raise Outdated(f"{facts.name} changes all the time")

    def remove_pod(self, facts: PodFacts, grace_s: int) -> None:
        """Have that very pod end within the grace. Raises ApiFailure."""
        reach(KillPoint.KUBERNETES_BEFORE_DELETE)
        grace: JsonObject = {"gracePeriodSeconds": max(manifests.GRACE_S_MIN, grace_s)}
        self._delete(_path(facts), facts.uid, grace)
        reach(KillPoint.KUBERNETES_AFTER_DELETE)

    def remove_anchor(self, namespace: str, attempt: AttemptKey, uid: Uid | None) -> None:
        """Delete what owns a gang, and with it all that is left. Raises ApiFailure."""
        path = _anchor_path(namespace, attempt)
        if uid is None:
            found = self._find(path)
            if found is None or not self._is_ours(found, attempt):
                return
            uid = uid_of(found)
        reach(KillPoint.KUBERNETES_BEFORE_FORGET)
        self._delete(path, uid, {"propagationPolicy": "Background"})
        reach(KillPoint.KUBERNETES_AFTER_FORGET)

    def find_anchor(self, namespace: str, attempt: AttemptKey) -> JsonObject | None:
        """The anchor of an attempt; None if there is none of ours. Raises ApiFailure."""
        found = self._find(_anchor_path(namespace, attempt))
        return found if found is not None and self._is_ours(found, attempt) else None

    def disown_anchor(self, namespace: str, attempt: AttemptKey) -> None:
        """Take our label from what owns a gang, which stays. Raises ApiFailure."""
        if (found := self.find_anchor(namespace, attempt)) is not None:
            self._disown(_anchor_path(namespace, attempt), uid_of(found))

    def disown_pod(self, facts: PodFacts) -> JsonObject | None:
        """Take our label from that very pod; None if it is gone. Raises ApiFailure."""
        return self._disown(_path(facts), facts.uid)

    def _disown(self, path: str, uid: Uid) -> JsonObject | None:
        labels: JsonObject = {names.INSTANCE: None, names.RELEASED_BY: self._settings.instance}
        try:
            return self._server.patch(path, {"metadata": {"uid": uid, "labels": labels}})
        except Missing:
            return None
        except Outdated:
            found = self._find(path)
            if found is not None and uid_of(found) == uid:
                raise
            return None

    def _make(
        self, plural: str, wanted: JsonObject, is_same: Callable[[JsonObject], bool]
    ) -> JsonObject | NotMade:
        path = collection(text(wanted, "metadata", "namespace"), plural)
        try:
            return self._server.create(path, wanted)
        except AlreadyThere:
            name = text(wanted, "metadata", "name")
            found = self._server.get(f"{path}/{name}")
            attempt = names.attempt_of(wanted)
            assert attempt is not None
            if self._is_ours(found, attempt) and is_same(found):
                return found
            message = f"NameConflict: there is another object {plural}/{name}, which is not touched"
            return NotMade(outcome=Outcome.SYSTEM_ERROR, message=message)
        except (Refused, Missing) as failure:
            # Quota, limits, pod security, webhooks, rights; or the namespace is not there any more.
            return NotMade(outcome=Outcome.ADMISSION_REJECTED, message=failure.message)

    def _delete(self, path: str, uid: Uid, options: JsonObject) -> None:
        """Delete that very object; well if it is gone, or another one has its name."""
        preconditions: JsonObject = {"uid": uid}
        try:
            self._server.delete(path, {**options, "preconditions": preconditions})
        except Missing:
            return
        except Outdated:
            found = self._find(path)
            if found is not None and uid_of(found) == uid:
                raise  # It was only changed at the same moment.

    def _is_ours(self, found: JsonObject, attempt: AttemptKey) -> bool:
        labels = names.attempt_labels(self._settings.instance, attempt)
        return labels.items() <= labels_of(found).items()

    def _find(self, path: str) -> JsonObject | None:
        try:
            return self._server.get(path)
        except Missing:
            return None


class Together:
    """Makes many calls at once; their number is bounded, their rate is the budget's."""

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="kubernetes-call")

    def run(
        self, call: Callable[[Item], Result], items: Iterable[Item]
    ) -> list[Result | ApiFailure]:
        """Each item's result, or what went wrong with it."""

        def guarded(item: Item) -> Result | ApiFailure:
            try:
                return call(item)
            except ApiFailure as failure:
                return failure

        return list(self._pool.map(guarded, items))

    def close(self) -> None:
        """Wait for those under way."""
        self._pool.shutdown(cancel_futures=True)


def _is_owned_by(found: JsonObject, uid: Uid) -> bool:
    return any(text(owner, "uid") == uid for owner in parts(found, "metadata", "ownerReferences"))


def _is_order(found: JsonObject, order: GangOrder) -> bool:
    """Whether an anchor keeps this order; only what makes it the same gang is compared, for an
    order that a newer version writes has more to say."""
    try:
        kept = manifests.order_of(found)
    except ValueError:
        _log.warning("anchor_unreadable %s", order.attempt)
        return False
    return (kept.attempt, kept.placement) == (order.attempt, order.placement)


def _anchor_path(namespace: str, attempt: AttemptKey) -> str:
    return f"{collection(namespace, 'configmaps')}/{names.gang_name(attempt)}"


def _path(facts: PodFacts) -> str:
    return f"{collection(facts.namespace, 'pods')}/{facts.name}"
