"""What a pod of ours says of its worker: where it is, how it ended, what keeps it from starting.

Order of reasons at an end (our own stop request comes before all of them, in the control loop):
out of memory > evicted > refused by the node > could not be started > its machine or runtime was
restarted > signal > exit code
"""

from dataclasses import dataclass, replace

from scheduler.adapters.kubernetes import names
from scheduler.adapters.kubernetes.objects import (
    JsonObject,
    Uid,
    at,
    condition_of,
    instant_of,
    name_of,
    namespace_of,
    number,
    parts,
    text,
    texts,
    uid_of,
    version_of,
)
from scheduler.domain.exit_codes import SIGTERM_EXIT_CODE, outcome_of_exit_code
from scheduler.domain.ids import Epoch, NodeName, Rank
from scheduler.domain.instants import Instant
from scheduler.domain.job import Outcome
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.cluster import WorkerReport, WorkerState

START_ERRORS = frozenset(
    {"StartError", "ContainerCannotRun", "CreateContainerError", "RunContainerError"}
)
UNSEEN_ENDS = frozenset({"Unknown", "ContainerStatusUnknown"})
"""What containerd and the kubelet call the end of a container that was gone when they came back;
the exit code that they write beside it is their own."""
IMAGE_PROBLEMS = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
    }
)
CREATE_PROBLEMS = frozenset(
    {"CreateContainerConfigError", "CreateContainerError", "RunContainerError"}
)
DISRUPTIONS = frozenset(
    {"Evicted", "Preempting", "Preempted", "NodeShutdown", "Shutdown", "Terminated", "NodeLost"}
)
"""Reasons of a pod's failure by which its node, or somebody else, ended it."""

NEVER_RAN = "stopped before it ran"
UNSEEN_END = "it was gone when its node or the container runtime there had been restarted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What keeps a pod that may run from running."""

    outcome: Outcome
    """What it is refused as if it lasts."""
    message: str
    since: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """One pod of ours."""

    uid: Uid
    name: str
    namespace: str
    version: int
    attempt: AttemptKey
    rank: Rank
    epoch: Epoch
    spec_hash: str
    workers: int
    """Size of its gang."""
    owner: Uid
    """Uid of the anchor it belongs to; empty if it names none."""
    is_gated: bool
    """Our gate is on it."""
    other_gates: tuple[str, ...]
    """Gates of other controllers, which we do not touch."""
    is_bound: bool
    is_leaving: bool
    """It was told to end."""
    report: WorkerReport
    problem: Problem | None

    @property
    def is_over(self) -> bool:
        """Whether its worker has ended."""
        return self.report.state is WorkerState.ENDED


def facts_of(pod: JsonObject) -> PodFacts | None:
    """What a pod says; None if it is none of ours by its labels."""
    attempt, rank = names.attempt_of(pod), names.rank_of(pod)
    if attempt is None or rank is None:
        return None
    gates = [text(gate, "name") for gate in parts(pod, "spec", "schedulingGates")]
    annotations = texts(pod, "metadata", "annotations")
    workers = annotations.get(names.WORKERS, "")
    report, problem = _report(pod, attempt, rank), _problem(pod, gates)
    if problem is not None and report.state is WorkerState.MADE:
        report = replace(report, message=problem.message)
    owners = parts(pod, "metadata", "ownerReferences")
    return PodFacts(
        uid=uid_of(pod),
        name=name_of(pod),
        namespace=namespace_of(pod),
        version=version_of(pod),
        attempt=attempt,
        rank=rank,
        epoch=names.epoch_of(pod),
        spec_hash=annotations.get(names.SPEC_HASH, ""),
        workers=_whole_number(workers) or rank + 1,
        owner=Uid(text(owners[0], "uid")) if owners else Uid(""),
        is_gated=names.GATE in gates,
        other_gates=tuple(gate for gate in gates if gate != names.GATE),
        is_bound=bool(text(pod, "spec", "nodeName")),
        is_leaving=bool(text(pod, "metadata", "deletionTimestamp")),
        report=report,
        problem=problem,
    )


def report_of_gone(facts: PodFacts, *, was_asked_to_stop: bool) -> WorkerReport:
    """The last word on a worker whose pod is gone; `facts` are the last that were seen of it."""
    report = facts.report
    if report.state is WorkerState.ENDED:
        return report
    if was_asked_to_stop and report.state is WorkerState.MADE:
        return never_ran(report)
    message = report.message or "its pod was removed before its end was seen"
    return replace(
        report,
        state=WorkerState.GONE,
        outcome=report.outcome or Outcome.WORKER_LOST,
        message=message,
    )


def never_ran(report: WorkerReport) -> WorkerReport:
    """The end of a worker that was stopped before any user code ran."""
    return replace(
        report,
        state=WorkerState.ENDED,
        exit_code=SIGTERM_EXIT_CODE,
        outcome=Outcome.KILLED,
        message=NEVER_RAN,
        started_at=None,
        ended_at=None,
    )


def _report(pod: JsonObject, attempt: AttemptKey, rank: Rank) -> WorkerReport:
    node = NodeName(text(pod, "spec", "nodeName") or pinned_node(pod))
    main = _main_status(pod)
    ended = at(main, "state", "terminated")
    base = WorkerReport(
        attempt=attempt,
        rank=rank,
        node=node,
        state=WorkerState.MADE,
        epoch=names.epoch_of(pod),
        gpus=_whole_number(texts(pod, "metadata", "annotations").get(names.GPUS, "")),
    )
    phase = text(pod, "status", "phase")
    if ended is not None:
        return _ended(base, pod, ended)
    if phase in ("Succeeded", "Failed"):
        return _ended_without_container(base, pod, phase)
    started = instant_of(text(main, "state", "running", "startedAt"))
    if started is not None or phase == "Running":
        base = replace(
            base,
            state=WorkerState.RUNNING,
            started_at=started or instant_of(text(pod, "status", "startTime")),
        )
    disruption = _disruption(pod)
    if disruption:
        # It still runs; if it goes without another word, this is why.
        return replace(base, outcome=_disruption_outcome(pod), message=disruption)
    return base


