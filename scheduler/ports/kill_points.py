"""Named points at which tests kill the server, to prove that a restart loses and doubles nothing.

The product calls `reach` at each point; unless a driver has armed a hook, that does nothing. The
registry is the enum: a test fails when one of its points is never reached.
"""

from collections.abc import Callable
from enum import StrEnum


class KillPoint(StrEnum):
    """Every point; named `<story>.<step>.<before|after>`."""

    SUBMIT_BEFORE_WRITE = "submit.write.before"
    SUBMIT_AFTER_WRITE = "submit.write.after"
    CANCEL_BEFORE_WRITE = "cancel.write.before"
    CANCEL_AFTER_WRITE = "cancel.write.after"
    STORE_BEFORE_COMMIT = "store.commit.before"
    """In the writer's thread: a batch of units lies in an open transaction."""
    STORE_AFTER_COMMIT = "store.commit.after"
    """In the writer's thread: the batch is on disk and nobody has been told."""

    LAUNCH_BEFORE_RESERVE = "launch.reserve.before"
    LAUNCH_AFTER_RESERVE = "launch.reserve.after"
    LAUNCH_BEFORE_PREPARE = "launch.prepare.before"
    LAUNCH_AFTER_PREPARE = "launch.prepare.after"
    LAUNCH_BEFORE_PREPARING = "launch.preparing.before"
    LAUNCH_AFTER_PREPARING = "launch.preparing.after"
    LAUNCH_BEFORE_PREPARED = "launch.prepared.before"
    LAUNCH_AFTER_PREPARED = "launch.prepared.after"
    LAUNCH_BEFORE_RELEASE = "launch.release.before"
    LAUNCH_AFTER_RELEASE = "launch.release.after"
    LAUNCH_BEFORE_RELEASED = "launch.released.before"
    LAUNCH_AFTER_RELEASED = "launch.released.after"
    LAUNCH_BEFORE_RUNNING = "launch.running.before"
    LAUNCH_AFTER_RUNNING = "launch.running.after"

    RUN_BEFORE_WORKER_END = "run.worker_end.before"
    RUN_AFTER_WORKER_END = "run.worker_end.after"
    RUN_BEFORE_STOPPING = "run.stopping.before"
    RUN_AFTER_STOPPING = "run.stopping.after"
    RUN_BEFORE_RESTART = "run.restart.before"
    RUN_AFTER_RESTART = "run.restart.after"
    RUN_BEFORE_END = "run.end.before"
    RUN_AFTER_END = "run.end.after"
    RUN_BEFORE_FORGET = "run.forget.before"
    RUN_AFTER_FORGET = "run.forget.after"
    RUN_BEFORE_PREEMPT = "run.preempt.before"
    RUN_AFTER_PREEMPT = "run.preempt.after"
    RUN_BEFORE_ANSWERS = "run.answers.before"
    RUN_AFTER_ANSWERS = "run.answers.after"

    CANCEL_BEFORE_STOPPING = "cancel.stopping.before"
    CANCEL_AFTER_STOPPING = "cancel.stopping.after"
    CANCEL_BEFORE_STOP = "cancel.stop.before"
    CANCEL_AFTER_STOP = "cancel.stop.after"
    CANCEL_BEFORE_SOONER = "cancel.sooner.before"
    CANCEL_AFTER_SOONER = "cancel.sooner.after"
    CANCEL_BEFORE_END = "cancel.end.before"
    CANCEL_AFTER_END = "cancel.end.after"

    LOCAL_BEFORE_ADOPT = "local.adopt.before"
    LOCAL_AFTER_ADOPT = "local.adopt.after"
    LOCAL_BEFORE_PUBLISH = "local.publish.before"
    """The local executor is about to let the folder of a gang appear."""
    LOCAL_AFTER_PUBLISH = "local.publish.after"
    LOCAL_BEFORE_SPAWN = "local.spawn.before"
    """... to start the supervisor of one worker."""
    LOCAL_AFTER_SPAWN = "local.spawn.after"
    LOCAL_BEFORE_RELEASE = "local.release.before"
    LOCAL_AFTER_RELEASE = "local.release.after"
    """The gang may run; its supervisors have not been rung for."""
    LOCAL_BEFORE_STOP = "local.stop.before"
    LOCAL_AFTER_STOP = "local.stop.after"
    LOCAL_BEFORE_LOST = "local.lost.before"
    """A worker's supervisor is dead and its processes are ended; that is not noted yet."""
    LOCAL_AFTER_LOST = "local.lost.after"
    LOCAL_BEFORE_FORGET = "local.forget.before"
    LOCAL_AFTER_FORGET = "local.forget.after"

    KUBERNETES_BEFORE_ANCHOR = "kubernetes.anchor.before"
    """The Kubernetes executor is about to make the object that owns a gang."""
    KUBERNETES_AFTER_ANCHOR = "kubernetes.anchor.after"
    KUBERNETES_BEFORE_SERVICE = "kubernetes.service.before"
    KUBERNETES_AFTER_SERVICE = "kubernetes.service.after"
    KUBERNETES_BEFORE_POD = "kubernetes.pod.before"
    """... to make the gated pod of one worker."""
    KUBERNETES_AFTER_POD = "kubernetes.pod.after"
    KUBERNETES_BEFORE_GATE = "kubernetes.gate.before"
    """... to take the gate from one pod."""
    KUBERNETES_AFTER_GATE = "kubernetes.gate.after"
    KUBERNETES_BEFORE_DELETE = "kubernetes.delete.before"
    """... to delete one pod."""
    KUBERNETES_AFTER_DELETE = "kubernetes.delete.after"
    KUBERNETES_BEFORE_FORGET = "kubernetes.forget.before"
    """... to delete what owns a gang that is over."""
    KUBERNETES_AFTER_FORGET = "kubernetes.forget.after"


_hook: Callable[[KillPoint], None] | None = None


def arm(hook: Callable[[KillPoint], None] | None) -> None:
    """Have `hook` called at every point from now on; None disarms. Only a driver or a test arms."""
    global _hook  # noqa: PLW0603 - one switch per process, by design
    _hook = hook


def reach(point: KillPoint) -> None:
    """Say that execution stands at `point`."""
    if _hook is not None:
        _hook(point)
