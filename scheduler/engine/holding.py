"""Elders go first: jobs that never started for long; and large ones hold a topology domain.

    held domain    no other gang starts there, but for those expected to end before it is free
    which one      the domain of the gang's closest tier with the least GPU time left to run

A held domain stays with its gang until it starts, as long as the domain could hold it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from scheduler.domain.gang import GangRequest, NodeFilter
from scheduler.domain.ids import NodeName
from scheduler.domain.instants import Duration, after
from scheduler.domain.patience import HeldDomain, WaitEpisode
from scheduler.domain.placement import Blocked, HeldForLargeGang, Placement, TooFewGpus
from scheduler.domain.plan import Wait
from scheduler.domain.topology import TopologyDomain
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang
from scheduler.engine.scratch import Scratch
from scheduler.engine.waiting import Waiting
from scheduler.policies.interface import Elders

ELDERS_MAX = 100
"""So many jobs are looked at before the walk; the others come in the walk as always."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A held domain."""

    holder: Waiting
    domain: TopologyDomain
    free_in: Duration
    """When everything in it is expected to have ended."""
    refused: set[GangRequest] = field(default_factory=set)
    """What finds no room in it, nor with it: while the line is walked nothing is freed."""


@dataclass(slots=True)
class Holds:
    """The held domains of one cycle; their nodes are shut while the line is walked."""

    scratch: Scratch
    elders: Elders
    held: list[Hold] = field(default_factory=list)
    _left: dict[int, list[int]] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """Of the whole cluster."""
        return sum(node.gpus for node in self.scratch.standing.free.nodes)

    def instead(self, waiting: Waiting) -> Placement | Blocked | None:
        """For a job that finds no room outside held domains: a place inside that it will have left
        in time, or that one is held; None if it fits in none either."""
        if not self.held:
            return None
        free = self.scratch.standing.free
        lasts = self.elders.lasts(waiting.job)
        first: Hold | None = None
        for hold in self.held:
            if waiting.request in hold.refused:
                continue
            free.open(hold.domain.nodes)
            answer = place_gang(waiting.request, free, self.scratch.rules)
            free.shut(hold.domain.nodes)
            if not isinstance(answer, Placement):
                hold.refused.add(waiting.request)
            else:
                if lasts <= hold.free_in:
                    return answer
                first = first or hold
        return None if first is None else self._reason(first)

    def add(self, hold: Hold) -> None:
        """From now on nobody fits in its domain."""
        self.held.append(hold)
        self.scratch.standing.free.shut(hold.domain.nodes)
        # What is refused now would not be without holds.
        self.scratch.has_changed = True
        self.scratch.parked.clear()
        self.scratch.offers.clear()

    def lift(self, hold: Hold) -> None:
        """Its domain is anybody's again."""
        self.held.remove(hold)
        self.scratch.standing.free.open(hold.domain.nodes)

    def open(self) -> None:
        """The cycle is over."""
        for hold in self.held:
            self.scratch.standing.free.open(hold.domain.nodes)
        self.held.clear()

    def left(self, domain: TopologyDomain) -> int:
        """GPU time that the gangs in a domain are expected to run on."""
        tree = self.scratch.standing.free.tree
        left = self._left.get(domain.level)
        if left is None:
            left = self._left[domain.level] = [0] * len(tree.domains[domain.level])
            home = tree.domain_of[domain.level]
            for gang in self.scratch.snapshot.holding:
                lasts = self.elders.lasts_still(gang)
                for each in gang.reservations:
                    if each.node in tree.index_of:
                        left[home[tree.index_of[each.node]]] += each.gpus * lasts
        return left[tree.domain_of[domain.level][domain.nodes.start]]

    def _reason(self, hold: Hold) -> Blocked:
        tree = self.scratch.standing.free.tree
        return HeldForLargeGang(
            level=tree.levels[hold.domain.level].name,
            domain=hold.domain.name or "cluster",
            holder=hold.holder.job.name,
        )


def elders_of(scratch: Scratch, elders: Elders) -> Iterator[Waiting]:
    """Jobs that go first, the one submitted first first; and when the next one does."""
    standing, now = scratch.standing, scratch.snapshot.now
    for _, job_id in standing.unstarted[:ELDERS_MAX]:
        waiting = standing.line[job_id]
        at = elders.goes_first_at(waiting.job)
        if at is None:
            return
        if at > now:
            scratch.wake_at(at)
            return
        if waiting.key is not None and job_id not in scratch.settled:
            yield waiting


