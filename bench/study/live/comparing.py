"""A real run beside its replays, in figures and job by job.

A job's completion time is waiting + stepping + overhead: without slots, taking steps, and holding
slots without a step. So is what it differs by, and that says why it does.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import correlation, fmean, median

from bench.reporting import Report, percentile
from bench.study.live.record import Foretold, Life, LiveRun, Record, Replay

TOLD_APART = 5
"""So many jobs that differ most are told one by one."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One job in both worlds."""

    live: Life
    simulated: Life

    @property
    def later_s(self) -> float:
        """By how much longer it took in the real run."""
        return self.live.jct_s - self.simulated.jct_s

    @property
    def waiting_s(self) -> float:
        """The part of it that it waited longer."""
        return self.live.wait_s - self.simulated.wait_s

    @property
    def stepping_s(self) -> float:
        """The part of it that its steps took longer, at another tier."""
        return self.live.stepping_s - self.simulated.stepping_s

    @property
    def overhead_s(self) -> float:
        """The part of it that starting and ending took longer."""
        return self.live.overhead_s - self.simulated.overhead_s


def pairs(run: LiveRun, replay: Replay) -> tuple[Pair, ...]:
    """Every job in both, by submission."""
    return tuple(Pair(live, told) for live, told in zip(run.lives, replay.lives, strict=True))


def report(record: Record, into: Report) -> None:
    """All figures. Where there is a reference, it is the replay's, and the value the real run's."""
    run = record.run
    for replay in record.replays:
        _report_replay(run, replay, into)
    case = {"policy": run.policy}
    spans = {"starting": run.starting_s, "ending": run.ending_s, "ends_apart": run.apart_s}
    for name, spans_s in spans.items():
        if not spans_s:
            continue
        into.add(f"{name}_median", median(spans_s), "s", case=case)
        into.add(f"{name}_max", max(spans_s), "s", case=case)
    for is_running, of in ((True, "running"), (False, "waiting")):
        told = [each for each in run.foretold if each.is_running is is_running]
        if told:
            _report_foretold(run, told, into, of=of)


def _report_replay(run: LiveRun, replay: Replay, into: Report) -> None:
    both = pairs(run, replay)
    case = {"policy": run.policy, "told": replay.told}
    for name, live, simulated in _sums(run.lives, replay.lives):
        into.add(name, live, "s", reference=simulated, case=case)
    attempts = [sum(life.attempts for life in lives) for lives in (run.lives, replay.lives)]
    into.add("attempts", attempts[0], "", reference=attempts[1], case=case)
    starts_s = [[life.first_start_s for life in lives] for lives in (run.lives, replay.lives)]
    into.add("start_rank_correlation", rank_correlation(*starts_s), "", case=case)
    same_tier = fmean(pair.live.tiers[0] == pair.simulated.tiers[0] for pair in both)
    same_nodes = fmean(pair.live.is_on_nodes_of(pair.simulated) for pair in both)
    into.add("same_tier", same_tier, "share", case=case)
    into.add("same_nodes", same_nodes, "share", case=case)
    into.add("same_nodes_from_the_start", _alike_first(both), "jobs", case=case)
    into.add("jct_deviation_mean", fmean(abs(pair.later_s) for pair in both), "s", case=case)
    into.add("jct_deviation_max", max(abs(pair.later_s) for pair in both), "s", case=case)
    for part in ("waiting", "stepping", "overhead"):
        later_s = fmean(getattr(pair, f"{part}_s") for pair in both)
        into.add("later_mean", later_s, "s", case={**case, "part": part})


def _sums(live: Sequence[Life], simulated: Sequence[Life]) -> Iterator[tuple[str, float, float]]:
    measures: Mapping[str, Callable[[Sequence[Life]], float]] = {
        "jct_mean": lambda lives: fmean(life.jct_s for life in lives),
        "jct_p95": lambda lives: percentile([life.jct_s for life in lives], 0.95),
        "waiting_mean": lambda lives: fmean(life.wait_s for life in lives),
        "makespan": lambda lives: max(life.end_s for life in lives),
    }
    for name, measure in measures.items():
        yield name, measure(live), measure(simulated)


def _alike_first(both: Sequence[Pair]) -> int:
    """So many jobs start on the same nodes, in the order of the real run, before one does not."""
    in_order = sorted(both, key=lambda pair: (pair.live.first_start_s, pair.live.name))
    for number, pair in enumerate(in_order):
        if not pair.live.is_on_nodes_of(pair.simulated):
            return number
    return len(in_order)


def _report_foretold(run: LiveRun, told: Sequence[Foretold], into: Report, *, of: str) -> None:
    lives = {life.name: life for life in run.lives}
    case = {"policy": run.policy, "of": of}
    late_s = [each.ends_s - lives[each.name].end_s for each in told]
    left_s = fmean(lives[each.name].end_s - each.at_s for each in told)
    into.add("foretold_ends", len(told), "", case=case)
    into.add("foretold_end_off_mean", fmean(map(abs, late_s)), "s", reference=left_s, case=case)
    into.add("foretold_end_late_mean", fmean(late_s), "s", case=case)


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's; None where all of one are alike."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return correlation(_ranks(one), _ranks(other))


def _ranks(values: Sequence[float]) -> list[float]:
    """Equal values share the mean of their ranks."""
    first = {value: place for place, value in reversed(list(enumerate(sorted(values))))}
    return [first[value] + (values.count(value) - 1) / 2 for value in values]


def most_apart(run: LiveRun, replay: Replay) -> list[str]:
    """The jobs that differ most, a line each with the parts of the difference."""
    in_order = sorted(pairs(run, replay), key=lambda pair: (-abs(pair.later_s), pair.live.name))
    return [
        f"{pair.live.name} ({len(pair.live.nodes)} slots): {pair.later_s:+.1f} s"
        f" = waiting {pair.waiting_s:+.1f}, stepping {pair.stepping_s:+.1f},"
        f" overhead {pair.overhead_s:+.1f};"
        f" {' then '.join(pair.live.tiers)}, in the replay {pair.simulated.tiers[0]}"
        for pair in in_order[:TOLD_APART]
    ]
