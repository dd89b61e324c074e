"""A real run beside its replay, in figures and job by job.

A job's completion time is waiting + stepping + overhead: without slots, taking steps, and holding
slots without a step. So is what it differs by, and that says why it does.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import correlation, fmean

from bench.reporting import Report, percentile
from bench.study.live.record import Foretold, Life, LiveRun
from bench.study.live.replaying import Replay, replays

TOLD_APART = 5
"""So many jobs that differ most are told one by one."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One job in both worlds."""

    live: Life
    simulated: Life

    @property
    def later_s(self) -> float:
        """By how much it ended later in the real run."""
        return self.live.jct_s - self.simulated.jct_s

    @property
    def waited_s(self) -> float:
        """The part of it that it waited longer."""
        return self.live.wait_s - self.simulated.wait_s

    @property
    def stepped_s(self) -> float:
        """The part of it that its steps took longer: at another tier."""
        return self.live.stepping_s - self.simulated.stepping_s

    @property
    def overhead_s(self) -> float:
        """The part of it that starting and ending took longer."""
        return self.live.overhead_s - self.simulated.overhead_s


def pairs(run: LiveRun, replay: Replay) -> tuple[Pair, ...]:
    """Every job in both, by submission."""
    return tuple(Pair(live, told) for live, told in zip(run.lives, replay.lives, strict=True))


def report(run: LiveRun, into: Report) -> None:
    """All figures; value: the real run, reference: its replay."""
    for replay in replays(run):
        _report_replay(run, replay, into)
    case = {"policy": run.policy}
    for name, spans_s in (("starting", run.starting_s), ("ending", run.ending_s)):
        into.add(f"{name}_median", percentile(spans_s, 0.5), "s", case=case)
        into.add(f"{name}_max", max(spans_s), "s", case=case)
    for is_running, of in ((True, "running"), (False, "waiting")):
        told = [each for each in run.foretold if each.is_running is is_running]
        if told:
            _report_foretold(run, told, into, of=of)


def _report_replay(run: LiveRun, replay: Replay, into: Report) -> None:
    both = pairs(run, replay)
    case = {"policy": run.policy, "costs": replay.costs}
    for name, figures in (("live", run.lives), ("simulated", replay.lives)):
        assert figures, name
    for name, live, simulated in _sums(run.lives, replay.lives):
        into.add(name, live, "s", reference=simulated, case=case)
    attempts = [sum(life.attempts for life in lives) for lives in (run.lives, replay.lives)]
    into.add("attempts", attempts[0], "", reference=attempts[1], case=case)
    starts = [[life.first_start_s for life in lives] for lives in (run.lives, replay.lives)]
    into.add("start_rank_correlation", rank_correlation(*starts), "", case=case)
    same_tier = fmean(pair.live.tiers[0] == pair.simulated.tiers[0] for pair in both)
    same_nodes = fmean(sorted(pair.live.nodes) == sorted(pair.simulated.nodes) for pair in both)
    into.add("same_tier", same_tier, "share", case=case)
    into.add("same_nodes", same_nodes, "share", case=case)
    into.add("jct_deviation_mean", fmean(abs(pair.later_s) for pair in both), "s", case=case)
    into.add("jct_deviation_max", max(abs(pair.later_s) for pair in both), "s", case=case)
    for part in ("waited", "stepped", "overhead"):
        later_s = fmean(getattr(pair, f"{part}_s") for pair in both)
        into.add(f"later_by_{part}", later_s, "s", case=case)


def _sums(live: Sequence[Life], simulated: Sequence[Life]) -> Iterator[tuple[str, float, float]]:
    yield "jct_mean", *(fmean(life.jct_s for life in lives) for lives in (live, simulated))
    yield "jct_p95", *(percentile([x.jct_s for x in lives], 0.95) for lives in (live, simulated))
    yield "waiting_mean", *(fmean(life.wait_s for life in lives) for lives in (live, simulated))
    yield "makespan", *(max(life.end_s for life in lives) for lives in (live, simulated))


def _report_foretold(run: LiveRun, told: Sequence[Foretold], into: Report, *, of: str) -> None:
    lives = {life.name: life for life in run.lives}
    case = {"policy": run.policy, "of": of}
    off_s = [each.ends_s - lives[each.name].end_s for each in told]
    left_s = fmean(lives[each.name].end_s - each.at_s for each in told)
    into.add("foretold_ends", len(told), "", case=case)
    into.add("foretold_end_off_mean", fmean(map(abs, off_s)), "s", reference=left_s, case=case)
    into.add("foretold_end_late_mean", fmean(off_s), "s", case=case)


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float | None:
    """Spearman's; None where all of one are alike."""
    if len(set(one)) < 2 or len(set(other)) < 2:
        return None
    return correlation(_ranks(one), _ranks(other))


def _ranks(values: Sequence[float]) -> list[float]:
    """Equal values share the mean of their ranks."""
    first = {value: place for place, value in reversed(list(enumerate(sorted(values))))}
    counts = {value: values.count(value) for value in first}
    return [first[value] + (counts[value] - 1) / 2 for value in values]


def most_apart(run: LiveRun, replay: Replay) -> list[Pair]:
    """The jobs that differ most."""
    return sorted(pairs(run, replay), key=lambda pair: (-abs(pair.later_s), pair.live.name))[
        :TOLD_APART
    ]