def hold(waiting: Waiting, answer: Blocked, holds: Holds) -> None:
    """Hold a domain for an elder that lacks room, if there is still something to hold."""
    if not isinstance(answer, TooFewGpus) or not holds.elders.may_hold(waiting.job):
        return
    scratch = holds.scratch
    free = scratch.standing.free
    held = sum(_gpus(each.domain, free) for each in holds.held)
    most = holds.elders.hold_share_max * holds.gpus
    if holds.held and held >= most:
        return
    domain = _domain_for(waiting, holds)
    if domain is None or (holds.held and held + _gpus(domain, free) > most):
        return
    held_domain = _noted(waiting, domain, holds)
    now = scratch.snapshot.now
    holds.add(Hold(waiting, domain, Duration(max(0, held_domain.free_at - now))))


def _noted(waiting: Waiting, domain: TopologyDomain, holds: Holds) -> HeldDomain:
    """The domain stays with the job, and with it when it was expected to be free."""
    scratch = holds.scratch
    job, now = waiting.job, scratch.snapshot.now
    episode = job.waiting or WaitEpisode(began_at=now)
    level = scratch.standing.free.tree.levels[domain.level].name
    if episode.held is not None and (episode.held.level, episode.held.path) == (level, domain.path):
        return episode.held
    held = HeldDomain(
        level=level, path=domain.path, since=now, free_at=after(now, _free_in(domain, holds))
    )
    scratch.waits[job.id] = Wait(
        job_id=job.id, revision=job.revision, episode=replace(episode.standing(now), held=held)
    )
    return held


def _domain_for(waiting: Waiting, holds: Holds) -> TopologyDomain | None:
    """The one it holds already, or the one that will be free first."""
    could_hold = _could_hold(waiting.request, holds.scratch.standing.free)
    taken = {index for each in holds.held for index in each.domain.nodes}
    domains = [domain for domain in could_hold if taken.isdisjoint(domain.nodes)]
    held = waiting.job.waiting and waiting.job.waiting.held
    if held:
        levels = holds.scratch.standing.free.tree.levels
        for domain in domains:
            if (levels[domain.level].name, domain.path) == (held.level, held.path):
                return domain
    return min(domains, key=lambda each: (holds.left(each), each.path), default=None)


def _could_hold(request: GangRequest, free: FreeGpus) -> tuple[TopologyDomain, ...]:
    """The domains of the gang's closest tier that have room for it once everybody has left them.

    It hangs on the nodes alone, which a pad keeps for life: worked out once for each request.
    """
    ready = free.ready(request)
    if ready.could_hold is None:
        bare = free.bare()
        best = place_gang(request, bare)
        domains = free.tree.domains[best.tier] if isinstance(best, Placement) else ()
        ready.could_hold = tuple(
            domain for domain in domains if domain.is_known and _holds(domain, request, bare)
        )
    return ready.could_hold


def _holds(domain: TopologyDomain, request: GangRequest, bare: FreeGpus) -> bool:
    """Whether the domain has room for the gang once everybody has left it."""
    inside = frozenset(bare.tree.nodes[index] for index in domain.nodes)
    return isinstance(place_gang(_within(request, inside), bare), Placement)


def _within(request: GangRequest, inside: frozenset[NodeName]) -> GangRequest:
    only = NodeFilter(reason="OutsideDomain", allowed=inside)
    roles = tuple(replace(role, filters=(*role.filters, only)) for role in request.roles)
    return replace(request, roles=roles)


def _free_in(domain: TopologyDomain, holds: Holds) -> Duration:
    """When everybody in the domain is expected to have left it."""
    names = {holds.scratch.standing.free.tree.nodes[index] for index in domain.nodes}
    inside = (
        holds.elders.lasts_still(gang)
        for gang in holds.scratch.snapshot.holding
        if any(held.gpus and held.node in names for held in gang.reservations)
    )
    return max(inside, default=Duration(0))


def _gpus(domain: TopologyDomain, free: FreeGpus) -> int:
    return sum(free.nodes[index].gpus for index in domain.nodes)
