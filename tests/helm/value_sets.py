"""Values as people set them, each with the kinds of objects that come of them."""

from dataclasses import dataclass, field
from typing import Any

ALWAYS = {
    *("ClusterRole", "ClusterRoleBinding", "ConfigMap", "Deployment", "Namespace", "Pod"),
    *("Role", "RoleBinding", "Secret", "Service", "ServiceAccount"),
}
POSTGRES = "postgresql://dally:hunter2@postgres.example.com/dally"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueSet:
    """Values, and what the chart must make of them."""

    values: dict[str, Any]
    adds: set[str] = field(default_factory=set)
    """Kinds beyond those that are always there."""
    lacks: set[str] = field(default_factory=set)


VALUE_SETS = {
    "defaults": ValueSet(values={}, adds={"PersistentVolumeClaim"}),
    "sqlite without a volume": ValueSet(values={"persistence": {"enabled": False}}),
    "sqlite on a claim of the admin's": ValueSet(values={"persistence": {"existingClaim": "mine"}}),
    "a volume made by hand": ValueSet(
        values={"persistence": {"storageClass": "-", "selector": {"volume": "dally"}}},
        adds={"PersistentVolumeClaim"},
    ),
    "postgres by url, three servers": ValueSet(
        values={"replicaCount": 3, "database": {"url": POSTGRES}},
        adds={"Job", "PodDisruptionBudget"},
    ),
    "postgres by secret, all secrets given": ValueSet(
        values={
            "database": {"existingSecret": {"name": "db", "key": "uri"}},
            "adminToken": {"existingSecret": {"name": "mine", "key": "admin"}},
        },
        adds={"Job"},
        lacks={"Secret"},
    ),
    "exclusive and shared pools": ValueSet(
        values={
            "config": {
                "pools": [
                    {"name": "a100", "nodeSelector": {"pool": "a100"}},
                    {"name": "t4", "nodeSelector": {"pool": "t4"}, "mode": "shared"},
                ],
                "topology": {"levels": [{"name": "rack", "label": "example.com/rack"}]},
                "queues": [{"name": "research", "policy": "fifo-backfill"}],
                "projects": [
                    {"name": "vision", "queues": ["research"], "namespace": "vision-jobs"}
                ],
                "server": {"logLevel": "info"},
            },
            "jobNamespaces": {"names": ["dally-jobs", "vision-jobs"]},
        },
        adds={
            *("PersistentVolumeClaim", "ValidatingAdmissionPolicy"),
            "ValidatingAdmissionPolicyBinding",
        },
    ),
    "ingress with TLS": ValueSet(
        values={
            "ingress": {
                "enabled": True,
                "className": "nginx",
                "host": "dally.example.com",
                "tlsSecret": "dally-tls",
            }
        },
        adds={"Ingress", "PersistentVolumeClaim"},
    ),
    "gateway": ValueSet(
        values={
            "gateway": {
                "enabled": True,
                "parentRefs": [{"name": "public", "namespace": "gateways"}],
                "hostnames": ["dally.example.com"],
            }
        },
        adds={"HTTPRoute", "PersistentVolumeClaim"},
    ),
    "monitoring and network policies": ValueSet(
        values={
            "metrics": {
                "port": 9100,
                "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
                "prometheusRule": {"enabled": True},
                "dashboard": {"enabled": True},
            },
            "networkPolicy": {
                "enabled": True,
                "allowFrom": [{"namespaceSelector": {"matchLabels": {"name": "ingress"}}}],
                "allowMetricsFrom": [{"namespaceSelector": {"matchLabels": {"name": "metrics"}}}],
            },
        },
        adds={"NetworkPolicy", "PersistentVolumeClaim", "PrometheusRule", "ServiceMonitor"},
    ),
    "rights and accounts given by the admin": ValueSet(
        values={
            "rbac": {"create": False},
            "serviceAccount": {"create": False, "name": "given"},
            "jobNamespaces": {"names": ["team-a", "team-b"], "create": False},
            "metrics": {"enabled": False},
            "tests": {"runJob": True, "image": "busybox:1"},
        },
        adds={"PersistentVolumeClaim"},
        lacks={
            *("ClusterRole", "ClusterRoleBinding", "Namespace", "Role", "RoleBinding"),
            "ServiceAccount",
        },
    ),
    "every escape hatch": ValueSet(
        values={
            "global": {
                "imageRegistry": "mirror.example.com",
                "imagePullSecrets": [{"name": "mirror"}],
            },
            "fullnameOverride": "scheduler",
            "commonLabels": {"team": "platform"},
            "image": {"registry": "ghcr.io", "digest": f"sha256:{'0' * 64}"},
            "imagePullSecrets": [{"name": "own"}],
            "podAnnotations": {"example.com/note": "hello"},
            "podLabels": {"example.com/tier": "control"},
            "nodeSelector": {"example.com/role": "control"},
            "tolerations": [{"key": "control", "operator": "Exists"}],
            "affinity": {"nodeAffinity": {}},
            "priorityClassName": "system-cluster-critical",
            "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
            "extraEnvFrom": [{"configMapRef": {"name": "more", "optional": True}}],
            "extraVolumes": [{"name": "ca", "configMap": {"name": "ca", "optional": True}}],
            "extraVolumeMounts": [{"name": "ca", "mountPath": "/etc/ca", "readOnly": True}],
            "extraObjects": [
                {
                    "apiVersion": "v1",
                    "kind": "ResourceQuota",
                    "metadata": {"name": "{{ .Release.Name }}-quota", "namespace": "dally-jobs"},
                    "spec": {"hard": {"pods": "100"}},
                }
            ],
        },
        adds={"PersistentVolumeClaim", "ResourceQuota"},
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Values that can not be, and what is said of them."""

    values: dict[str, Any]
    says: str


REFUSED = {
    "a misspelt value": Refused(values={"replicas": 2}, says="additional properties 'replicas'"),
    "a misspelt value further in": Refused(
        values={"persistence": {"sise": "1Gi"}}, says="additional properties 'sise'"
    ),
    "a misspelt part of the configuration": Refused(
        values={"config": {"queue": []}}, says="additional properties 'queue'"
    ),
    "a size without a unit": Refused(
        values={"persistence": {"size": "10"}}, says="/persistence/size"
    ),
    "a URL of another database": Refused(
        values={"database": {"url": "mysql://x"}}, says="/database/url"
    ),
    "two servers on SQLite": Refused(
        values={"replicaCount": 2}, says="replicaCount is 2, and SQLite has one server"
    ),
    "two places for the URL": Refused(
        values={"database": {"url": POSTGRES, "existingSecret": {"name": "db"}}},
        says="both say where the URL is",
    ),
    "an ingress without a host": Refused(
        values={"ingress": {"enabled": True}}, says="ingress.enabled needs ingress.host"
    ),
    "a route without a gateway": Refused(
        values={"gateway": {"enabled": True}}, says="gateway.enabled needs gateway.parentRefs"
    ),
    "a monitor of no metrics": Refused(
        values={"metrics": {"enabled": False, "serviceMonitor": {"enabled": True}}},
        says="metrics.serviceMonitor.enabled needs metrics.enabled",
    ),
    "metrics on the port of the API": Refused(
        values={"metrics": {"port": 8470}}, says="metrics.port is 8470, which is the API's"
    ),
    "rights for nobody": Refused(
        values={"serviceAccount": {"create": False}}, says="name the account that gets the rights"
    ),
    "workers beside the server": Refused(
        values={"jobNamespaces": {"names": ["dally-system"]}},
        says="dally-system, which is the namespace of the release",
    ),
    "a setting of the chart's": Refused(
        values={"config": {"server": {"port": 80}}}, says="config.server.port is set by the chart"
    ),
    "a project in a namespace without rights": Refused(
        values={"config": {"projects": [{"name": "vision", "namespace": "elsewhere"}]}},
        says="the namespace elsewhere of project vision is not in jobNamespaces.names",
    ),
    "a pool of an unknown mode": Refused(
        values={"config": {"pools": [{"name": "a", "mode": "own"}]}}, says="/config/pools/0/mode"
    ),
    "no namespace for workers": Refused(
        values={"jobNamespaces": {"names": []}}, says="/jobNamespaces/names"
    ),
    "a label that selectors use": Refused(
        values={"podLabels": {"app.kubernetes.io/name": "other"}},
        says="podLabels.app.kubernetes.io/name is set by the chart",
    ),
    "a label of the chart's on every object": Refused(
        values={"commonLabels": {"app.kubernetes.io/instance": "other"}},
        says="commonLabels.app.kubernetes.io/instance is set by the chart",
    ),
    "a section without anything": Refused(
        values={"database": None}, says="missing property 'database'"
    ),
    "no settings at all": Refused(
        values={"config": {"server": None}}, says="at '/config': missing property 'server'"
    ),
    "no port": Refused(
        values={"service": {"port": None}}, says="at '/service': missing property 'port'"
    ),
    "a project without a name": Refused(
        values={"config": {"projects": [{"namespace": "dally-jobs"}]}},
        says="at '/config/projects/0': missing property 'name'",
    ),
    "a project in a namespace that is a number": Refused(
        values={"config": {"projects": [{"name": "vision", "namespace": 1}]}},
        says="/config/projects/0/namespace",
    ),
    "a disruption of many": Refused(
        values={"podDisruptionBudget": {"maxUnavailable": "many"}},
        says="/podDisruptionBudget/maxUnavailable",
    ),
    "a URL in place of a host": Refused(
        values={"ingress": {"enabled": True, "host": "https://dally.example.com"}},
        says="/ingress/host",
    ),
    "a path with a blank": Refused(values={"ingress": {"path": "/a b"}}, says="/ingress/path"),
    "a name that is none": Refused(
        values={"fullnameOverride": "My Dally"}, says="/fullnameOverride"
    ),
    "an image with a command": Refused(values={"tests": {"image": "a; b"}}, says="/tests/image"),
    "a misspelt setting of the server": Refused(
        values={"config": {"server": {"logLevl": "info"}}},
        says="at '/config/server': additional properties 'logLevl' not allowed",
    ),
}
