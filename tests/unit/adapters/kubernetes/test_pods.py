"""What a pod's status means (K14, K15, K27, K30, K32, K33): whose failure it was, and when."""

import pytest

from scheduler.adapters.kubernetes import names
from scheduler.adapters.kubernetes.gang import KubernetesGang, LetGo, RemovePods
from scheduler.adapters.kubernetes.objects import JsonObject
from scheduler.adapters.kubernetes.pods import facts_of, report_of_gone
from scheduler.domain.codec import Json
from scheduler.domain.failures import BLAME, Blame
from scheduler.domain.instants import Instant
from scheduler.domain.job import Outcome
from scheduler.ports.cluster import WorkerState
from tests.gangs import a_key
from tests.unit.adapters.kubernetes.pod_objects import a_pod, a_rendered_pod, ended, facts, main

MADE, RUNNING, ENDED = WorkerState.MADE, WorkerState.RUNNING, WorkerState.ENDED
USER, CLUSTER, NOBODY = Blame.USER, Blame.CLUSTER, Blame.NOBODY


def disrupted(reason: str) -> Json:
    return [{"type": "DisruptionTarget", "status": "True", "reason": reason, "message": "why"}]


def failed(reason: str, *, statuses: Json = None) -> JsonObject:
    return a_pod(phase="Failed", reason=reason, message="text", containerStatuses=statuses)


def exited(code: int, *, conditions: Json = None) -> JsonObject:
    return a_pod(containerStatuses=ended(code), conditions=conditions)


@pytest.mark.parametrize(
    ("pod", "outcome", "blame"),
    [
        pytest.param(exited(0), Outcome.COMPLETED, NOBODY, id="0"),
        pytest.param(exited(1), Outcome.USER_ERROR, USER, id="1"),
        pytest.param(exited(2), Outcome.USER_ERROR, USER, id="2"),
        pytest.param(exited(126), Outcome.USER_ERROR, USER, id="126: not executable"),
        pytest.param(exited(127), Outcome.USER_ERROR, USER, id="127: not found by a shell"),
        pytest.param(exited(255), Outcome.USER_ERROR, USER, id="255"),
        pytest.param(exited(134), Outcome.KILLED, USER, id="SIGABRT"),
        pytest.param(exited(137), Outcome.KILLED, USER, id="SIGKILL by a stranger"),
        pytest.param(exited(139), Outcome.KILLED, USER, id="SIGSEGV"),
        pytest.param(exited(143), Outcome.KILLED, USER, id="SIGTERM by a stranger"),
        pytest.param(
            a_pod(containerStatuses=ended(137, reason="OOMKilled")),
            Outcome.OUT_OF_MEMORY,
            USER,
            id="out of memory",
        ),
        pytest.param(
            a_pod(
                containerStatuses=ended(137, reason="OOMKilled"),
                conditions=disrupted("EvictionByEvictionAPI"),
            ),
            Outcome.OUT_OF_MEMORY,
            USER,
            id="out of memory before evicted",
        ),
        *(
            pytest.param(
                exited(code, conditions=disrupted(reason)), outcome, CLUSTER, id=f"{reason} {code}"
            )
            for code in (0, 1, 137, 143)
            for reason, outcome in (
                ("EvictionByEvictionAPI", Outcome.WORKER_LOST),
                ("PreemptionByScheduler", Outcome.WORKER_LOST),
                ("TerminationByKubelet", Outcome.WORKER_LOST),
                ("DeletionByTaintManager", Outcome.NODE_LOST),
                ("DeletionByPodGC", Outcome.NODE_LOST),
            )
        ),
        pytest.param(failed("Evicted"), Outcome.WORKER_LOST, CLUSTER, id="Evicted"),
        pytest.param(failed("Preempting"), Outcome.WORKER_LOST, CLUSTER, id="Preempting"),
        pytest.param(failed("NodeShutdown"), Outcome.NODE_LOST, CLUSTER, id="NodeShutdown"),
        pytest.param(failed("NodeLost"), Outcome.NODE_LOST, CLUSTER, id="NodeLost"),
        *(
            pytest.param(failed(reason), Outcome.ADMISSION_REJECTED, CLUSTER, id=reason)
            for reason in (
                "UnexpectedAdmissionError",
                "OutOfcpu",
                "OutOfmemory",
                "OutOfpods",
                "OutOfnvidia.com/gpu",
                "NodeAffinity",
                "TopologyAffinityError",
            )
        ),
        pytest.param(
            failed("Evicted", statuses=ended(137)),
            Outcome.WORKER_LOST,
            CLUSTER,
            id="evicted with a container that was killed",
        ),
        pytest.param(
            a_pod(containerStatuses=ended(128, reason="StartError", message="no such file")),
            Outcome.LAUNCH_FAILED,
            USER,
            id="no such command",
        ),
        pytest.param(
            a_pod(containerStatuses=ended(127, reason="ContainerCannotRun")),
            Outcome.LAUNCH_FAILED,
            USER,
            id="can not run",
        ),
        pytest.param(
            a_pod(containerStatuses=ended(255, reason="Unknown")),
            Outcome.WORKER_LOST,
            CLUSTER,
            id="gone when containerd came back",
        ),
        pytest.param(
            a_pod(containerStatuses=ended(137, reason="ContainerStatusUnknown")),
            Outcome.WORKER_LOST,
            CLUSTER,
            id="gone when the kubelet came back",
        ),
        pytest.param(a_pod(phase="Succeeded"), Outcome.COMPLETED, NOBODY, id="phase alone"),
    ],
)
def test_k14_k27_an_end_has_its_reason_and_somebody_to_blame(
    pod: JsonObject, outcome: Outcome, blame: Blame
) -> None:
    report = facts(pod).report
    assert report.state is ENDED
    assert report.outcome is outcome
    assert BLAME[outcome] is blame


