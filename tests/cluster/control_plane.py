"""The control plane of a Kubernetes cluster as plain processes: no root, no containers, no nodes.

etcd ◀── kube-apiserver ◀── kube-controller-manager, kube-scheduler, the tests

Nodes are objects that the test writes (nodes.py), and pods come and go as the test plays the
kubelet (kubelet.py). The controller that judges nodes by their heartbeats is left out, so that
a node is what the test says; the one that evicts by taints does not work without it.
"""

import json
import secrets
import signal
import subprocess
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx2

from tests.cluster.api_objects import ApiObjects
from tests.cluster.processes import Processes, free_ports
from tests.cluster.tools import ETCD, KUBERNETES, programs
from tests.not_run import not_run
from tests.polling import wait_until

CONTROLLERS = (
    "endpointslice-controller",
    "garbage-collector-controller",
    "namespace-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "pod-garbage-collector-controller",
    "resourcequota-controller",
    "root-ca-certificate-publisher-controller",
    "serviceaccount-controller",
)
READY_S_MAX = 120.0
LOOPBACK = "127.0.0.1"
# Nothing calls the API by its Service, which may not lead to a loopback address: the advertised one
# is from the range for documentation, and nobody is told of it. A node is what the test says:
# without a controller that takes it away, the taint that this plugin gives new nodes would stay.
WITHOUT_NODES = (
    "--advertise-address=192.0.2.1",
    "--endpoint-reconciler-type=none",
    "--disable-admission-plugins=TaintNodesByCondition",
)
# A node that is lost is found out within a test's patience.
JUDGING_NODES = ("--node-monitor-period=1s", "--node-monitor-grace-period=15s")

JOINS = "DALLY_TEST_CONTROL_PLANE"
"""Names the kubeconfig of a control plane that another process runs, to be used by this one too."""


class ReachedControlPlane:
    """A control plane that runs, and its admin."""

    def __init__(self, url: str, *, token: str, ca: Path, kubeconfig: Path) -> None:
        self.url = url
        self.token = token
        self.ca = ca
        self.kubeconfig = kubeconfig

    @cached_property
    def objects(self) -> ApiObjects:
        """An admin's client."""
        return ApiObjects(self.url, token=self.token, ca=self.ca)

    def restart_api_server(self) -> None:
        """Only who has started it can do that."""
        not_run(f"a control plane of another process ({JOINS}) is not restarted")

    def write_kubeconfig(
        self, path: Path, *, url: str = "", token: str = "", token_file: Path | None = None
    ) -> Path:
        """A kubeconfig for this control plane, or for a proxy in front of it at `url`."""
        user = {"tokenFile": str(token_file)} if token_file else {"token": token or self.token}
        cluster = {"server": url or self.url, "certificate-authority": str(self.ca)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": user}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        }
        path.write_text(json.dumps(config))
        return path


def joined(kubeconfig: Path) -> ReachedControlPlane:
    """The control plane of a kubeconfig that `write_kubeconfig` has written."""
    config = json.loads(kubeconfig.read_text())
    cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    return ReachedControlPlane(
        cluster["server"],
        token=user["token"],
        ca=Path(cluster["certificate-authority"]),
        kubeconfig=kubeconfig,
    )


class ControlPlane(ReachedControlPlane):
    """A control plane that runs here, gone with its data at the end."""

    def __init__(self, folder: Path, *, address: str = LOOPBACK) -> None:
        """`address` is one that pods reach, where whole nodes join; then every controller runs."""
        etcd, peers, api = free_ports(3)
        super().__init__(
            f"https://{address}:{api}",
            token=secrets.token_hex(16),
            ca=folder / "pki" / "apiserver.crt",
            kubeconfig=folder / "kubeconfig",
        )
        self.folder = folder
        self._address = address
        self._etcd = f"http://127.0.0.1:{etcd}"
        self._peers = f"http://127.0.0.1:{peers}"
        self._programs = programs(KUBERNETES, ETCD)
        self._processes = Processes(folder / "logs")
        self._at_end = ExitStack()

    def __enter__(self) -> Self:
        """Start it and wait until it takes pods."""
        with ExitStack() as stack:
            stack.enter_context(self._processes)
            self._start()
            self._at_end = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.objects.close()
        self._at_end.close()

    def restart_api_server(self) -> None:
        """Kill the API server and start it again on the same data."""
        self._processes.end("kube-apiserver", signal.SIGKILL)
        self._start_api_server()
        self._wait_for_api_server()

    def pause_api_server(self) -> None:
        """The API server answers nobody."""
        self._processes.pause("kube-apiserver")

    def resume_api_server(self) -> None:
        """It answers again."""
        self._processes.resume("kube-apiserver")

    def _start(self) -> None:
        (self.folder / "pki").mkdir(parents=True)
        self._make_service_account_key()
        admin = f'{self.token},admin,1,"system:masters"\n'
        (self.folder / "tokens.csv").write_text(admin)
        self.write_kubeconfig(self.kubeconfig)
        self._processes.start(
            "etcd",
            self._programs["etcd"],
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={self._etcd}",
            f"--advertise-client-urls={self._etcd}",
            f"--listen-peer-urls={self._peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )
        self._start_api_server()
        self._wait_for_api_server()
        self._start_controllers()
        self._wait_for_controllers()

    def _make_service_account_key(self) -> None:
        key = self.folder / "pki" / "sa.key"
        try:
            subprocess.run(  # noqa: S603 - fixed words
                ["openssl", "genrsa", "-out", str(key), "2048"],  # noqa: S607 - the system's
                check=True,
                capture_output=True,
            )
        except FileNotFoundError:
            not_run("no openssl")

    def _start_api_server(self) -> None:
        pki = self.folder / "pki"
        self._processes.start(
            "kube-apiserver",
            self._programs["kube-apiserver"],
            f"--etcd-servers={self._etcd}",
            f"--cert-dir={pki}",
            f"--secure-port={self.url.rpartition(':')[2]}",
            f"--bind-address={self._address}",
            *(WITHOUT_NODES if self._address == LOOPBACK else ()),
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={pki / 'sa.key'}",
            f"--service-account-signing-key-file={pki / 'sa.key'}",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--authorization-mode=RBAC",
            "--kubelet-preferred-address-types=InternalIP",
            "--profiling=false",
        )

    def _wait_for_api_server(self) -> None:
        def is_ready() -> bool:
            self._processes.check()
            if not self.ca.exists():
                return False
            try:
                return httpx2.get(f"{self.url}/readyz", verify=False).is_success
            except httpx2.HTTPError:
                return False

        wait_until(is_ready, "the API server is ready", deadline_s=READY_S_MAX)

    def _start_controllers(self) -> None:
        shared = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0")
        self._processes.start(
            "kube-controller-manager",
            self._programs["kube-controller-manager"],
            *shared,
            *(
                (f"--controllers={','.join(CONTROLLERS)}",)
                if self._address == LOOPBACK
                else JUDGING_NODES
            ),
            f"--service-account-private-key-file={self.folder / 'pki' / 'sa.key'}",
            f"--root-ca-file={self.ca}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )
        self._processes.start(
            "kube-scheduler",
            self._programs["kube-scheduler"],
            *shared,
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        )

    def _wait_for_controllers(self) -> None:
        def has_account() -> bool:
            self._processes.check()
            path = "/api/v1/namespaces/default/serviceaccounts/default"
            return self.objects.find(path) is not None

        wait_until(has_account, "controllers work", deadline_s=READY_S_MAX)
