"""Job files that ask for what they must not have: none becomes a pod that breaks a rule."""

import pytest

from api.documents.document import Json
from scheduler.domain.errors import InvalidSpecError
from scheduler.domain.ids import ProjectName
from tests.unit.adapters.kubernetes.admins import DEFAULT, ROOTED, a_pod_of, a_spec, broken_by

Spec = dict[str, Json]


def volume(**more: Json) -> Spec:
    return {"volumes": [{"name": "v", "mountPath": "/data", **more}]}


def secret(**more: Json) -> Spec:
    return {"secrets": [{"secretRef": "wandb/key", "env": "KEY", **more}]}


FIELDS: Spec = {
    "hostNetwork": True,
    "hostPID": True,
    "hostIPC": True,
    "hostUsers": False,
    "privileged": True,
    "serviceAccountName": "admin",
    "automountServiceAccountToken": True,
    "nodeName": "n1",
    "nodeSelector": {"a": "b"},
    "schedulerName": "mine",
    "priorityClassName": "system-node-critical",
    "runtimeClassName": "privileged",
    "securityContext": {"privileged": True},
    "tolerations": [{"operator": "Exists"}],
    "initContainers": [{"name": "x", "image": "x"}],
    "ephemeralContainers": [{"name": "x"}],
    "containers": [{"name": "x"}],
    "hostAliases": [{"ip": "1.2.3.4"}],
    "dnsConfig": {},
    "shareProcessNamespace": True,
    "podSpecPatch": "{}",
    "lifecycle": {"postStart": {"httpGet": {"host": "169.254.169.254"}}},
    "livenessProbe": {"httpGet": {"host": "169.254.169.254"}},
    "envFrom": [{"secretRef": {"name": "admin"}}],
    "volumeDevices": [{}],
    "ports": [{"hostPort": 22}],
    "annotations": {"sidecar.istio.io/inject": "true"},
    "finalizers": ["x/y"],
    "ownerReferences": [],
    "resourceClaims": [{}],
    "capabilities": ["SYS_ADMIN"],
}
"""Of pods, and not of job files."""

REFUSED: dict[str, Spec] = {
    **{f"the field {name}": {name: value} for name, value in FIELDS.items()},
    # Volumes.
    "a path of the host": volume(hostPath={"path": "/"}),
    "a projected token": volume(projected={"sources": []}),
    "a driver": volume(csi={"driver": "x"}),
    "an export of their own": volume(nfs={"server": "x", "path": "/"}),
    "another gang's ConfigMap": volume(configMap="jabcdefghij-a0"),
    "a shared mount that is not there": volume(shared="/etc"),
    "a shared mount by a way up": volume(shared="datasets", subPath="../private"),
    "a part of a claim by a way up": volume(claim="c", subPath="a/../../b"),
    "a part of a claim from the root": volume(claim="c", subPath="/etc"),
    "a claim whose name is a path": volume(claim="../x"),
    "a volume over everything": volume(claim="c", mountPath="/"),
    "a volume over /proc": volume(claim="c", mountPath="/proc"),
    "a volume over the devices": volume(claim="c", mountPath="/dev/../dev"),
    "a volume over a device": volume(claim="c", mountPath="/dev/nvidia0"),
    "a volume over the gang's folder": volume(configMap="mine", mountPath="/etc/dally"),
    "a volume over the service account": volume(
        claim="c", mountPath="/var/run/secrets/kubernetes.io/serviceaccount"
    ),
    "propagation": volume(claim="c", mountPropagation="Bidirectional"),
    "a part by a variable": volume(claim="c", subPathExpr="$(HOME)"),
    # Secrets.
    "another secret": secret(secretRef="admin/key"),
    "a whole secret": secret(secretRef="wandb"),
    "a secret by a way up": secret(secretRef="wandb/../admin"),
    "a secret as LD_PRELOAD": secret(env="LD_PRELOAD"),
    "a secret as a file of the gang": secret(env=None, file="/etc/dally/hostfile"),
    # Variables, image, profile, resources.
    "LD_PRELOAD": {"env": {"LD_PRELOAD": "/data/evil.so"}},
    "every GPU of the node": {"env": {"NVIDIA_VISIBLE_DEVICES": "all"}},
    "a variable of ours": {"env": {"DALLY_API_URL": "http://evil"}},
    "a variable with a source": {"env": {"X": {"valueFrom": {"fieldRef": {}}}}},
    "a variable's name": {"env": {"A=B": "x"}},
    "an image that is an option": {"image": "--privileged"},
    "an image with a line break": {"image": "a\nb"},
    "no image": {"image": ""},
    "a profile that is not theirs": {"podProfile": "root"},
    "a device by hand": {"resources": {"example.com/device": 1}},
    "a grace without end": {"checkpoint": {"grace": "1000h"}},
    "no grace": {"checkpoint": {"grace": "0s"}},
    "a folder by a way up": {"workingDir": "/a/../../etc"},
    "a name of a label of ours": {"labels": {"dally.internal/instance": "theirs"}},
}
"""Refused at submission."""

HARMLESS: dict[str, Spec] = {
    "a shell's words": {"command": ["sh", "-c", "$(DALLY_RANK); `id`; ${HOME}"]},
    "Kubernetes' own references": {"env": {"X": "$(POD_IP) $$(HOME)"}},
    "a ConfigMap of everybody": volume(configMap="kube-root-ca.crt"),
    "the folder of the runtime's configuration": volume(claim="c", mountPath="/etc"),
    "a role's name like ours": {
        "roles": [{"name": "main", "workers": 1, "gpusPerWorker": 1}],
        "gpusPerWorker": None,
    },
    "a variable as long as it may be": {"env": {"X": "x" * 4096}},
    "a file beside others": secret(env=None, file="/etc/passwd"),
    "a profile of theirs": {"podProfile": "rdma"},
}
"""Taken, and well confined."""


@pytest.mark.parametrize("project", [DEFAULT, ROOTED])
@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_file_is_refused_at_submission(name: str, project: ProjectName) -> None:
    with pytest.raises(InvalidSpecError):
        a_spec(REFUSED[name], project)


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_taken_becomes_a_pod_that_keeps_every_rule(name: str) -> None:
    spec = a_spec(HARMLESS[name])
    assert broken_by(a_pod_of(spec), spec) == []


def test_there_are_sixty_and_more() -> None:
    assert len(REFUSED) + len(HARMLESS) >= 60
