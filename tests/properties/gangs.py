"""Small clusters and gangs, drawn by Hypothesis."""

from dataclasses import dataclass, replace

from hypothesis import strategies as st

from scheduler.domain.gang import GangRequest, RoleRequest
from scheduler.domain.ids import GpuModel, LevelName, NodeName, PoolName, RoleName
from scheduler.domain.job import Slice
from scheduler.domain.resources import NOTHING, Resources
from scheduler.domain.topology import Level, Node, TopologyTree, topology_tree
from scheduler.engine.free_gpus import FreeGpus

LEVELS = (
    Level(name=LevelName("rack"), label="rack"),
    Level(name=LevelName("block"), label="block"),
)
CPU = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Nodes, and what is held on each of them from the start."""

    nodes: tuple[Node, ...]
    held: tuple[int, ...]
    """GPUs per node."""

    @property
    def tree(self) -> TopologyTree:
        """Of these nodes."""
        return topology_tree(LEVELS, self.nodes)

    def pad(self) -> FreeGpus:
        """A scratch pad of its own."""
        free = FreeGpus(self.tree, self.nodes)
        for node, held in zip(self.nodes, self.held, strict=True):
            if held:
                free.take_worker(node.name, held)
        return free

    def with_free_node(self, node: Node) -> "World":
        """One more node that nobody uses."""
        return World(nodes=(*self.nodes, node), held=(*self.held, 0))


@st.composite
def nodes(draw: st.DrawFn, name: str, *, is_odd: bool = False) -> Node:
    """A node; an odd one may miss labels, be out of use, or lack CPUs, memory and seats."""
    rack, block = draw(st.sampled_from("123")), draw(st.sampled_from("12"))
    node = Node(
        name=NodeName(name),
        gpus=draw(st.integers(0, 4)),
        gpu_model=GpuModel(draw(st.sampled_from(["A", "A", "B"]))) if is_odd else GpuModel("A"),
        path=(f"b{block}", f"r{rack}"),
        resources=Resources(cpu_milli=8 * CPU),
    )
    if not is_odd:
        return node
    return replace(
        node,
        path=draw(st.sampled_from([node.path, node.path, node.path, ("", ""), (node.path[0], "")])),
        resources=Resources(cpu_milli=draw(st.integers(0, 6)) * CPU),
        workers_max=draw(st.sampled_from([None, None, 2])),
        pool=PoolName(draw(st.sampled_from(["default", "default", "other"]))),
        is_ready=draw(st.integers(0, 7)) > 0,
        is_cordoned=draw(st.integers(0, 7)) == 0,
        taints=draw(st.sampled_from([(), (), (), ("a=b:NoSchedule",)])),
    )


@st.composite
def worlds(draw: st.DrawFn, *, is_odd: bool = False, nodes_max: int = 7) -> World:
    """A small cluster."""
    made = [
        draw(nodes(f"n{number}", is_odd=is_odd))
        for number in range(draw(st.integers(1, nodes_max)))
    ]
    return World(nodes=tuple(made), held=tuple(draw(st.integers(0, node.gpus)) for node in made))


@st.composite
def plain_gangs(draw: st.DrawFn) -> GangRequest:
    """Equal workers that may go anywhere, or within one level."""
    role = RoleRequest(
        name=RoleName("worker"), workers=draw(st.integers(1, 8)), gpus=draw(st.integers(1, 4))
    )
    return GangRequest(roles=(role,), required=draw(_levels()))


@st.composite
def role_requests(draw: st.DrawFn, name: str, *, workers_max: int = 6) -> RoleRequest:
    """A role with any needs and rules."""
    workers = draw(st.integers(1, workers_max))
    inner = draw(st.sampled_from([size for size in (1, 2, 3) if workers % size == 0]))
    outer = draw(st.sampled_from([size for size in (2, 3, 4, 6) if workers % size == 0] or [1]))
    slices = draw(
        st.sampled_from(
            [
                (),
                (),
                (Slice(workers=outer, within=LevelName("rack")),),
                (Slice(workers=inner, within=LevelName("node")),),
                (
                    Slice(workers=outer, within=LevelName("rack")),
                    Slice(workers=inner if outer % inner == 0 else 1, within=LevelName("node")),
                ),
            ]
        )
    )
    is_spread = draw(st.integers(0, 3)) == 0 and not slices
    return RoleRequest(
        name=RoleName(name),
        workers=workers,
        gpus=draw(st.integers(0, 3)),
        resources=draw(
            st.sampled_from([NOTHING, Resources(cpu_milli=CPU), Resources(cpu_milli=3 * CPU)])
        ),
        pool=draw(st.sampled_from([None, None, None, PoolName("default")])),
        slices=slices,
        spread_by=LevelName("rack") if is_spread else None,
        spread_workers_max=draw(st.integers(1, 2)) if is_spread else 0,
    )


@st.composite
def gangs_found_if_any(draw: st.DrawFn) -> GangRequest:
    """A gang that is placed whenever that is possible.

    Roles are seated one after another; all ways are tried only where they may go anywhere. So of
    several roles with slices or a spread, some that could be placed are not.
    """
    gang = draw(gangs())
    if len(gang.roles) == 1 or (len(gang.roles) == 2 and gang.roles[-1].workers == 1):
        return gang
    return replace(
        gang,
        roles=tuple(
            replace(role, slices=(), spread_by=None, spread_workers_max=0) for role in gang.roles
        ),
    )


@st.composite
def small_gangs(draw: st.DrawFn, *, roles_max: int = 3) -> GangRequest:
    """A gang of any kind for which every way can be tried."""
    return draw(gangs(roles_max=roles_max, workers_max=4 if roles_max == 1 else 2))


@st.composite
def gangs(draw: st.DrawFn, *, roles_max: int = 3, workers_max: int = 6) -> GangRequest:
    """A gang of any kind."""
    count = draw(st.integers(1, roles_max))
    return GangRequest(
        roles=tuple(
            draw(role_requests(f"role{number}", workers_max=workers_max)) for number in range(count)
        ),
        models=draw(st.sampled_from([(), (), (GpuModel("A"),), (GpuModel("B"), GpuModel("A"))])),
        mixes_models=draw(st.booleans()),
        required=draw(_levels()),
        excluded=draw(st.sampled_from([frozenset(), frozenset(), frozenset({NodeName("n0")})])),
    )


def _levels() -> st.SearchStrategy[LevelName | None]:
    return st.sampled_from([None, None, LevelName("node"), LevelName("rack"), LevelName("block")])
