"""The keeper's hands: an action becomes calls, as many at once as there are, and what came of them
is noted on the gang and in the caches.
"""

import logging
from collections.abc import Mapping
from typing import assert_never

from scheduler.adapters.kubernetes.cache import ObjectCache
from scheduler.adapters.kubernetes.calls import GangCalls, NotMade, Together
from scheduler.adapters.kubernetes.errors import Abandoned, ApiFailure
from scheduler.adapters.kubernetes.gang import (
    Disown,
    KubernetesGang,
    MakeAnchor,
    MakePods,
    OpenGates,
    RemovePods,
)
from scheduler.adapters.kubernetes.log_keeping import EndedLogs
from scheduler.adapters.kubernetes.manifests import (
    PodRenderer,
    RenderSettings,
    grace_s,
    order_of,
)
from scheduler.adapters.kubernetes.objects import uid_of
from scheduler.adapters.kubernetes.pods import PodFacts
from scheduler.domain.ids import Rank
from scheduler.domain.instants import Duration
from scheduler.ports.clock import Clock

CALL_THREADS = 16

_log = logging.getLogger(__name__)


class Hands:
    """Does what is decided; every method may be called from any thread and raises ApiFailure."""

    def __init__(
        self, calls: GangCalls, settings: RenderSettings, *, logs: EndedLogs, clock: Clock
    ) -> None:
        self._calls = calls
        self._settings = settings
        self._logs = logs
        self._clock = clock
        self._together = Together(CALL_THREADS)
        self.caches: Mapping[str, ObjectCache] = {}
        """By namespace; set when they have been filled once."""
        self.is_closing = False

    def close(self) -> None:
        """Wait for the calls under way."""
        self._together.close()

    def do(
        self, gang: KubernetesGang, action: MakeAnchor | MakePods | OpenGates | RemovePods
    ) -> None:
        """Make, release or remove."""
        match action:
            case MakeAnchor():
                self._make_anchor(gang, action)
            case MakePods():
                self._make_pods(gang, action)
            case OpenGates():
                self._open_gates(gang, action)
            case RemovePods():
                self._remove_pods(gang, action)
            case _:
                assert_never(action)

    def look_up(self, gang: KubernetesGang) -> None:
        """Find out by which order it was made."""
        found = self._calls.find_anchor(gang.namespace, gang.attempt)
        with gang.lock:
            gang.is_order_wanted = False  # Who still wants to know asks again.
            if found is None:
                return
            try:
                gang.order, gang.anchor = order_of(found), uid_of(found)
            except ValueError:
                _log.warning("anchor_unreadable %s", gang.attempt)

    def disown(self, gang: KubernetesGang, action: Disown) -> None:
        """Take our label from all of it."""
        self._calls.disown_anchor(gang.namespace, gang.attempt)

        def disown(facts: PodFacts) -> None:
            changed = self._calls.disown_pod(facts)
            cache = self.caches[facts.namespace]
            known = changed or cache.find(facts.namespace, facts.name)
            if known is not None:
                cache.remove(known)

        _raise_first(self._together.run(disown, action.pods))

    def _make_anchor(self, gang: KubernetesGang, action: MakeAnchor) -> None:
        made = self._calls.make_anchor(action.order)
        with gang.lock:
            if isinstance(made, NotMade):
                for held in action.order.reservations:
                    gang.refuse(held.rank, held.node, made.outcome, made.message)
            else:
                gang.anchor = made

    def _make_pods(self, gang: KubernetesGang, action: MakePods) -> None:
        renderer = PodRenderer(action.order, self._settings)
        anchor = gang.anchor
        assert anchor is not None

        def make(rank: Rank) -> None:
            if gang.kill_at is not None or self.is_closing:
                raise Abandoned("it is to stop")
            made = self._calls.make_pod(renderer, rank, anchor)
            if isinstance(made, NotMade):
                node = action.order.reservations[rank].node
                with gang.lock:
                    gang.refuse(rank, node, made.outcome, made.message)
            else:
                self.caches[gang.namespace].put(made)

        _raise_first(self._together.run(make, action.ranks))

    def _open_gates(self, gang: KubernetesGang, action: OpenGates) -> None:
        with gang.lock:
            gang.is_released = True

        def open_gate(facts: PodFacts) -> None:
            if gang.kill_at is not None or self.is_closing:
                raise Abandoned("it is to stop")
            opened = self._calls.open_gate(facts)
            cache = self.caches[facts.namespace]
            if opened is not None:
                cache.put(opened)
            elif (known := cache.find(facts.namespace, facts.name)) is not None:
                cache.remove(known)

        _raise_first(self._together.run(open_gate, action.pods))

    def _remove_pods(self, gang: KubernetesGang, action: RemovePods) -> None:
        left = Duration(max(0, action.kill_at - self._clock.now()))
        self._logs.before_stop(action.pods)

        def remove(facts: PodFacts) -> None:
            self._calls.remove_pod(facts, grace_s(left))
            with gang.lock:
                gang.asked_to_end[facts.uid] = action.kill_at

        _raise_first(self._together.run(remove, action.pods))


def _raise_first(results: list[ApiFailure | None]) -> None:
    for result in results:
        if result is not None:
            raise result