def test_a_pod_says_how_many_gpus_it_was_made_with() -> None:
    assert facts(a_pod()).report.gpus == facts(exited(0)).report.gpus == 1


def test_a_pod_that_is_gated_or_waits_for_its_image_is_made() -> None:
    gated = a_pod(is_gated=True, node="", phase="Pending")
    pulling = a_pod(
        phase="Pending", containerStatuses=main(waiting={"reason": "ContainerCreating"})
    )
    assert facts(gated).report.state is facts(pulling).report.state is MADE
    assert facts(gated).report.node == "n0"
    assert facts(gated).is_gated
    assert not facts(pulling).is_gated


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("ErrImagePull", Outcome.IMAGE_PULL_FAILED),
        ("ImagePullBackOff", Outcome.IMAGE_PULL_FAILED),
        ("InvalidImageName", Outcome.IMAGE_PULL_FAILED),
        ("CreateContainerConfigError", Outcome.LAUNCH_FAILED),
        ("CreateContainerError", Outcome.LAUNCH_FAILED),
    ],
)
def test_what_keeps_a_container_from_starting_is_a_problem(reason: str, outcome: Outcome) -> None:
    pod = a_pod(phase="Pending", containerStatuses=main(waiting={"reason": reason, "message": "m"}))
    problem = facts(pod).problem
    assert problem is not None
    assert (problem.outcome, problem.message) == (outcome, f"{reason}: m")


def test_k15_the_first_end_of_a_pod_holds() -> None:
    gang = KubernetesGang(attempt=a_key(), workers=1, namespace="jobs")
    gang.note_pod(facts(exited(0)))
    gang.note_pod(facts(failed("UnexpectedAdmissionError")))
    report = gang.reports()[0]
    assert report is not None
    assert report.outcome is Outcome.COMPLETED


def test_k8_a_gang_is_let_go_though_a_worker_of_it_was_never_seen() -> None:
    # The pod of rank 1 had been stopped and was gone when this server started.
    gang = KubernetesGang(attempt=a_key(), workers=2, namespace="jobs")
    gang.note_pod(facts(exited(1)))
    gang.is_forget_wanted = True
    assert isinstance(gang.next_action(lambda _: False, Instant(0)), LetGo)


