"""Works off what is wanted of gangs: a few threads, one gang a thread, requests only note wishes.

Pods and wishes queue the gang; a thread then does its next step, and the next, until there is none.
What fails is tried again after a while that doubles, so one gang's trouble holds up no other.
"""

import logging
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping

from scheduler.adapters.kubernetes.cache import Change, ObjectCache
from scheduler.adapters.kubernetes.calls import GangCalls
from scheduler.adapters.kubernetes.errors import Abandoned, ApiFailure
from scheduler.adapters.kubernetes.gang import (
    Action,
    Disown,
    FoundAnchor,
    KubernetesGang,
    LetGo,
    LookUp,
)
from scheduler.adapters.kubernetes.hands import Hands
from scheduler.adapters.kubernetes.keeper_times import KeeperTimes
from scheduler.adapters.kubernetes.log_keeping import EndedLogs
from scheduler.adapters.kubernetes.manifests import (
    RenderSettings,
)
from scheduler.adapters.kubernetes.nodes import NodeBook
from scheduler.adapters.kubernetes.objects import Uid
from scheduler.adapters.kubernetes.pods import PodFacts, facts_of
from scheduler.adapters.kubernetes.work_queue import WorkQueue
from scheduler.adapters.views import Views
from scheduler.domain.ids import Epoch, Rank
from scheduler.domain.instants import Instant
from scheduler.domain.job import Outcome
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.clock import Clock
from scheduler.ports.cluster import GangOrder

GANG_THREADS = 4

_log = logging.getLogger(__name__)