def _whole_number(written: str) -> int:
    """0 if it is none."""
    return int(written) if written.isdecimal() else 0


def _ended(base: WorkerReport, pod: JsonObject, ended: object) -> WorkerReport:
    assert isinstance(ended, dict)
    code = number(ended, "exitCode")
    reason, message = text(ended, "reason"), text(ended, "message")
    started = instant_of(text(ended, "startedAt"))
    finished = instant_of(text(ended, "finishedAt"))
    if started is not None and finished is not None:
        finished = max(started, finished)  # Clocks go back.
    outcome, said = outcome_of_exit_code(code or 0), message
    if reason == "OOMKilled":
        outcome, said = Outcome.OUT_OF_MEMORY, message or "it used more memory than it asked for"
    elif disruption := _disruption(pod):
        outcome, said = _disruption_outcome(pod), disruption
    elif reason in START_ERRORS:
        outcome, said = Outcome.LAUNCH_FAILED, message or reason
        started = None
    elif reason in UNSEEN_ENDS:
        code, outcome, said = None, Outcome.WORKER_LOST, UNSEEN_END
    return replace(
        base,
        state=WorkerState.ENDED,
        exit_code=code,
        outcome=outcome,
        message=said,
        started_at=started,
        ended_at=finished,
    )


def _ended_without_container(base: WorkerReport, pod: JsonObject, phase: str) -> WorkerReport:
    reason, message = text(pod, "status", "reason"), text(pod, "status", "message")
    said = f"{reason}: {message}" if reason else message
    if phase == "Succeeded":
        return replace(base, state=WorkerState.ENDED, exit_code=0, outcome=Outcome.COMPLETED)
    if disruption := _disruption(pod):
        outcome, said = _disruption_outcome(pod), disruption
    elif reason == "DeadlineExceeded":
        outcome = Outcome.DEADLINE_EXCEEDED
    else:
        # A kubelet that does not take a pod (UnexpectedAdmissionError, OutOfcpu, NodeAffinity, ...)
        # fails it before it has containers.
        outcome = Outcome.ADMISSION_REJECTED
    return replace(base, state=WorkerState.ENDED, exit_code=None, outcome=outcome, message=said)


def _disruption(pod: JsonObject) -> str:
    """By whom, and why, a pod was ended from outside; empty if it was not."""
    condition = condition_of(pod, "DisruptionTarget")
    if condition is not None and text(condition, "status") == "True":
        return f"{text(condition, 'reason')}: {text(condition, 'message')}"
    reason = text(pod, "status", "reason")
    if reason in DISRUPTIONS:
        return f"{reason}: {text(pod, 'status', 'message')}"
    return ""


def _disruption_outcome(pod: JsonObject) -> Outcome:
    reason = text(condition_of(pod, "DisruptionTarget"), "reason")
    lost = {"DeletionByTaintManager", "DeletionByPodGC"}
    is_node = reason in lost or text(pod, "status", "reason") in (
        "NodeLost",
        "NodeShutdown",
        "Shutdown",
    )
    return Outcome.NODE_LOST if is_node else Outcome.WORKER_LOST


def _main_status(pod: JsonObject) -> JsonObject | None:
    for status in parts(pod, "status", "containerStatuses"):
        if text(status, "name") == names.MAIN_CONTAINER:
            return status
    return None


def pinned_node(pod: JsonObject) -> str:
    """The node that the affinity we gave it names; empty if there is none."""
    terms = parts(
        pod,
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    )
    for term in terms:
        for field in parts(term, "matchFields"):
            values = at(field, "values")
            if text(field, "key") == "metadata.name" and isinstance(values, list) and values:
                return str(values[0])
    return ""


def _problem(pod: JsonObject, gates: list[str]) -> Problem | None:
    if names.GATE in gates:
        return None
    if not text(pod, "spec", "nodeName"):
        return _binding_problem(pod, gates)
    waiting = at(_main_status(pod), "state", "waiting")
    reason = text(waiting, "reason")
    message = f"{reason}: {text(waiting, 'message')}"
    since = instant_of(text(pod, "status", "startTime"))
    if reason in IMAGE_PROBLEMS:
        return Problem(outcome=Outcome.IMAGE_PULL_FAILED, message=message, since=since)
    if reason in CREATE_PROBLEMS:
        return Problem(outcome=Outcome.LAUNCH_FAILED, message=message, since=since)
    return None


def _binding_problem(pod: JsonObject, gates: list[str]) -> Problem | None:
    if gates:
        message = f"another controller holds it back by the gate {', '.join(gates)}"
        return Problem(outcome=Outcome.START_TIMEOUT, message=message, since=None)
    scheduled = condition_of(pod, "PodScheduled")
    if scheduled is None or text(scheduled, "reason") != "Unschedulable":
        return None
    return Problem(
        outcome=Outcome.ADMISSION_REJECTED,
        message=f"kube-scheduler: {text(scheduled, 'message')}",
        since=instant_of(text(scheduled, "lastTransitionTime")),
    )
