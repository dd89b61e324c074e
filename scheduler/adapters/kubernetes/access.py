"""Where the API server is and who we are to it: by the operator's kubeconfig, or by our own pod.

A kubeconfig can run programs; it comes from a file the operator names, never from a request.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import cast

import urllib3
from kubernetes.client import ApiClient, Configuration
from kubernetes.config import ConfigException, load_incluster_config
from kubernetes.config.kube_config import load_kube_config

from scheduler.domain.errors import ClusterUnavailableError

CONNECTIONS_MAX = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One way to a cluster."""

    kubeconfig: Path | None = None
    """None: the service account of the pod that this process runs in."""
    context: str = ""
    """Of the kubeconfig; empty: its current one."""


class Session:
    """Connections of one reading of the credentials."""

    def __init__(self, access: Access) -> None:
        """Raises ClusterUnavailableError if the credentials can not be read."""
        configuration = Configuration()
        try:
            if access.kubeconfig is None:
                load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]  # the client's
            else:
                load_kube_config(  # type: ignore[no-untyped-call]  # the client's
                    config_file=str(access.kubeconfig),
                    context=access.context or None,
                    client_configuration=configuration,
                )
        except (ConfigException, OSError) as error:
            raise ClusterUnavailableError(f"no access to a cluster: {error}") from error
        configuration.connection_pool_maxsize = CONNECTIONS_MAX
        self._configuration = configuration
        self._client = ApiClient(configuration)
        self.url: str = configuration.host.rstrip("/")

    @property
    def pool(self) -> urllib3.PoolManager:
        """The client's connections, with the certificates that belong to them."""
        pool: urllib3.PoolManager = self._client.rest_client.pool_manager
        return pool

    def headers(self) -> dict[str, str]:
        """Who we are; a token from a file is read again when it is due."""
        found = {"User-Agent": "dally", "Accept": "application/json"}
        settings = cast("dict[str, dict[str, str]]", self._configuration.auth_settings())
        for setting in settings.values():
            if setting["in"] == "header" and setting["value"]:
                found[setting["key"]] = setting["value"]
        return found

    def close(self) -> None:
        """Let the connections go."""
        self._client.close()  # type: ignore[no-untyped-call]  # the client's
