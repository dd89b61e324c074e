"""What the chart makes of values: complete, safe by default, and refusing what can not be."""

import base64
import json
import re
from typing import Any

import pytest
import yaml
from pydantic.alias_generators import to_camel

from scheduler.adapters.prometheus import Metrics
from scheduler.config_file import parse_config
from scheduler.network.presets import PRESETS
from scheduler.policies.registry import POLICIES
from scheduler.settings import TOKEN_PATTERN, Executor, load_settings, setting_names
from server.refusals import refuse_what_can_not_be
from server.release import VERSION
from tests.helm.helm_program import (
    CHART,
    NAMESPACE,
    Helm,
    HelmError,
    Manifest,
    of_kind,
    pods_of,
    the,
)
from tests.helm.value_sets import ALWAYS, POSTGRES, REFUSED, VALUE_SETS, Refused, ValueSet
from tools.reference import chart

LABELS = {
    *("helm.sh/chart", "app.kubernetes.io/name", "app.kubernetes.io/instance"),
    *("app.kubernetes.io/version", "app.kubernetes.io/component", "app.kubernetes.io/part-of"),
    "app.kubernetes.io/managed-by",
}
SELECTED = {
    *("app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"),
}
WITHOUT_NAMESPACE = {
    *("ClusterRole", "ClusterRoleBinding", "Namespace", "ValidatingAdmissionPolicy"),
    "ValidatingAdmissionPolicyBinding",
}
FOREIGN = {"ResourceQuota"}
"""Kinds that only values bring."""
READ = {"get", "list", "watch"}
WORKER_RIGHTS = {
    "pods": READ | {"create", "patch", "delete"},
    "services": READ | {"create", "delete"},
    "configmaps": READ | {"create", "patch", "delete"},
    "pods/log": {"get"},
}
CLUSTER_RIGHTS = {"nodes": READ, "persistentvolumes": READ}


@pytest.fixture(params=VALUE_SETS)
def case(request: pytest.FixtureRequest) -> ValueSet:
    """One set of values after the other."""
    return VALUE_SETS[request.param]


@pytest.fixture
def rendered(helm: Helm, case: ValueSet) -> list[Manifest]:
    """All objects of the chart."""
    return helm.template(case.values)


def test_lint_finds_nothing(helm: Helm, case: ValueSet) -> None:
    said = helm.run("lint", str(CHART), "--strict", values=case.values)
    assert "0 chart(s) failed" in said
    assert "[WARNING]" not in said


def test_the_right_kinds_of_objects_are_made(case: ValueSet, rendered: list[Manifest]) -> None:
    kinds = {manifest["kind"] for manifest in rendered}
    assert kinds == (ALWAYS | case.adds) - case.lacks


def test_every_object_is_labelled_named_and_in_its_place(rendered: list[Manifest]) -> None:
    ours = [manifest for manifest in rendered if manifest["kind"] not in FOREIGN]
    for manifest in ours:
        kind, metadata = manifest["kind"], manifest["metadata"]
        assert set(metadata["labels"]) >= LABELS, kind
        assert len(metadata["name"]) <= 63
        assert ("namespace" in metadata) is (kind not in WITHOUT_NAMESPACE), kind
    names = [
        (manifest["kind"], manifest["metadata"].get("namespace"), manifest["metadata"]["name"])
        for manifest in rendered
    ]
    assert len(set(names)) == len(names)


def test_selectors_hold_only_what_never_changes(rendered: list[Manifest]) -> None:
    deployment = the(rendered, "Deployment")
    assert set(deployment["spec"]["selector"]["matchLabels"]) == SELECTED
    labels = deployment["spec"]["template"]["metadata"]["labels"].items()
    for service in of_kind(rendered, "Service"):
        assert service["spec"]["selector"].items() <= labels


def test_pods_are_confined_and_need_nothing_of_the_node(rendered: list[Manifest]) -> None:
    for what, pod in pods_of(rendered):
        assert pod["securityContext"]["runAsNonRoot"] is True, what
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, what
        assert pod["enableServiceLinks"] is False, what
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod), what
        assert not any("hostPath" in volume for volume in pod["volumes"]), what
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }, what
            assert {"requests", "limits"} == set(container["resources"]), what


def test_only_the_server_gets_a_token_of_the_cluster(rendered: list[Manifest]) -> None:
    for what, pod in pods_of(rendered):
        assert pod["automountServiceAccountToken"] is what.startswith("Deployment"), what


