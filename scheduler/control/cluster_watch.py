"""The loop's own copy of the cluster: nodes, reports by attempt, and since when something is so."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from scheduler.domain.cordon import Cordon, Leaving, leaving, with_cordons
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.ids import NodeName, Rank
from scheduler.domain.instants import Duration, Instant, after
from scheduler.domain.left_alone import next_end, with_exclusions
from scheduler.domain.reservation import AttemptKey
from scheduler.domain.topology import Level, Node, TopologyTree, topology_tree
from scheduler.ports.cluster import Cluster, ClusterView, WorkerReport

NO_NODES: frozenset[NodeName] = frozenset()

NO_REPORTS: Mapping[Rank, WorkerReport] = MappingProxyType({})


class ClusterWatch:
    """What the views of the cluster add up to."""

    def __init__(self) -> None:
        self.generation = 0
        """Counts the changes of nodes, levels and reachability."""
        self.arrived: set[AttemptKey] = set()
        """Attempts that looks have brought and that were not listed before; whoever looks at them
        empties it."""
        self.looks = 0
        """How often it was looked at: what was asked for after a look shows in a later one."""
        self.forget()

    def forget(self) -> None:
        """Know nothing: the next look lists everything."""
        self.generation += 1
        self.levels: tuple[Level, ...] = ()
        self.nodes: tuple[Node, ...] = ()
        """With the cordons of admins, and what is stored of their exclusions."""
        self.told_nodes: tuple[Node, ...] = ()
        """As the cluster told them."""
        self._cordons: Mapping[NodeName, Cordon] = {}
        self.exclusions: Mapping[NodeName, Exclusion] = {}
        """As stored."""
        self.tells_exclusions = False
        """Whether the cluster tells of any."""
        self._next_end: Instant | None = None
        """When a node is not left alone any more."""
        self.leaving: Mapping[NodeName, Leaving] = {}
        """Nodes that their gangs are to leave, and why."""
        self.numbered_nodes: tuple[Node, ...] = ()
        """Those on which we say who gets which GPU."""
        self.tree: TopologyTree = topology_tree((), ())
        self.reports: dict[AttemptKey, Mapping[Rank, WorkerReport]] = {}
        self.is_reachable = False
        """Whether the cluster answered the last look."""
        self.reachable_since: Instant | None = None
        """None while the cluster does not answer (and before the first look)."""
        self.unreachable_since: Instant | None = None
        self._complete: set[AttemptKey] = set()
        self._whole_look = 0
        """The last whole look, if it listed every worker there was; else 0."""
        self._unsettled: frozenset[AttemptKey] = frozenset()
        """Attempts of which that look did not say whether they have workers."""
        self._is_whole_awaited = False
        """Somebody waits for a look that lists every worker."""
        self._unready_since: dict[NodeName, Instant] = {}
        self._sequence: int | None = None
        self._news: set[AttemptKey] = set()
        self._is_all_news = True

    def look(self, cluster: Cluster, now: Instant) -> bool:
        """Take the present view; whether anything but the time has changed."""
        view = cluster.observe(self._sequence)
        self.looks += 1
        is_news = self._note_reachability(view, now)
        if not view.is_reachable:
            return is_news
        is_news = self._take_nodes(view, now) or is_news
        is_news = self._end_exclusions(now) or is_news
        is_news = self._take_reports(view) or is_news
        self._sequence = view.sequence
        return is_news

    def set_exclusions(self, exclusions: Mapping[NodeName, Exclusion], now: Instant) -> None:
        """What has just been stored of them."""
        self.set_said(self._cordons, exclusions, now)

    def set_said(
        self,
        cordons: Mapping[NodeName, Cordon],
        exclusions: Mapping[NodeName, Exclusion],
        now: Instant,
    ) -> bool:
        """What is stored about nodes from now on; whether that is news."""
        if cordons == self._cordons and exclusions == self.exclusions:
            return False
        self._cordons, self.exclusions = cordons, exclusions
        self._with_what_is_said(now)
        self.generation += 1
        return True

    def next_end(self) -> Instant | None:
        """When the next node is not left alone any more."""
        return self._next_end

    def take_news(self) -> set[AttemptKey] | None:
        """Attempts of which a look has brought something since the last call; None: all there are,
        and those that are not listed any more."""
        news = None if self._is_all_news else self._news
        self._news, self._is_all_news = set(), False
        return news

    def expect_anything(self) -> None:
        """What was told may not have been acted upon: take it for news again."""
        self._is_all_news = True

    def look_whole(self) -> None:
        """Have the next look list every worker, and take it for news."""
        self._sequence = None
        self._is_whole_awaited = True

    def absent_are_down(self, key: AttemptKey, *, since_look: int = 0) -> bool:
        """Whether ranks without a report are known not to exist, by a look after that one."""
        if key in self.reports:
            return key in self._complete and self.looks > since_look
        return self._whole_look > since_look and key not in self._unsettled

    def reports_of(self, key: AttemptKey) -> Mapping[Rank, WorkerReport]:
        """Reports of one attempt by rank."""
        return self.reports.get(key, NO_REPORTS)

    def forget_attempt(self, key: AttemptKey) -> None:
        """The attempt is over."""
        self.reports.pop(key, None)
        self._complete.discard(key)

    def lost_nodes(self, now: Instant, lost_after: Duration) -> frozenset[NodeName]:
        """Nodes that have been unready or missing for so long."""
        if not self._unready_since:
            return NO_NODES
        return frozenset(
            name for name, since in self._unready_since.items() if after(since, lost_after) <= now
        )

    def next_loss(self, now: Instant, lost_after: Duration) -> Instant | None:
        """When the next node counts as lost if it stays unready."""
        if not self._unready_since:
            return None
        instants = (after(since, lost_after) for since in self._unready_since.values())
        return min((at for at in instants if at > now), default=None)

    def _note_reachability(self, view: ClusterView, now: Instant) -> bool:
        if view.is_reachable:
            if self.reachable_since is not None:
                return False
            is_news = True
            self.reachable_since, self.unreachable_since = now, None
        else:
            is_news = self.unreachable_since is None
            self.unreachable_since = now if is_news else self.unreachable_since
            self.reachable_since = None
        self.is_reachable = view.is_reachable
        self.generation += is_news
        self._is_all_news |= is_news
        return is_news

    def _take_nodes(self, view: ClusterView, now: Instant) -> bool:
        if view.nodes is self.told_nodes and view.levels == self.levels:
            return False
        is_news = view.nodes != self.told_nodes or view.levels != self.levels
        unready = {node.name for node in view.nodes if not node.is_ready}
        known = {node.name for node in view.nodes}
        # A node that was here before and is not listed any more is as lost as an unready one.
        unready |= {node.name for node in self.told_nodes if node.name not in known}
        unready |= {name for name in self._unready_since if name not in known}
        self._unready_since = {name: self._unready_since.get(name, now) for name in sorted(unready)}
        self.levels, self.told_nodes = view.levels, view.nodes
        self.tells_exclusions = any(node.exclusion is not None for node in view.nodes)
        self._with_what_is_said(now)
        if not self.tree.matches(view.levels, view.nodes):
            self.tree = topology_tree(view.levels, view.nodes)
        self.generation += is_news
        return is_news

    def _end_exclusions(self, now: Instant) -> bool:
        if self._next_end is None or now < self._next_end:
            return False
        self._with_what_is_said(now)
        self.generation += 1
        return True

    def _with_what_is_said(self, now: Instant) -> None:
        cordons = self._cordons
        self.nodes = with_exclusions(with_cordons(self.told_nodes, cordons), self.exclusions, now)
        self._next_end = next_end(self.exclusions, now)
        self.numbered_nodes = tuple(node for node in self.nodes if node.gpu_indices is not None)
        reasons = ((node.name, leaving(node, cordons.get(node.name))) for node in self.nodes)
        self.leaving = {name: reason for name, reason in reasons if reason is not None}

    def _take_reports(self, view: ClusterView) -> bool:
        is_whole = self._sequence is None
        if not (is_whole or view.workers or view.attempts_complete):
            return False
        fresh = _by_attempt(view.workers)
        changed = set(view.attempts_complete - self._complete) if view.attempts_complete else set()
        for key, reports in fresh.items():
            known = self.reports.get(key)
            if known is None:
                self.arrived.add(key)
            if known != reports:
                changed.add(key)
        self._news |= changed
        is_news = bool(changed)
        if is_whole:
            is_news = is_news or len(fresh) != len(self.reports) or self._whole_look == 0
            is_news = is_news or self._is_whole_awaited
            self._is_whole_awaited = False
            self.reports = dict(fresh)
            self._complete = set(view.attempts_complete)
            self._is_all_news = True
            # After a list with gaps nothing follows from what an earlier one did not have.
            self._whole_look = self.looks if view.is_complete else 0
            self._unsettled = view.attempts_unsettled
        else:
            self.reports.update(fresh)
            if view.attempts_complete:
                self._complete |= view.attempts_complete
        return is_news


def _by_attempt(reports: Iterable[WorkerReport]) -> dict[AttemptKey, dict[Rank, WorkerReport]]:
    found: dict[AttemptKey, dict[Rank, WorkerReport]] = {}
    for report in reports:
        key = report.attempt
        if key in found:
            found[key][report.rank] = report
        else:
            found[key] = {report.rank: report}
    return found
