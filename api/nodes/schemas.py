"""What the server says about nodes and topology."""

from pydantic import Field

from api.wire import API_VERSION, Reply


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
    unready_reason: str = ""
    jobs: list[str]
    """`PROJECT/NAME` of the jobs that hold something on it; only those the caller may see."""


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
