"""What the server says about nodes and topology."""

from pydantic import Field

from api.job_files.scalars import Text
from api.wire import API_VERSION, Reply, Wire


class NodeView(Reply):
    """One machine."""

    name: str
    pool: str
    gpu_model: str
    gpus: int
    """GPUs that jobs may use when the node is empty."""
    gpus_held: int
    """GPUs reserved by jobs now."""
    gpus_foreign: int = 0
    """GPUs that others hold, on top of `gpus`."""
    cpus: float
    memory_bytes: int
    path: dict[str, str]
    """Topology domain by level, closest first; empty where the node's label is missing."""
    labels: dict[str, str]
    taints: list[str] = Field(default_factory=list)
    is_ready: bool
    is_cordoned: bool
    """Whether no new workers come to it, by `dally cordon` or by the cluster."""
    is_draining: bool = False
    """Whether its gangs are stopped as well, by `dally drain`."""
    cordon_reason: str = ""
    """What the admin said who cordoned or drained it."""
    cordoned_by: str = ""
    """That admin; empty where nobody has by Dally."""
    left_alone_reason: str = ""
    """Why it gets no new workers for a while, e.g. `SuspectNode`; ended by `dally uncordon`."""
    left_alone_until: str | None = None
    unready_reason: str = ""
    jobs: list[str]
    """`PROJECT/NAME` of the jobs that hold something on it; only those the caller may see."""


class CordonRequest(Wire):
    """Why a node is cordoned or drained."""

    reason: Text = ""
    """Told in `why`, in events and by `describe node`."""


class NodeList(Reply):
    """All nodes, by name."""

    api_version: str = API_VERSION
    kind: str = "NodeList"
    items: list[NodeView]
    safe_mode: str = ""
    """Why nothing is started or stopped; empty while all is normal."""


class LevelView(Reply):
    """One rung of the topology."""

    name: str
    label: str


class DomainView(Reply):
    """One topology domain with what lies in it."""

    level: str
    name: str
    """Its path, widest first."""
    is_known: bool = True
    """False where the label of a level is missing on its nodes."""
    nodes: int
    gpus: int
    gpus_held: int
    domains: list["DomainView"] = Field(default_factory=list)
    """Domains of the next closer level; empty just above the nodes."""
    node_names: list[str] = Field(default_factory=list)


class TopologyView(Reply):
    """Levels, closest first, and the domains, widest first."""

    api_version: str = API_VERSION
    kind: str = "Topology"
    levels: list[LevelView]
    domains: list[DomainView]