def test_k8_a_gang_with_a_living_worker_is_not_let_go() -> None:
    gang = KubernetesGang(attempt=a_key(), workers=2, namespace="jobs")
    gang.note_pod(facts(a_pod()))
    gang.is_forget_wanted = True
    assert gang.next_action(lambda _: False, Instant(0)) is None


@pytest.mark.parametrize("started", ["2026-11-30T10:05:00Z", "2028-01-01T00:00:00Z"])
def test_k30_an_end_before_the_start_ends_at_the_start(started: str) -> None:
    report = facts(a_pod(containerStatuses=ended(0, startedAt=started))).report
    assert report.started_at is not None
    assert report.ended_at == report.started_at


def test_k30_times_that_can_not_be_read_are_left_out() -> None:
    report = facts(a_pod(containerStatuses=ended(0, startedAt="soon", finishedAt=""))).report
    assert (report.started_at, report.ended_at) == (None, None)


def test_k32_a_gate_of_another_controller_is_named_and_nothing_is_deleted() -> None:
    pod = a_pod(node="", phase="Pending")
    spec = pod["spec"]
    assert isinstance(spec, dict)
    spec["schedulingGates"] = [{"name": "quota.example.com/hold"}]
    seen = facts(pod)
    assert seen.other_gates == ("quota.example.com/hold",)
    assert "quota.example.com/hold" in seen.report.message
    gang = KubernetesGang(attempt=a_key(), workers=1, namespace="jobs")
    gang.is_released = gang.is_release_wanted = True
    gang.note_pod(seen)
    # Only a problem with a bound on its patience dooms a pod; this one has none.
    action = gang.next_action(lambda seen: seen.problem is None, Instant(0))
    assert not isinstance(action, RemovePods)


def test_k33_a_pod_that_a_webhook_changed_is_still_ours_and_its_main_container_decides() -> None:
    pod = exited(5)
    status, spec, metadata = pod["status"], pod["spec"], pod["metadata"]
    assert isinstance(status, dict)
    assert isinstance(spec, dict)
    assert isinstance(metadata, dict)
    sidecar: JsonObject = {"name": "proxy", "state": {"running": {"startedAt": "x"}}}
    statuses = status["containerStatuses"]
    assert isinstance(statuses, list)
    status["containerStatuses"] = [sidecar, *statuses]
    spec["containers"] = [{"name": "proxy", "image": "mesh"}, {"name": "main", "image": "other"}]
    spec["priorityClassName"] = "changed"
    seen, made = facts(pod), facts({**a_rendered_pod(), "status": {}})
    assert seen.spec_hash == made.spec_hash != ""
    assert seen.owner == "anchor"
    assert (seen.report.state, seen.report.exit_code) == (ENDED, 5)


def test_a_pod_that_is_gone_while_it_ran_is_lost_and_one_we_stopped_before_it_ran_ended() -> None:
    running = facts(a_pod(containerStatuses=main(running={"startedAt": "2026-11-30T10:00:00Z"})))
    gated = facts(a_pod(is_gated=True, node="", phase="Pending"))
    assert report_of_gone(running, was_asked_to_stop=True).outcome is Outcome.WORKER_LOST
    lost = report_of_gone(gated, was_asked_to_stop=False)
    assert (lost.state, lost.outcome) == (WorkerState.GONE, Outcome.WORKER_LOST)
    stopped = report_of_gone(gated, was_asked_to_stop=True)
    assert (stopped.state, stopped.started_at) == (ENDED, None)


def test_a_pod_without_our_labels_is_none_of_ours() -> None:
    pod = a_pod()
    metadata = pod["metadata"]
    assert isinstance(metadata, dict)
    labels = metadata["labels"]
    assert isinstance(labels, dict)
    del labels[names.RANK]
    assert facts_of(pod) is None


def test_running_since_the_container_did() -> None:
    pod = a_pod(containerStatuses=main(running={"startedAt": "2026-11-30T10:00:00Z"}))
    report = facts(pod).report
    assert report.state is RUNNING
    assert report.started_at == Instant(1_796_032_800_000_000)
