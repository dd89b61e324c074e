"""Policies by name."""

from collections.abc import Mapping

from scheduler.domain.errors import NotFoundError
from scheduler.policies import (
    consolidated,
    dally,
    fifo,
    gandiva,
    gittins,
    las,
    shortest,
    themis,
    tiresias,
)
from scheduler.policies.interface import PolicyMaker

POLICIES: Mapping[str, PolicyMaker] = {
    **{name: dally.dally_named(name) for name in dally.VARIANTS},
    fifo.STRICT: fifo.Fifo,
    fifo.BACKFILL: fifo.Fifo,
    "nowait": fifo.Fifo,
    "consolidated": consolidated.Consolidated,
    "fifo-consolidated": consolidated.StrictlyConsolidated,
    "las-consolidated": consolidated.LasConsolidated,
    "las-nowait-upgrade": gittins.LasUpgrade,
    "gittins-nowait": gittins.ByGittins,
    "gittins-consolidated": consolidated.GittinsConsolidated,
    "las": las.ByService,
    "las-exact": las.LasExact,
    "tiresias": tiresias.Tiresias,
    "tiresias-gittins": tiresias.TiresiasGittins,
    "gandiva": gandiva.Gandiva,
    "themis": themis.Themis,
    "sjf": shortest.FewestGpus,
    "srtf": shortest.LeastTime,
    "srsf": shortest.LeastService,
}

STEADY = frozenset(
    {fifo.STRICT, fifo.BACKFILL, "nowait", "consolidated", "fifo-consolidated"},
)
"""Those that leave running gangs alone, and to which nothing changes by the passing of time: while
nobody waits they have nothing to decide."""

MOVING = frozenset(dally.VARIANTS)
"""Those that, while nobody waits, move gangs that would gain by lying closer, and do nothing else,
whatever the hour."""


def policy_named(name: str) -> PolicyMaker:
    """The policy of that name. Raises NotFoundError."""
    maker = POLICIES.get(name)
    if maker is None:
        raise NotFoundError("policy", name)
    return maker