def test_probes_ask_the_routes_that_need_no_token(rendered: list[Manifest]) -> None:
    (server,) = the(rendered, "Deployment")["spec"]["template"]["spec"]["containers"]
    asked = {
        kind: server[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")
    }
    assert asked == {
        "startup": {"path": "/livez", "port": "http"},
        "liveness": {"path": "/livez", "port": "http"},
        "readiness": {"path": "/readyz", "port": "http"},
    }


def test_rights_are_exactly_those_of_the_list(case: ValueSet, rendered: list[Manifest]) -> None:
    for role in of_kind(rendered, "Role"):
        assert role["metadata"]["namespace"] != NAMESPACE
        assert _rights(role) == WORKER_RIGHTS
    for role in of_kind(rendered, "ClusterRole"):
        pools = case.values.get("config", {}).get("pools", [])
        shares = not pools or any(pool.get("mode") == "shared" for pool in pools)
        assert _rights(role) == CLUSTER_RIGHTS | ({"pods": READ} if shares else {})


def test_the_configuration_is_one_that_the_server_takes(rendered: list[Manifest]) -> None:
    text = the(rendered, "ConfigMap", _fullname(rendered))["data"]["dallyd.yaml"]
    config = parse_config(text, source="dallyd.yaml", policies=POLICIES, fabrics=PRESETS)
    (server,) = the(rendered, "Deployment")["spec"]["template"]["spec"]["containers"]
    environ = {entry["name"]: "" for entry in server["env"]}
    settings = load_settings({}, environ=environ, file_values=config.server)
    refuse_what_can_not_be(settings)
    ports = {port["name"]: port["containerPort"] for port in server["ports"]}
    assert (settings.host, settings.port) == ("0.0.0.0", ports["http"])  # noqa: S104 - in a pod
    assert settings.metrics_port == ports.get("metrics", 0)
    assert settings.executor is Executor.KUBERNETES
    service = the(rendered, "Service", _fullname(rendered))
    port = service["spec"]["ports"][0]["port"]
    assert settings.worker_api_url == f"http://{_fullname(rendered)}.{NAMESPACE}.svc:{port}"
    bound = {role["metadata"]["namespace"] for role in of_kind(rendered, "Role")}
    wanted = {settings.job_namespace, *config.namespaces.values()}
    assert wanted <= bound or not bound
    mounts = {mount["name"]: mount["mountPath"] for mount in server["volumeMounts"]}
    assert str(settings.data_dir) == mounts["data"]


def test_no_secret_stands_outside_of_secrets(rendered: list[Manifest]) -> None:
    others = [manifest for manifest in rendered if manifest["kind"] != "Secret"]
    assert "hunter2" not in str(others)
    for secret in of_kind(rendered, "Secret"):
        if "token" in secret.get("data", {}):
            token = base64.b64decode(secret["data"]["token"]).decode()
            assert TOKEN_PATTERN.fullmatch(token)
            assert token not in str(others)


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED.keys())
def test_values_that_can_not_be_fail_and_say_why(helm: Helm, refused: Refused) -> None:
    with pytest.raises(HelmError) as raised:
        helm.template(refused.values)
    assert refused.says in str(raised.value)


def test_sqlite_has_one_server_at_a_time_and_postgres_is_never_without(helm: Helm) -> None:
    sqlite = the(helm.template({}), "Deployment")["spec"]
    assert (sqlite["replicas"], sqlite["strategy"]) == (1, {"type": "Recreate"})
    values = {"database": {"url": POSTGRES}, "replicaCount": 2}
    postgres = the(helm.template(values), "Deployment")["spec"]
    assert postgres["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_the_schema_is_migrated_before_the_servers_change(helm: Helm) -> None:
    rendered = helm.template({"database": {"url": POSTGRES}})
    job, secret = the(rendered, "Job"), the(rendered, "Secret", "dally-migrate")
    assert job["spec"]["template"]["spec"]["containers"][0]["args"] == ["migrate"]
    for hook in (job, secret):
        assert hook["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
        weight = int(hook["metadata"]["annotations"]["helm.sh/hook-weight"])
        assert weight == (0 if hook is job else -10)
    assert not of_kind(helm.template({"migrations": {"enabled": False}}), "Job")


def test_what_holds_jobs_outlives_an_uninstall(helm: Helm) -> None:
    rendered = helm.template({})
    for kind in ("Namespace", "PersistentVolumeClaim"):
        annotations = the(rendered, kind)["metadata"]["annotations"]
        assert annotations["helm.sh/resource-policy"] == "keep", kind


def test_new_settings_replace_the_pods(helm: Helm) -> None:
    checksums = {
        _pod_annotations(helm.template({"config": {"server": server}}))["checksum/config"]
        for server in ({}, {"logLevel": "info"}, {"logLevel": "info"})
    }
    assert len(checksums) == 2


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        pytest.param({}, f"dally:{VERSION}", id="the chart's version"),
        pytest.param({"tag": "main"}, "dally:main", id="a tag"),
        pytest.param(
            {"registry": "r.example.com", "repository": "a/b", "digest": f"sha256:{'1' * 64}"},
            f"r.example.com/a/b@sha256:{'1' * 64}",
            id="a digest wins over the tag",
        ),
    ],
)
def test_the_image_is_named_in_full(helm: Helm, image: dict[str, str], expected: str) -> None:
    for what, pod in pods_of(helm.template({"image": image})):
        assert pod["containers"][0]["image"] == expected, what


