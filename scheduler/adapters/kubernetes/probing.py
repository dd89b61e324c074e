"""One look at a cluster, to say whether a server could work with it."""

from collections.abc import Sequence

from scheduler.adapters.kubernetes.access import Access
from scheduler.adapters.kubernetes.budget import Budget
from scheduler.adapters.kubernetes.client import ApiServer
from scheduler.adapters.kubernetes.errors import ApiFailure
from scheduler.adapters.kubernetes.objects import number, parts
from scheduler.adapters.kubernetes.watch import collection
from scheduler.domain.errors import ClusterUnavailableError

REQUESTS_PER_SECOND = 20.0


def look(access: Access, namespaces: Sequence[str]) -> int:
    """The number of nodes, if nodes, pods and ConfigMaps may be read.

    Raises ClusterUnavailableError.
    """
    server = ApiServer(access, Budget(REQUESTS_PER_SECOND))
    try:
        page = server.get("/api/v1/nodes", {"limit": "1"})
        for namespace in namespaces:
            for plural in ("pods", "configmaps", "services"):
                server.get(collection(namespace, plural), {"limit": "1"})
    except ApiFailure as failure:
        raise ClusterUnavailableError(f"the API server says: {failure.message}") from failure
    finally:
        server.close()
    return len(parts(page, "items")) + (number(page, "metadata", "remainingItemCount") or 0)
