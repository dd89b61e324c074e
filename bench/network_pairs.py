"""Pairs of placements of one job whose step times were measured."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.network_steps import (
    ComputeTimes,
    StepRow,
    TimesKey,
    base_name,
    gpu_key,
    placement,
    source_of,
)
from bench.network_table import Cells, UnusableRowError, Unused, read_csv, sorted_out
from scheduler.network.model_timing import gpu_family
from scheduler.network.priors import prior_for

GAP_MIN = 0.10
"""Pairs closer than this are not ranked."""

HOSTS = 4
"""Hosts of the testbed whose rows tell ring orders apart."""

_MEGABYTES = re.compile(r"all_reduce (\d+)MB")
_COUNTS = re.compile(r"\d{1,6}(\+\d{1,6})*")
_NODES = re.compile(r"([1-9]\d{0,5}) nodes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """One of the two placements."""

    ranks_by_node: tuple[int, ...]
    variant: str = ""
    """What differs besides the counts: `nvlink`, `pcie`, `alternating` ring order; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The same job at two placements."""

    job: StepRow
    """The job; its own placement and step time are those of `one`."""
    one: Site
    other: Site
    slowdown: float
    """Measured step time of the other divided by that of the one."""

    @property
    def group(self) -> tuple[str, str, str, Site, Site]:
        """Pairs that repeat each other with other batches."""
        return self.job.model, self.job.gpu, self.job.network, self.one, self.other

    @property
    def has_gap(self) -> bool:
        """Whether the measured times are far enough apart to be ranked."""
        return max(self.slowdown, 1 / self.slowdown) > 1 + GAP_MIN


COLUMNS = ("model", "gpus", "gpu_type", "placement_A", "placement_B", "slowdown_B_over_A")
"""What nothing can stand in for."""


def placement_pairs(path: Path, times: ComputeTimes) -> tuple[list[Pair], list[Unused]]:
    """The trusted pairs, and the rest with the reason."""
    return sorted_out(
        read_csv(path, COLUMNS),
        lambda cells: f"{cells['model']} on {cells['gpu_type']}",
        lambda cells: _pair(cells, times),
    )


def agreeing(pairs: Iterable[Pair]) -> list[Pair]:
    """Pairs with a gap whose repeats with other batches all point the same way."""
    return ranking_candidates(pairs)[0]


def ranking_candidates(pairs: Iterable[Pair]) -> tuple[list[Pair], list[Unused]]:
    """The pairs that can be ranked, and the others with the reason."""
    groups: dict[object, list[Pair]] = defaultdict(list)
    for pair in pairs:
        groups[pair.group].append(pair)
    used: list[Pair] = []
    unused: list[Unused] = []
    for group in groups.values():
        agree = len({pair.slowdown > 1 for pair in group}) == 1
        for pair in group:
            if agree and pair.has_gap:
                used.append(pair)
                continue
            reason = (
                "repeats with other batches disagree"
                if pair.has_gap
                else f"measured gap of {GAP_MIN:.0%} or less"
            )
            unused.append(Unused(system=f"{pair.job.model} on {pair.job.gpu}", reason=reason))
    return used, unused


def _pair(raw: Cells, times: ComputeTimes) -> Pair:
    # Where the file does not say how far to trust a row, it is trusted.
    if not (raw["confidence"] or "ok").startswith("ok"):
        raise UnusableRowError(raw["confidence"])
    one, other = _sites(raw)
    slowdown = raw.positive("slowdown_B_over_A")
    if slowdown is None:
        raise UnusableRowError("slowdown_B_over_A is not stated")
    return Pair(job=_job(raw, one, times), one=one, other=other, slowdown=slowdown)


def _sites(raw: Cells) -> tuple[Site, Site]:
    sites = _sites_named(raw)
    if sites is None or sum(sites[0].ranks_by_node) != sum(sites[1].ranks_by_node):
        raise UnusableRowError("not two placements of one job")
    return sites


def _sites_named(raw: Cells) -> tuple[Site, Site] | None:
    gpus = raw.count("gpus")
    if gpus is None:
        return None
    one, other = raw["placement_A"], raw["placement_B"]
    together = Site(ranks_by_node=(gpus,))
    sites = None
    if _COUNTS.fullmatch(one) and _COUNTS.fullmatch(other):
        sites = Site(ranks_by_node=placement(one)), Site(ranks_by_node=placement(other))
    elif other.startswith("unconsolidated"):
        sites = together, Site(ranks_by_node=(1,) * gpus)
    elif one == "1 node" and (spread := _NODES.fullmatch(other)):
        sites = together, Site(ranks_by_node=_even(gpus, int(spread.group(1))))
    elif "NVLink" in one and "PCIe" in other:
        sites = replace(together, variant="nvlink"), replace(together, variant="pcie")
    elif "rack-aware" in one and "unaware" in other and gpus >= HOSTS:
        hosts = _even(gpus, HOSTS)
        sites = Site(ranks_by_node=hosts), Site(ranks_by_node=hosts, variant="alternating")
    if sites is None or not all(all(site.ranks_by_node) for site in sites):
        return None
    return sites


def _even(gpus: int, nodes: int) -> tuple[int, ...]:
    share, rest = divmod(gpus, nodes)
    return (share + 1,) * rest + (share,) * (nodes - rest)


def _job(raw: Cells, one: Site, times: ComputeTimes) -> StepRow:
    """The job in numbers; where nothing is known of its model, a prior of its size class."""
    source = source_of(raw["source"])
    gpu = gpu_family(raw["gpu_type"])
    gpus = sum(one.ranks_by_node)
    prior = prior_for(gpus, gpu)
    batch = float(raw["local_batch"]) if raw["local_batch"].isdecimal() else 0.0
    step_s = raw.number("value_A") if raw["metric"] == "step_s" else None
    alone = _MEGABYTES.search(raw["model"])
    compute_s = None
    if alone:
        gradient_bytes, compute_s = float(alone.group(1)) * (1 << 20), 0.0
    else:
        parameters = times.parameters(raw["model"], source)
        gradient_bytes = parameters * 4 if parameters else prior.gradient_bytes
        compute_s = _compute_s(raw, batch, source, times)
    return StepRow(
        model=base_name(raw["model"]),
        gpu=gpu,
        network=raw["network"],
        inside="PCIe" if "PCIe" in raw["gpu_type"] else "",
        ranks_by_node=one.ranks_by_node,
        batch=batch,
        gradient_bytes=gradient_bytes,
        compute_s=prior.compute_s if compute_s is None else compute_s,
        has_own_time=bool(compute_s),
        accumulation_steps=1,
        step_s=step_s or 0.0,
        source=source,
    )


def _compute_s(raw: Cells, batch: float, source: str, times: ComputeTimes) -> float | None:
    stated = re.search(r"single-GPU (\d+(?:\.\d+)?) it/s", raw["notes"])
    if stated and float(stated.group(1)):
        return 1 / float(stated.group(1))
    key = TimesKey(model=base_name(raw["model"]), gpu=gpu_key(raw["gpu_type"]), source=source)
    return times.compute_s(key, batch) if batch else None


def measured_steps(pairs: Sequence[Pair]) -> list[StepRow]:
    """The step times behind pairs, each placement once: more batches than the profiles have."""
    found: dict[tuple[str, str, tuple[int, ...], float], StepRow] = {}
    for pair in pairs:
        if not pair.job.step_s or not pair.job.has_own_time:
            continue
        for site, step_s in (
            (pair.one, pair.job.step_s),
            (pair.other, pair.job.step_s * pair.slowdown),
        ):
            row = StepRow(
                model=pair.job.model,
                gpu=pair.job.gpu,
                network=pair.job.network,
                inside=pair.job.inside,
                ranks_by_node=site.ranks_by_node,
                batch=pair.job.batch,
                gradient_bytes=pair.job.gradient_bytes,
                compute_s=pair.job.compute_s,
                accumulation_steps=1,
                step_s=step_s,
                source=pair.job.source,
            )
            found.setdefault((row.model, row.gpu, row.ranks_by_node, row.batch), row)
    return list(found.values())
