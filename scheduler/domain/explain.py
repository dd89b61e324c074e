"""Reasons in words: the only place that makes sentences. API, CLI and events use it."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import assert_never

from scheduler.domain.cordon import Cordon, Leaving
from scheduler.domain.exclusion import Exclusion
from scheduler.domain.exit_codes import SIGNAL_BASE, is_signal
from scheduler.domain.ids import JobName, NodeName, Rank
from scheduler.domain.instants import DAY, HOUR, MINUTE, SECOND, Duration, Instant
from scheduler.domain.job import JobPhase, Outcome, StopCause, WorkerEnd
from scheduler.domain.patience import WaitEpisode
from scheduler.domain.placement import (
    BackingOff,
    BehindHead,
    Blocked,
    ClusterUnreachable,
    HeldForLargeGang,
    LevelMissing,
    NeverFits,
    Placement,
    PoolMissing,
    PromisedGpus,
    StoreOutdated,
    TooFewGpus,
    WaitingForCloserTier,
)
from scheduler.domain.stray import AdoptionProblem, Stray, StrayReason
from scheduler.domain.timers import TimerReason, TimerRow, TimerSource
from scheduler.domain.topology import CLUSTER_LEVEL
from scheduler.domain.waits import WaitObservation


class Verdict(StrEnum):
    """What kind of thing a job waits for, in one word."""

    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    WAITING_FOR_PRIORITY = "WaitingForPriority"
    WAITING_FOR_CLOSER_TIER = "WaitingForCloserTier"
    BACKOFF = "Backoff"
    NEVER_FITS = "NeverFits"
    CLUSTER_UNREACHABLE = "ClusterUnreachable"
    SAFE_MODE = "SafeMode"


def verdict(blocked: Blocked) -> Verdict:  # noqa: PLR0911 - one arm a kind
    """What kind of wait it is."""
    match blocked:
        case TooFewGpus() | HeldForLargeGang() | PromisedGpus():
            return Verdict.WAITING_FOR_CAPACITY
        case BehindHead():
            return Verdict.WAITING_FOR_PRIORITY
        case WaitingForCloserTier():
            return Verdict.WAITING_FOR_CLOSER_TIER
        case BackingOff():
            return Verdict.BACKOFF
        case NeverFits() | PoolMissing() | LevelMissing():
            return Verdict.NEVER_FITS
        case ClusterUnreachable():
            return Verdict.CLUSTER_UNREACHABLE
        case StoreOutdated():
            return Verdict.SAFE_MODE
        case _:
            assert_never(blocked)


def explain(blocked: Blocked) -> str:  # noqa: C901, PLR0911 - one arm a reason
    """Why a job waits: one sentence with the numbers."""
    match blocked:
        case TooFewGpus():
            return (
                f"waiting for GPUs: room for {blocked.workers_fit_max} of "
                f"{_wanted(blocked)} within {_one(blocked.level)}"
                f"{_other_levels(blocked)}; {_nodes(blocked)}"
            )
        case NeverFits():
            return (
                f"can never start: {_one(blocked.level)}, were it empty, would not hold "
                f"{_wanted(blocked)}; {_nodes(blocked)}"
            )
        case BackingOff():
            return (
                f"waiting until {clock_time(blocked.until)} after "
                f"{counted(blocked.restarts, 'restart')}, so that a failing job does not spin"
                f"{f'; last time: {blocked.said}' if blocked.said else ''}"
            )
        case BehindHead():
            return (
                f"behind {counted(blocked.jobs_ahead, 'job')} of its queue, the first of which "
                "waits for GPUs; the queue's policy starts nothing past it"
            )
        case WaitingForCloserTier():
            return _closer_tier(blocked)
        case HeldForLargeGang():
            return (
                f"{blocked.level} {blocked.domain} would fit and is kept free for "
                f"{blocked.holder}, a large gang that has waited long"
            )
        case PromisedGpus():
            return (
                f"{counted(blocked.gpus, 'GPU')} on {counted(blocked.nodes, 'node')} of one "
                f"{blocked.level} are promised to it: it starts when the gangs stopped for it leave"
            )
        case PoolMissing():
            return f"no node belongs to pool {blocked.pool}"
        case LevelMissing():
            return (
                f"this cluster has no level {blocked.level}; its levels are "
                f"{', '.join(blocked.levels)}"
            )
        case ClusterUnreachable():
            return (
                f"the cluster has not answered since {clock_time(blocked.since)}; "
                "what runs goes on, nothing starts until it answers"
            )
        case StoreOutdated():
            return explain_safe_mode(blocked)
        case _:
            assert_never(blocked)


def ways_out(blocked: Blocked) -> tuple[str, ...]:  # noqa: C901, PLR0911 - one arm a reason
    """What would help, each one enough by itself; what only time brings is said last."""
    match blocked:
        case TooFewGpus():
            return _ways_to_capacity(blocked)
        case NeverFits():
            return (
                "ask for fewer workers, fewer GPUs per worker or a wider topology.required",
                f"add nodes ({counted(blocked.nodes, 'node')} known so far)",
            )
        case BackingOff():
            return ("wait, or cancel and submit it again once its error is mended (dally logs)",)
        case BehindHead():
            return ("wait, give the job a higher priority, or use a queue whose policy backfills",)
        case WaitingForCloserTier():
            return (
                f"set topology.preferred: {blocked.offered_level} to start there now",
                f"wait: {_takes_then(blocked)}",
            )
        case HeldForLargeGang():
            return (f"wait until {blocked.holder} has started, or give this job a higher priority",)
        case PromisedGpus():
            return ("wait: the gangs that are being stopped leave when their grace ends",)
        case PoolMissing():
            return ("name a pool that has nodes (dally get nodes -o wide lists the pools)",)
        case LevelMissing():
            return (f"name one of its levels: {', '.join(blocked.levels)}",)
        case ClusterUnreachable():
            return ("mend the connection to the cluster (dallyd check says what it tries)",)
        case StoreOutdated():
            return (
                "an admin says what is to become of them: dally get strays, then dally admin adopt "
                "or dally admin release",
            )
        case _:
            assert_never(blocked)


_FULL = ("Fits", "TooFewGpus", "TooLittleCpu", "TooLittleMemory", "TooManyWorkers")
"""Reasons of nodes that running jobs give back."""


def _ways_to_capacity(blocked: TooFewGpus) -> tuple[str, ...]:
    ways: list[str] = []
    if blocked.workers_fit_max:
        fewer = counted(blocked.workers_fit_max, "worker")
        ways.append(f"lower the gang to {fewer} to start now")
    closed = sum(blocked.nodes_by_reason.get(reason, 0) for reason in ("Cordoned", "LeftAlone"))
    if closed:
        ways.append(f"an admin opens {counted(closed, 'node')} again: dally uncordon NODE")
    reasons = blocked.nodes_by_reason
    if not reasons or any(reasons.get(reason) for reason in _FULL):
        ways.append("wait: it starts when running jobs end (dally get nodes shows them)")
    else:
        ways.append("wait until nodes take workers again (dally get nodes shows them)")
    return tuple(ways)


_STRAYS: dict[StrayReason, str] = {
    StrayReason.NEWER_TERM: "made by a server that this database has not heard of",
    StrayReason.NEWER_JOB: "of a job submitted after every job of this database",
    StrayReason.NEWER_ATTEMPT: "of a job that this database has not seen start again",
    StrayReason.UNKNOWN: "of a job that this database does not know",
}

_PROBLEMS: dict[AdoptionProblem, str] = {
    AdoptionProblem.NOT_DESCRIBED: "the cluster does not say what it was made of (yet)",
    AdoptionProblem.NAME_TAKEN: "another job of the project has its name; delete that one first, "
    "or release this one",
    AdoptionProblem.JOB_IS_OVER: "its job has ended by this database; only dally admin release "
    "is left",
    AdoptionProblem.ANOTHER_RUNS: "another attempt of its job has workers; release one of them",
}


ADOPTED = "taken up as the cluster has it: its former restarts and waits are not known any more"
LEFT_SAFE_MODE = "safe mode is over: every gang on the cluster is accounted for"


def explain_stray(stray: Stray) -> str:
    """What is odd about a stray, and what stands against the order given for it."""
    alive = f"{stray.workers_alive} of {counted(stray.workers, 'worker')} alive"
    against = "" if stray.problem is None else f"; not adopted: {explain_problem(stray.problem)}"
    return f"{_STRAYS[stray.reason]}; {alive}{against}"


def explain_problem(problem: AdoptionProblem) -> str:
    """Why a stray is not adopted."""
    return _PROBLEMS[problem]


def explain_safe_mode(outdated: StoreOutdated) -> str:
    """That nothing is started or stopped, and why."""
    return (
        f"safe mode since {clock_time(outdated.since)}: {counted(outdated.gangs, 'gang')} on the "
        "cluster are not known here, so the database is older than the cluster (restored from a "
        "backup?); what runs goes on, nothing is started or stopped"
    )


_OUTCOMES: dict[Outcome, str] = {
    Outcome.COMPLETED: "completed",
    Outcome.USER_ERROR: "the program failed; its log says why (dally logs)",
    Outcome.KILLED: "a worker was killed by a signal that the scheduler did not send",
    Outcome.OUT_OF_MEMORY: "a worker used more memory than it may; raise resources.memory",
    Outcome.START_TIMEOUT: "the gang was not running in time, so all of it was unwound",
    Outcome.DEADLINE_EXCEEDED: "it ran for its maximum run time (duration.maxRuntime)",
    Outcome.HUNG: "no step was reported for the hang timeout (hangTimeout)",
    Outcome.CANCELLED_BY_USER: "cancelled by its user",
    Outcome.PREEMPTED: "stopped to make room for another job; it starts again by itself",
    Outcome.UPGRADED: "moved to GPUs that are closer together",
    Outcome.DRAINED: "stopped because a node was to be emptied; it starts again by itself",
    Outcome.NODE_LOST: "a node was lost with its workers",
    Outcome.GPU_UNHEALTHY: "a GPU was reported as unhealthy",
    Outcome.IMAGE_PULL_FAILED: "the image could not be pulled; check its name and pull secret",
    Outcome.ADMISSION_REJECTED: "the cluster refused a worker",
    Outcome.LAUNCH_FAILED: "a worker could not be started; check its command and workingDir",
    Outcome.WORKER_LOST: "a worker vanished without a report",
    Outcome.SYSTEM_ERROR: "the scheduler or the cluster failed; the server's log says more",
}

_MOVES: dict[str, str] = {
    JobPhase.HELD: "only a Pending job can be held; what runs or has ended can not",
    JobPhase.PENDING: "only a Held job can be released",
    "Deleted": "only a job that has ended can be deleted; cancel it first (dally cancel)",
}
"""By the phase that an order would have led to."""

_CAUSES: dict[StopCause, str] = {
    StopCause.CANCEL: "its user cancelled it",
    StopCause.PREEMPT: "another job gets its GPUs",
    StopCause.UPGRADE: "it moves to GPUs that are closer together",
    StopCause.WORKER_ENDED: "a worker has ended, so the others end too",
    StopCause.START_TIMEOUT: "it was not running in time",
    StopCause.DEADLINE: "it has run for its maximum run time",
    StopCause.HANG: "it has reported no step for its hang timeout",
    StopCause.DRAIN: "a node is to be emptied",
    StopCause.NODE_LOST: "a node is lost",
}


def explain_cordon(node: NodeName, cordon: Cordon | None, *, by: str, reason: str) -> str:
    """What an admin has done to a node; None: taken back what was said of it."""
    said = f": {reason}" if reason else ""
    if cordon is None:
        return f"{by} lets workers come to node {node} again{said}"
    if cordon.is_drain:
        return f"{by} drains node {node}: no new workers, and its gangs are stopped{said}"
    return f"{by} keeps new workers from node {node}{said}"


def explain_exclusion(node: NodeName, exclusion: Exclusion) -> str:
    """Why a node gets no new workers for a while."""
    until = clock_time(exclusion.until)
    why = _EXCLUSIONS.get(exclusion.reason, exclusion.reason)
    return f"node {node} is left alone until {until}: {why} ({exclusion.reason})"


_EXCLUSIONS = {
    "SuspectNode": "gangs have failed there first",
    "GpuUnhealthy": "gangs have failed there first, on its GPUs",
    "AdmissionRejected": "it did not take a worker",
}


def explain_leaving(leaving: Leaving) -> str:
    """Why the gangs of a node are to leave it."""
    if leaving.taint:
        return f"node {leaving.node} has the taint {leaving.taint}"
    said = f": {leaving.reason}" if leaving.reason else ""
    return f"node {leaving.node} is drained by {leaving.by}{said}"


def explain_held_back(rank: Rank, node: NodeName, said: str) -> str:
    """Why a worker that may run does not, in the words of who keeps it back."""
    return f"rank {rank} on {node} does not run yet: {said}"


def explain_outcome(
    outcome: Outcome, *, end: WorkerEnd | None = None, node: NodeName | None = None
) -> str:
    """How an attempt ended; with the worker that decided it, its exit code and its error."""
    sentence = _OUTCOMES[outcome]
    if end is None or outcome is Outcome.COMPLETED:
        return sentence
    place = f" on {node}" if node else ""
    code = "" if end.exit_code is None else f", {explain_exit(end.exit_code)}"
    said = f": {end.message}" if end.message else ""
    return f"{sentence} (rank {end.rank}{place}{code}){said}"


def explain_exit(exit_code: int) -> str:
    """An exit code in words."""
    if is_signal(exit_code):
        return f"killed by signal {exit_code - SIGNAL_BASE}"
    return f"exit code {exit_code}"


def explain_stop(cause: StopCause) -> str:
    """Why a gang is being stopped."""
    return _CAUSES[cause]


def explain_eviction(cause: StopCause, *, price: Duration, beneficiary: JobName | None) -> str:
    """For whose sake a running gang is stopped, and what that costs it."""
    sentence = f"it makes way for {beneficiary}" if beneficiary else _CAUSES[cause]
    lost = f"; that costs it about {short_duration(price)} of run time" if price else ""
    return f"{sentence}{lost}"


def explain_declined(episode: WaitEpisode) -> str:
    """What a job holds out for that has declined free GPUs; the same words for a whole episode."""
    held_out = [
        f"{short_duration(each.timer)} for one {each.level}"
        if each.timer is not None
        else f"however long for one {each.level}"
        for each in episode.timers
        if each.timer is None or each.timer > 0
    ]
    return f"declined free GPUs that lie too far apart: holds out {', then '.join(held_out)}"


def explain_given_up(waits: Iterable[WaitObservation]) -> str:
    """Which waits of a job were in vain, now that it takes wider GPUs."""
    waited = [f"{short_duration(wait.wait)} for one {wait.level}" for wait in waits]
    return f"held out {', then '.join(waited)} in vain, and takes what is offered"


def explain_placement(placement: Placement) -> str:
    """Where a gang goes: `4 workers on n1 (2), n2 (2), within one rack`."""
    by_node: dict[NodeName, int] = {}
    for assignment in placement.assignments:
        by_node[assignment.node] = by_node.get(assignment.node, 0) + assignment.workers
    shown = [f"{node} ({workers})" for node, workers in list(by_node.items())[:8]]
    if len(by_node) > len(shown):
        shown.append(f"{len(by_node) - len(shown)} nodes more")
    workers = counted(sum(by_node.values()), "worker")
    return f"{workers} on {', '.join(shown)}, within {_one(placement.tier_name)}"


def explain_refused_move(job: str, origin: str, target: str) -> str:
    """Why an order was refused: the phase the job is in, and what the order is for."""
    rule = _MOVES.get(target, f"it can not become {target} from there")
    return f"job {job} is {origin}: {rule}"


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def explain_retuned(row: TimerRow, before: Duration | None) -> str:
    """How a timer of the tuner has moved, and what it stands on."""
    gangs = _gangs_of(row.demand)
    waits = counted(row.accepted + row.censored, "past wait")
    if row.timer is None:
        return (
            f"{gangs} wait for one {row.level} as long as that is worth to them again: "
            f"{waits} are too few to learn from"
        )
    was = "" if before is None else f" (was {short_duration(before)})"
    smaller = (
        f"waits of {_gangs_of(row.learned_from)}"
        if row.source is TimerSource.SMALLER_DEMAND
        else f"{waits}, {row.censored} of them in vain"
    )
    return (
        f"{gangs} wait for one {row.level} {short_duration(row.timer)} at most{was}, from {smaller}"
    )


def _gangs_of(demand: int) -> str:
    return "1-GPU jobs" if demand == 1 else f"gangs of up to {demand} GPUs"


def clock_time(instant: Instant) -> str:
    """An instant as people read it: to the second, in UTC."""
    return datetime.fromtimestamp(instant // SECOND, tz=UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def short_duration(duration: Duration) -> str:
    """A duration in its two largest units: `2d 4h`, `12 min`, `1.5 s`."""
    if duration < MINUTE:
        return f"{duration / SECOND:.3g} s"
    if duration < HOUR:
        minutes, rest = divmod(duration, MINUTE)
        return f"{minutes} min" + (f" {rest // SECOND} s" if rest >= SECOND else "")
    if duration < DAY:
        hours, rest = divmod(duration, HOUR)
        return f"{hours} h" + (f" {rest // MINUTE} min" if rest >= MINUTE else "")
    days, rest = divmod(duration, DAY)
    return f"{days} d" + (f" {rest // HOUR} h" if rest >= HOUR else "")


_TIMER_REASONS: Mapping[TimerReason, str] = {
    TimerReason.WORTH: "the value of waiting",
    TimerReason.PAST_WAITS: "from past waits",
    TimerReason.FIXED: "fixed by the policy's knobs",
    TimerReason.MOVING: "what it costs to start wide and move later",
    TimerReason.SHARING: "what it and those on its links would lose by each other",
    TimerReason.LIMIT: "the longest wait there is",
}


def _closer_tier(blocked: WaitingForCloserTier) -> str:
    samples = (
        f"from {counted(blocked.timer_samples, 'past wait')}"
        if blocked.timer_samples
        else _TIMER_REASONS[blocked.timer_reason]
    )
    if blocked.until is None or blocked.timer is None:
        wait = f"waiting for one {blocked.level}, however long (its timer is infinite); "
    else:
        wait = (
            f"waiting for one {blocked.level} until {clock_time(blocked.until)} "
            f"(timer {short_duration(blocked.timer)}, {samples}); "
        )
    gpus, gangs = blocked.gpus_free_at_offer, blocked.gangs_beside
    beside = f" beside {counted(gangs, 'gang')} on its links" if gangs else ""
    return (
        f"{wait}{counted(gpus, 'GPU')} {'is' if gpus == 1 else 'are'} free now across "
        f"{counted(blocked.domains_at_offer, blocked.level)}, "
        f"where a step would take {blocked.step_slowdown:.2g}x as long{beside}"
    )


def _takes_then(blocked: WaitingForCloserTier) -> str:
    if blocked.until is None:
        return f"it starts as soon as one {blocked.level} has room"
    return f"from {clock_time(blocked.until)} on it takes what is offered"


def _other_levels(blocked: TooFewGpus) -> str:
    closer = [
        f"{fit} within {_one(level)}"
        for level, fit in blocked.workers_fit_by_level.items()
        if level != blocked.level
    ]
    return f" ({', '.join(closer)})" if closer else ""


_NODE_REASONS = {
    "Fits": "with room for a worker",
    "TooFewGpus": "with too few free GPUs",
    "TooLittleCpu": "with too few free CPUs",
    "TooLittleMemory": "with too little free memory",
    "TooManyWorkers": "that take no more workers",
    "NotReady": "not ready",
    "Tainted": "kept for others by a taint",
    "LeftAlone": "left alone for a while after failures",
    "Cordoned": "cordoned",
    "OtherPool": "of another pool",
    "OtherGpuModel": "with another GPU model",
    "NoGpus": "without GPUs",
    "Excluded": "excluded for this job",
    "BoundVolume": "that can not mount a bound volume of the job",
}


def _one(level: str) -> str:
    return "the whole cluster" if level == CLUSTER_LEVEL else f"one {level}"


def _wanted(blocked: TooFewGpus | NeverFits) -> str:
    """The workers that lack room, and their role unless it is just `worker`."""
    workers = counted(blocked.workers_wanted, "worker")
    return workers if blocked.role in {"", "worker"} else f"{workers} of role {blocked.role}"


def _nodes(blocked: TooFewGpus | NeverFits) -> str:
    """Most common reason first."""
    common = sorted(blocked.nodes_by_reason.items(), key=lambda item: (-item[1], item[0]))
    parts = [f"{count} {_NODE_REASONS.get(reason, reason)}" for reason, count in common]
    return f"of {counted(blocked.nodes, 'node')}: {', '.join(parts) or 'none looked at'}"