def test_names_that_look_like_numbers_stay_names(helm: Helm) -> None:
    values = {
        "nameOverride": "null",
        "jobNamespaces": {"names": ["123", "on"]},
        "serviceAccount": {"name": "7"},
        "persistence": {"storageClass": "1", "existingClaim": ""},
        "adminToken": {"existingSecret": {"name": "0x1", "key": "on"}},
        "ingress": {"enabled": True, "host": "1.5", "className": "2", "tlsSecret": "3"},
        "networkPolicy": {"enabled": True},
        "config": {"pools": [{"name": "a", "mode": "exclusive"}]},
    }
    text = helm.run("template", "456", str(CHART), "--namespace", "789", values=values)
    rendered = [manifest for manifest in yaml.safe_load_all(text) if manifest]
    assert {name["metadata"]["name"] for name in of_kind(rendered, "Namespace")} == {"123", "on"}
    named = {"name", "namespace", "claimName", "secretName", "storageClassName", "key"}
    named |= SELECTED | {"ingressClassName", "serviceAccountName", "kubernetes.io/metadata.name"}
    for manifest in rendered:
        odd = [entry for entry in _entries(manifest) if entry[0] in named]
        assert all(isinstance(value, str) for _, value in odd), (manifest["kind"], odd)


def test_what_is_followed_for_hours_passes_the_ingress(helm: Helm) -> None:
    ingress = the(helm.template(VALUE_SETS["ingress with TLS"].values), "Ingress")
    annotations = ingress["metadata"]["annotations"]
    assert annotations["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"
    assert ingress["spec"]["tls"] == [{"hosts": ["dally.example.com"], "secretName": "dally-tls"}]
    route = the(helm.template(VALUE_SETS["gateway"].values), "HTTPRoute")
    assert route["spec"]["rules"][0]["timeouts"] == {"request": "0s"}


def test_alerts_and_dashboard_ask_for_metrics_that_there_are(helm: Helm) -> None:
    rendered = helm.template(VALUE_SETS["monitoring and network policies"].values)
    dashboard = the(rendered, "ConfigMap", "dally-dashboard")["data"]["dally.json"]
    asked = set(re.findall(r"dally_[a-z_]+", f"{the(rendered, 'PrometheusRule')} {dashboard}"))
    known = set(re.findall(r"^# TYPE (\S+)", Metrics(version=VERSION).text().decode(), re.M))
    known |= {f"{name}_bucket" for name in known}
    assert len(asked) > 5
    assert asked <= known | {"dally_build_info"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        pytest.param({}, "SQLite on the volume dally-data", id="SQLite on a volume"),
        pytest.param({"persistence": {"enabled": False}}, "all jobs are forgotten", id="no volume"),
        pytest.param({}, "plain HTTP inside the cluster", id="no TLS"),
        pytest.param(
            VALUE_SETS["ingress with TLS"].values, "SERVER=https://dally.example.com", id="ingress"
        ),
        pytest.param({}, "get secret dally-admin-token", id="where the token is"),
        pytest.param(
            {"adminToken": {"existingSecret": {"name": "mine", "key": "admin.token"}}},
            r"get secret mine -o jsonpath='{.data.admin\.token}'",
            id="a key with a dot",
        ),
    ],
)
def test_the_notes_say_what_comes_next(helm: Helm, values: dict[str, Any], says: str) -> None:
    said = helm.run(
        *("install", "dally", str(CHART), "--namespace", NAMESPACE, "--dry-run=client"),
        values=values,
    )
    assert says in said.partition("NOTES:")[2]


def test_the_chart_has_the_version_of_the_server() -> None:
    text = (CHART / "Chart.yaml").read_text()
    assert f"\nappVersion: {VERSION}\n" in text


def test_the_schema_knows_the_settings_of_the_server() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    server = schema["properties"]["config"]["properties"]["server"]
    known = {to_camel(name) for name in setting_names() if name != "config"}
    assert set(server.get("properties", ())) == known


def test_every_value_has_a_comment() -> None:
    assert chart.uncommented(chart.VALUES.read_text()) == ()


def _entries(part: Any) -> list[tuple[str, Any]]:
    """Every key with its value, however deep."""
    if isinstance(part, list):
        return [entry for item in part for entry in _entries(item)]
    if isinstance(part, dict):
        return [*part.items(), *(entry for item in part.values() for entry in _entries(item))]
    return []


def _rights(role: Manifest) -> dict[str, set[str]]:
    assert all(rule["apiGroups"] == [""] for rule in role["rules"])
    return {
        resource: set(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]
    }


def _fullname(rendered: list[Manifest]) -> str:
    name: str = the(rendered, "Deployment")["metadata"]["name"]
    return name


def _pod_annotations(rendered: list[Manifest]) -> dict[str, str]:
    found: dict[str, str] = the(rendered, "Deployment")["spec"]["template"]["metadata"][
        "annotations"
    ]
    return found