class Keeper:
    """Owns all gangs."""

    def __init__(
        self,
        calls: GangCalls,
        settings: RenderSettings,
        *,
        views: Views,
        nodes: NodeBook,
        logs: EndedLogs,
        clock: Clock,
        times: KeeperTimes,
        term: Callable[[], Epoch | None] = lambda: Epoch(0),
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._calls = calls
        self._settings = settings
        self._views = views
        self._nodes = nodes
        self._logs = logs
        self._clock = clock
        self._times = times
        self._term = term
        self._on_change = on_change
        self._rng = random.Random()  # noqa: S311 - jitter
        self._gangs: dict[AttemptKey, KubernetesGang] = {}
        self._lock = threading.RLock()
        self._queue: WorkQueue[AttemptKey] = WorkQueue()
        self._hands = Hands(calls, settings, logs=logs, clock=clock)
        self._failures: dict[AttemptKey, int] = {}
        self._asked: Counter[AttemptKey] = Counter()
        """Requests that are not worked off, by gang."""
        self._in_making: set[AttemptKey] = set()
        self._is_started = False
        self._forgotten: set[AttemptKey] = set()
        """Attempts that are over for good, while anything of them is still being removed."""
        self._problems: dict[Uid, tuple[Outcome, float]] = {}
        """Since when a pod has had its problem, on our own clock."""
        self._is_closing = False
        self.failure: BaseException | None = None
        """What a thread died of; a bug of ours."""
        self._threads = [
            threading.Thread(target=self._run, name=f"kubernetes-gangs-{number}", daemon=True)
            for number in range(GANG_THREADS)
        ]

    def start(self, caches: Mapping[str, ObjectCache], anchors: list[FoundAnchor]) -> None:
        """Take over what is there, then begin. The caches have been filled once.

        Raises Unavailable, and may be called again then.
        """
        self._hands.caches = caches
        for found in anchors:
            attempt = found.order.attempt
            with self._lock:
                gang = self._gangs.get(attempt) or self._new_gang(attempt)
            with gang.lock:
                gang.order, gang.anchor, gang.namespace = found.order, found.uid, found.namespace
                gang.is_new = False
                gang.workers = len(found.order.reservations)
        for attempt, gang in sorted(self._gangs.items()):
            if gang.is_down() and self._logs.is_forgotten(attempt):
                # The server before had begun to remove it.
                self._forgotten.add(attempt)
                gang.is_forget_wanted = True
            self._publish(gang)
            self._queue.add(attempt)
        with self._lock:
            self._is_started = True
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """End the threads; pods go on."""
        self._is_closing = True
        self._hands.is_closing = True
        self._queue.close()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._hands.close()

    @property
    def is_idle(self) -> bool:
        """Whether everything that could be done now has been."""
        return self._queue.is_idle

    def empty_anchors(self, anchors: list[FoundAnchor]) -> list[FoundAnchor]:
        """Those that own nothing and of whose gang nothing is wanted; the others are taken note of.

        A leader asks again for all it wants when its term begins, so what nobody wants is over.
        """
        empty: list[FoundAnchor] = []
        for found in anchors:
            with self._lock:
                gang = self._gangs.get(found.order.attempt)
            if gang is None or not (gang.pods or gang.is_make_wanted or gang.is_release_wanted):
                empty.append(found)
        return empty

    def remove_anchor(self, found: FoundAnchor) -> None:
        """Remove one that was empty for long. Raises ApiFailure."""
        attempt = found.order.attempt
        self._calls.remove_anchor(found.namespace, attempt, found.uid)
        with self._lock:
            self._gangs.pop(attempt, None)
        self._views.drop(attempt)

    # Wishes

    def prepare(self, order: GangOrder) -> None:
        """Have a gang made."""
        with self._lock:
            gang = self._gangs.get(order.attempt) or self._new_gang(order.attempt)
        with gang.lock:
            gang.want_made(order)
            gang.workers = max(gang.workers, len(order.reservations))
            gang.namespace = self._settings.namespace_of(order.project)
        self._ask(gang)

    def release(self, attempt: AttemptKey) -> None:
        """Have a gang run once all its workers are made."""
        if gang := self._known(attempt):
            with gang.lock:
                gang.is_release_wanted = True
            self._ask(gang)

    def stop(self, attempt: AttemptKey, kill_at: Instant) -> None:
        """Have a gang end."""
        if gang := self._known(attempt):
            with gang.lock:
                gang.want_stopped(kill_at)
            self._ask(gang)

    def forget(self, attempt: AttemptKey) -> None:
        """Have what is left of a gang removed once it is over."""
        if gang := self._known(attempt):
            with gang.lock:
                gang.is_forget_wanted = True
            self._ask(gang)

    def disown(self, attempt: AttemptKey) -> None:
        """Have a gang run on as nobody's."""
        if gang := self._known(attempt):
            with gang.lock:
                gang.is_disown_wanted = True
            self._ask(gang)

    def order_of(self, attempt: AttemptKey) -> GangOrder | None:
        """By which order a gang was made; what is not known is found out."""
        gang = self._gangs.get(attempt)
        if gang is None:
            return None
        if gang.order is None and not gang.is_order_wanted:
            gang.is_order_wanted = True
            self._queue.add(attempt)
        return gang.order

    def _known(self, attempt: AttemptKey) -> KubernetesGang | None:
        """The gang; before the cluster was looked at, one of which nothing is known yet."""
        with self._lock:
            gang = self._gangs.get(attempt)
            if gang is None and not self._is_started:
                gang = self._new_gang(attempt)
            return gang

    def _ask(self, gang: KubernetesGang) -> None:
        with gang.lock:
            gang.term = self._term()
        with self._lock:
            self._asked[gang.attempt] += 1
        self._views.ask(gang.attempt)
        self._queue.add(gang.attempt)

    def namespace_of(self, attempt: AttemptKey) -> str | None:
        """Where a gang's pods are; None for a gang that is not known."""
        gang = self._gangs.get(attempt)
        return None if gang is None else gang.namespace

    def pod_of(self, attempt: AttemptKey, rank: Rank) -> PodFacts | None:
        """A worker's pod; None if there is none."""
        gang = self._gangs.get(attempt)
        return None if gang is None else gang.pods.get(rank)

    # Pods

    def on_pods(self, changes: list[Change]) -> None:
        """Pods of ours have come, changed or gone. Called by caches."""
        touched: set[AttemptKey] = set()
        for change in changes:
            seen = change.after if change.after is not None else change.before
            facts = None if seen is None else facts_of(seen)
            if facts is None:
                continue
            touched.add(facts.attempt)
            gang = self._gang_of(facts, is_gone=change.after is None)
            if gang is not None:
                self._take(gang, facts, is_gone=change.after is None)
        for attempt in sorted(touched):
            self._queue.add(attempt)
            if gang := self._gangs.get(attempt):
                self._publish(gang)

    def _gang_of(self, facts: PodFacts, *, is_gone: bool) -> KubernetesGang | None:
        """The gang of a pod; None for what is left of one that is over."""
        with self._lock:
            if not facts.is_over and not is_gone:
                self._forgotten.discard(facts.attempt)  # It lives: somebody must hear of it.
            gang = self._gangs.get(facts.attempt)
            if gang is None and not is_gone and facts.attempt not in self._forgotten:
                gang = self._new_gang(facts.attempt, facts)
            return gang

    def _take(self, gang: KubernetesGang, facts: PodFacts, *, is_gone: bool) -> None:
        with gang.lock:
            had_ended = facts.rank in gang.last
            was_well = gang.kill_at is None and gang.is_well()
            gang.is_new = False
            if is_gone:
                gang.note_gone(facts)
                self._problems.pop(facts.uid, None)
            else:
                gang.note_pod(facts)
            report = gang.last.get(facts.rank)
            is_news = report is not None and not had_ended
            if is_news and not is_gone:
                # Under the lock: whoever sees the end may have the gang forgotten at once.
                self._logs.worker_ended(facts)
        if report is None or not is_news:
            return
        if report.outcome is Outcome.ADMISSION_REJECTED:
            node = report.node or facts.report.node
            self._nodes.exclude(node, "AdmissionRejected", for_s=self._times.excluded_s)
        elif was_well and report.outcome is not None:
            self._nodes.note_failure(report.node, gang.attempt.job_id, report.outcome)

    def _new_gang(self, attempt: AttemptKey, facts: PodFacts | None = None) -> KubernetesGang:
        gang = KubernetesGang(
            attempt=attempt,
            workers=0 if facts is None else facts.workers,
            namespace="" if facts is None else facts.namespace,
        )
        self._gangs[attempt] = gang
        return gang

    # The threads

    def _run(self) -> None:
        try:
            while (attempt := self._queue.take()) is not None:
                try:
                    self._work_off(attempt)
                finally:
                    self._queue.done(attempt)
        except BaseException as error:
            self.failure = error
            raise

    def _work_off(self, attempt: AttemptKey) -> None:
        gang = self._gangs.get(attempt)
        with self._lock:
            asked = self._asked[attempt]
        if gang is not None:
            try:
                while not self._is_closing and self._step(gang):
                    self._failures.pop(attempt, None)
            except Abandoned:
                self._queue.add_after(attempt, self._times.retry_s_min)
                asked = 0
            except ApiFailure as failure:
                self._try_again(attempt, failure)
                asked = 0
            self._publish(gang)
        self._settle(attempt, gang, asked)

    def _try_again(self, attempt: AttemptKey, failure: ApiFailure) -> None:
        self._failures[attempt] = failures = self._failures.get(attempt, 0) + 1
        longest = min(self._times.retry_s_max, self._times.retry_s_min * 2 ** min(failures, 10))
        _log.info("gang_step_failed %s %s", attempt, failure.message)
        self._queue.add_after(attempt, self._rng.uniform(self._times.retry_s_min, longest))

    def _settle(self, attempt: AttemptKey, gang: KubernetesGang | None, asked: int) -> None:
        """So many requests are worked off, and the view has what came of them."""
        with self._lock:
            is_known = gang is not None and self._gangs.get(attempt) is gang
            if gang is not None and is_known and gang.is_in_making():
                self._in_making.add(attempt)
            else:
                self._in_making.discard(attempt)
            self._asked -= Counter({attempt: asked})
            in_making = frozenset(self._in_making)
        if self._views.settle([attempt] * asked, in_making):
            self._on_change()

    def _step(self, gang: KubernetesGang) -> bool:
        """Do the next step; False when there is none. Raises ApiFailure."""
        if (term := self._term()) != gang.term and term is not None:
            # Somebody else may have led meanwhile: what this term wants, it asks for again.
            with gang.lock:
                gang.is_make_wanted = gang.is_release_wanted = False
        if gang.is_new and gang.is_make_wanted:
            if self._logs.is_forgotten(gang.attempt):
                self._drop(gang)
                return False
            gang.is_new = False
        with gang.lock:
            action = gang.next_action(self._is_lasting, self._clock.now())
            is_empty = not (gang.pods or gang.is_make_wanted or gang.made)
        if action is None:
            if is_empty:
                self._let_empty_go(gang)
            return False
        self._do(gang, action)
        self._publish(gang)
        return not isinstance(action, LetGo | Disown)

    def _do(self, gang: KubernetesGang, action: Action) -> None:
        match action:
            case LetGo():
                self._let_go(gang)
            case Disown():
                self._hands.disown(gang, action)
                self._forgotten.add(gang.attempt)
                self._drop(gang)
            case LookUp():
                self._hands.look_up(gang)
                self._on_change()
            case _:
                self._hands.do(gang, action)

    def _let_go(self, gang: KubernetesGang) -> None:
        self._logs.forget(gang.attempt)
        self._forgotten.add(gang.attempt)
        self._calls.remove_anchor(gang.namespace, gang.attempt, gang.anchor)
        self._drop(gang)

    def _let_empty_go(self, gang: KubernetesGang) -> None:
        """Something was asked of a gang that is not there; or of one that is over the anchor stayed
        behind, because the server died when it had ended."""
        if gang.anchor is not None:
            if not self._logs.is_forgotten(gang.attempt):
                return
            self._calls.remove_anchor(gang.namespace, gang.attempt, gang.anchor)
        self._drop(gang)

    def _drop(self, gang: KubernetesGang) -> None:
        with self._lock:
            if self._gangs.get(gang.attempt) is gang:
                del self._gangs[gang.attempt]
            self._failures.pop(gang.attempt, None)
        self._views.drop(gang.attempt)

    def _is_lasting(self, facts: PodFacts) -> bool:
        """Whether a pod has had its problem for too long; else it is looked at again in time."""
        problem = facts.problem
        patience_s = None if problem is None else self._times.patience_s(problem)
        if problem is None or patience_s is None:
            return False
        now = time.monotonic()
        known = self._problems.get(facts.uid)
        if known is None or known[0] is not problem.outcome:
            known = self._problems[facts.uid] = (problem.outcome, now)
        left_s = known[1] + patience_s - now
        if left_s > 0:
            self._queue.add_after(facts.attempt, left_s)
        return left_s <= 0

    def _publish(self, gang: KubernetesGang) -> None:
        with gang.lock:
            if self._gangs.get(gang.attempt) is not gang or gang.attempt in self._forgotten:
                return
            is_news = gang.workers > 0 and self._views.put(gang.attempt, gang.reports())
        if is_news:
            self._on_change()
