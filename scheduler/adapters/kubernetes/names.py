"""Names, labels and annotations of the objects we make: how we know them again.

jUID-aN            anchor (a ConfigMap) and Service of attempt N; UID: 10 characters of the job's id
jUID-aN-R          the pod of rank R, also its host name: R.jUID-aN resolves inside the namespace
"""

import hashlib
import re

from scheduler.adapters.kubernetes.objects import labels_of
from scheduler.domain.codec import Json
from scheduler.domain.ids import AttemptNumber, Epoch, JobId, Rank
from scheduler.domain.reservation import AttemptKey

PREFIX = "dally.internal/"

INSTANCE = f"{PREFIX}instance"
"""Label of everything of ours: whose it is. Two installs on one cluster have different ones."""
RELEASED_BY = f"{PREFIX}released-by"
"""Label of what was ours once, and is not since an admin has said so: whose it was."""
JOB_UID = f"{PREFIX}job-uid"
JOB_NAME = f"{PREFIX}job"
PROJECT = f"{PREFIX}project"
QUEUE = f"{PREFIX}queue"
ATTEMPT = f"{PREFIX}attempt"
ROLE = f"{PREFIX}role"
RANK = f"{PREFIX}rank"
EPOCH = f"{PREFIX}epoch"
WORKERS = f"{PREFIX}workers"
"""Annotation: size of the gang."""
GPUS = f"{PREFIX}gpus"
"""Annotation: GPUs of the worker, whatever the resource is called on its node."""
SPEC_HASH = f"{PREFIX}spec-hash"
"""Annotation: hash of the object as we rendered it, before anybody could change it."""
GATE = f"{PREFIX}gang"
"""Our scheduling gate: a pod that has it does not run."""
POOL_TAINT = f"{PREFIX}pool"
"""Taint of the nodes of an exclusive pool; our pods alone tolerate it."""

MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "dally"
MAIN_CONTAINER = "main"
"""The container that decides; sidecars may come and go beside it."""

_UID_CHARACTERS = 10
_UUID_CHARACTERS = 32


def job_part(job_id: JobId) -> str:
    """10 characters that stand for a job: the last ones of its UUID, which are random.

    The first ones of a UUIDv7 are the time, which jobs submitted together share.
    """
    plain = re.sub("[^0-9a-z]", "", job_id.lower())
    if len(plain) < _UUID_CHARACTERS:
        plain = hashlib.sha256(job_id.encode()).hexdigest()
    return plain[-_UID_CHARACTERS:]


def gang_name(attempt: AttemptKey) -> str:
    """Name of the anchor and of the Service."""
    return f"j{job_part(attempt.job_id)}-a{attempt.number}"


def pod_name(attempt: AttemptKey, rank: Rank) -> str:
    """Name of a worker's pod, and its host name."""
    return f"{gang_name(attempt)}-{rank}"


def attempt_labels(instance: str, attempt: AttemptKey) -> dict[str, str]:
    """Labels by which everything of an attempt is found."""
    return {INSTANCE: instance, JOB_UID: attempt.job_id, ATTEMPT: str(attempt.number)}


def attempt_of(data: Json) -> AttemptKey | None:
    """The attempt an object of ours belongs to; None if its labels do not say."""
    labels = labels_of(data)
    job_id, number = labels.get(JOB_UID, ""), labels.get(ATTEMPT, "")
    if not job_id or not number.isdecimal():
        return None
    return AttemptKey(JobId(job_id), AttemptNumber(int(number)))


def rank_of(data: Json) -> Rank | None:
    """The rank of a pod of ours; None if its labels do not say."""
    rank = labels_of(data).get(RANK, "")
    return Rank(int(rank)) if rank.isdecimal() else None


def epoch_of(data: Json) -> Epoch:
    """The leadership term that made an object of ours; 0 if its labels do not say."""
    epoch = labels_of(data).get(EPOCH, "")
    return Epoch(int(epoch) if epoch.isdecimal() else 0)
