"""Cases of KAI-Scheduler with a topology, answered by our engine: feasible or not, and the nodes.

Only what placing decides is asked: jobs in the order of their priority, each on what is free.
Cases that need quotas, evictions or consolidation are left out. KAI takes equal racks in another
order than we do, so nodes are compared up to exchanging domains that are alike.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduler.domain.gang import GangRequest, RoleRequest
from scheduler.domain.ids import GpuModel, LevelName, NodeName, RoleName
from scheduler.domain.placement import Placement
from scheduler.domain.resources import Resources
from scheduler.domain.topology import Level, Node, topology_tree
from scheduler.engine.choosing import Rules, TieBreak
from scheduler.engine.free_gpus import FreeGpus
from scheduler.engine.placing import place_gang
from tests.conformance.forms import Json, KaiCase, UnreadableCaseError, read
from tests.conformance.verdict import Compare, Verdict

_PLACING = {"allocate", "full_cycle:allocate"}
"""Actions that evict and move nothing."""

_HOLDING = {"Running", "Binding", "Releasing", "Bound", "Allocated"}
_STARTED = {"Running", "Binding", "Bound"}
_ROLE = RoleName("task")

Tasks = Mapping[NodeName, int]
"""Tasks of one job per node."""


COMPARES = (Compare.FEASIBLE, Compare.NODES)


def judge(case: Json) -> Verdict:
    """How our answers to a case compare with the expected ones. Raises UnreadableCaseError."""
    case = {"id": case["id"], "name": str(case.get("name", "")), **read(KaiCase, case)}
    reason = _left_out(case)
    if reason:
        return Verdict(case=case["id"], name=case["name"], left_out=reason)
    world = _World(case)
    agrees = {Compare.FEASIBLE: True}
    differs: list[str] = []
    for job in sorted(_pending(case), key=lambda job: -job["Priority"]):
        expected = _expected(case, job)
        before = world.shape(job)
        found = world.place(job)
        if expected is None:
            continue
        agrees[Compare.FEASIBLE] &= (found is not None) == expected.is_started
        is_alike = True
        if found is not None and expected.tasks:
            is_alike = before.canonical(found) == before.canonical(expected.tasks)
            agrees[Compare.NODES] = agrees.get(Compare.NODES, True) and is_alike
        if (found is not None) != expected.is_started or not is_alike:
            differs.append(f"{job['Name']}: expected {expected}, got {found}")
    return Verdict(case=case["id"], name=case["name"], agrees=agrees, differs="; ".join(differs))


def _left_out(case: Json) -> str:
    if not case["topologies"]:
        return "no topology"
    if case["actions"] not in _PLACING:
        return "needs evictions or consolidation"
    if any(task["State"] == "Releasing" for job in case["jobs"] for task in job["Tasks"]):
        return "waits for victims to leave"
    if any(job["RequiredGPUsPerTask"] % 1 for job in case["jobs"]):
        return "tasks share a GPU"
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Expected:
    """What the case says about one pending job."""

    is_started: bool
    tasks: Tasks
    """Empty where the case does not name the nodes."""


def _expected(case: Json, job: Json) -> _Expected | None:
    expected = case["expected"]
    whole = expected["jobs"].get(job["Name"])
    prefix = f"{job['Name']}-"
    single = [
        facts
        for task, facts in expected["tasks"].items()
        if task.startswith(prefix) and task.removeprefix(prefix).isdigit()
    ]
    facts = [whole] if whole is not None else single
    if not facts:
        return None
    tasks: Counter[NodeName] = Counter()
    if single and all("NodeName" in task for task in single):
        tasks.update(NodeName(task["NodeName"]) for task in single)
    elif whole is not None and "NodeName" in whole:
        tasks[NodeName(whole["NodeName"])] = len(job["Tasks"])
    return _Expected(is_started=all(fact["Status"] in _STARTED for fact in facts), tasks=tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """The cluster as one job finds it."""

    paths: Mapping[NodeName, tuple[str, ...]]
    free: Mapping[NodeName, int]

    def canonical(self, tasks: Tasks) -> object:
        """Equal for two answers that differ only in which of several like domains they use."""
        return self._canonical(tuple(sorted(self.paths)), 0, tasks)

    def _canonical(self, nodes: Sequence[NodeName], depth: int, tasks: Tasks) -> object:
        if depth == len(self.paths[nodes[0]]):
            return sorted((self.free[node], tasks.get(node, 0)) for node in nodes)
        inside: dict[str, list[NodeName]] = {}
        for node in nodes:
            inside.setdefault(self.paths[node][depth], []).append(node)
        return sorted(
            (repr(self._canonical(part, depth + 1, tasks)) for part in inside.values()),
        )


class _World:
    """One scratch pad per topology: the same nodes under other levels."""

    def __init__(self, case: Json) -> None:
        self._topologies: dict[str, list[str]] = {
            topology["name"]: topology["levels"] for topology in case["topologies"]
        }
        self._pads = {name: _free(case["nodes"], keys) for name, keys in self._topologies.items()}
        self._pads[""] = _free(case["nodes"], [])
        for job in case["jobs"]:
            for task in job["Tasks"]:
                if task["State"] in _HOLDING:
                    node = NodeName(task.get("NodeName", ""))
                    if node not in self._pads[""].tree.index_of:
                        raise UnreadableCaseError(
                            f"{job['Name']} runs on {node or 'no node'}: there is no such node"
                        )
                    for pad in self._pads.values():
                        pad.take_worker(node, _gpus(job), _resources(job))

    def shape(self, job: Json) -> _Shape:
        """What the job finds."""
        pad = self._pad(job)
        return _Shape(
            paths=dict(zip(pad.tree.nodes, pad.tree.paths, strict=True)),
            free={name: pad.gpus_on(name) for name in pad.tree.nodes},
        )

    def place(self, job: Json) -> Tasks | None:
        """Our placement, taken on every pad; None where there is none."""
        topology = job.get("topology", {})
        required, preferred = topology.get("required"), topology.get("preferred")
        start = preferred or required
        request = GangRequest(
            roles=(
                RoleRequest(
                    name=_ROLE,
                    workers=len(job["Tasks"]),
                    gpus=_gpus(job),
                    resources=_resources(job),
                ),
            ),
            required=LevelName(required) if required else None,
        )
        rules = Rules(tie_break=TieBreak.KUEUE, starts_at=LevelName(start) if start else None)
        found = place_gang(request, self._pad(job), rules)
        if not isinstance(found, Placement):
            return None
        for pad in self._pads.values():
            for node in (node for _, node in found.node_of_ranks()):
                pad.take_worker(node, _gpus(job), _resources(job))
        return {assignment.node: assignment.workers for assignment in found.assignments}

    def _pad(self, job: Json) -> FreeGpus:
        name = job.get("topology", {}).get("topology", "")
        if name not in self._pads:
            raise UnreadableCaseError(f"{job['Name']} names the topology {name}: there is none")
        return self._pads[name]


def _free(nodes: Sequence[Json], keys: Sequence[str]) -> FreeGpus:
    made = [
        Node(
            name=NodeName(node["name"]),
            gpus=node["gpus"],
            gpu_model=GpuModel(node.get("GPUName", "")),
            resources=Resources(cpu_milli=node["CPUMillis"], memory_bytes=node["CPUMemory"]),
            path=tuple(node["labels"].get(key, "") for key in keys),
        )
        for node in nodes
    ]
    levels = [Level(name=LevelName(key), label=key) for key in reversed(keys)]
    return FreeGpus(topology_tree(levels, made), made)


def _pending(case: Json) -> list[Json]:
    return [job for job in case["jobs"] if all(task["State"] == "Pending" for task in job["Tasks"])]


def _gpus(job: Json) -> int:
    return int(job["RequiredGPUsPerTask"])


def _resources(job: Json) -> Resources:
    return Resources(
        cpu_milli=job["RequiredCPUsPerTask"],
        memory_bytes=job["RequiredMemoryPerTask"],
    )
