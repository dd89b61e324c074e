"""The numbers behind a no: what keeps each node away, and how many workers fit at each level."""

from collections.abc import Mapping

from scheduler.domain.placement import Blocked, NeverFits, TooFewGpus
from scheduler.engine.asking import Ask, RoleAsk
from scheduler.engine.counting import FitCounts
from scheduler.engine.free_gpus import FreeGpus

FITS = "Fits"
"""Reason of nodes that have room for a worker."""

_SHORT = {
    "gpus": "TooFewGpus",
    "cpu": "TooLittleCpu",
    "memory": "TooLittleMemory",
    "workers": "TooManyWorkers",
}


def why_not(ask: Ask, free: FreeGpus, *, could_ever: bool) -> Blocked:
    """Why the gang has no placement: told for the role that finds the least room."""
    pad = free if could_ever else free.empty()
    asks = [(role, _most(ask, role, pad)) for role in ask.roles]
    role, fit_by_level = next(
        (found for found in asks if found[1][-1] < found[0].role.workers), asks[0]
    )
    names = [level.name for level in free.tree.levels]
    fit_max = fit_by_level[-1]
    if fit_max >= role.role.workers:
        # Each role fits alone: what lacks is room for this one beside the others.
        fit_max = role.role.workers - 1
    fit_by_level = [min(fit, fit_max) for fit in fit_by_level]
    reasons = nodes_by_reason(ask, role, free)
    if not could_ever:
        return NeverFits(
            level=names[ask.widest],
            role=role.role.name,
            workers_wanted=role.role.workers,
            workers_fit_max=fit_max,
            nodes=len(free.nodes),
            nodes_by_reason=reasons,
        )
    return TooFewGpus(
        level=names[ask.widest],
        role=role.role.name,
        workers_wanted=role.role.workers,
        workers_fit_max=fit_max,
        workers_fit_by_level=dict(zip(names, fit_by_level, strict=False)),
        nodes=len(free.nodes),
        nodes_by_reason=reasons,
    )


def nodes_by_reason(ask: Ask, role: RoleAsk, free: FreeGpus) -> Mapping[str, int]:
    """How many nodes are kept away by what; the counts add up to the number of nodes."""
    counts = free.counts(role.eligible_any, role.need)
    reasons = _without_exclusions(role, counts, free)
    if not ask.request.excluded:
        return reasons
    changed = dict(reasons)
    for name in ask.request.excluded:
        node = free.tree.index_of.get(name)
        if node is not None and counts.allowed[node]:
            changed[_reason(counts.short_on(node))] -= 1
            changed["Excluded"] = changed.get("Excluded", 0) + 1
    return _sorted(changed)


def _without_exclusions(role: RoleAsk, counts: FitCounts, free: FreeGpus) -> Mapping[str, int]:
    """Many requests share these counts, so what they say is kept until they change."""
    seen, reasons = counts.told
    if seen != counts.seen:
        changed = dict(free.unfit(role.eligible_any))
        for resource, nodes in counts.nodes_short().items():
            changed[_reason(resource)] = changed.get(_reason(resource), 0) + nodes
        changed[FITS] = len(free.nodes) - sum(changed.values())
        reasons = _sorted(changed)
        counts.told = (counts.seen, reasons)
    return reasons


def _reason(resource: str) -> str:
    return _SHORT.get(resource, f"TooFew:{resource}")


def _sorted(reasons: Mapping[str, int]) -> Mapping[str, int]:
    return {reason: nodes for reason, nodes in sorted(reasons.items()) if nodes}


def _most(ask: Ask, role: RoleAsk, free: FreeGpus) -> list[int]:
    """Per level up to the widest: the most workers of a role in one domain, in whole slices."""
    size = role.grouping.size
    most = [0] * (ask.widest + 1)
    for choice in ask.variants(role):
        counts = free.counts(choice.eligible, choice.need, choice.grouping)
        for level in range(ask.widest + 1):
            most[level] = max(most[level], counts.most(level) * size)
    return most
