"""A placement as a picture of text: the nodes it uses, by rack, GPU by GPU.

block b1
  rack r1                       3 nodes more
    r1-n0  [########]           worker 0
    r1-n1  [####oo..]           worker 1
  rack r2
    ...
# this job   o held by others   . free
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scheduler.domain.ids import NodeName, RoleName
from scheduler.domain.placement import Placement
from scheduler.domain.topology import Node, TopologyTree

GPUS_DRAWN = 16
"""GPUs of a node that are drawn one by one; nodes with more show numbers."""

OURS, OTHERS, FREE = "#", "o", "."


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What of the cluster is in use."""

    gpus_by_node: Mapping[NodeName, int]
    """By all jobs, this one included."""
    gpus_per_worker: Mapping[RoleName, int]
    """Of the roles of the job that is drawn."""


def draw_placement(
    placement: Placement, tree: TopologyTree, nodes: Sequence[Node], held: Held
) -> str:
    """The domains that hold workers, widest first, with their nodes; one line each."""
    picture = _Picture(
        tree=tree,
        nodes={node.name: node for node in nodes},
        held=held,
        ranks=_ranks(placement),
        ours=_gpus(placement, held),
    )
    indices = [tree.index_of[name] for name in picture.ranks if name in tree.index_of]
    lines: list[str] = []
    if indices:
        # From the domain that holds the whole gang down; what lies around it says nothing new.
        top = max(1, tree.tier_of(tree.nodes[index] for index in indices))
        lines += picture.domain(top, tree.domain_of[top][indices[0]], indices, 0)
    gone = [name for name in picture.ranks if name not in tree.index_of]
    lines += [f"{name}  is not in the cluster any more" for name in gone]
    lines.append(f"{OURS} this job   {OTHERS} held by others   {FREE} free")
    return "\n".join(lines)


def _ranks(placement: Placement) -> dict[NodeName, list[str]]:
    """Per node: its workers, as `role first-last`."""
    found: dict[NodeName, list[str]] = {}
    first = 0
    for part in placement.assignments:
        last = first + part.workers - 1
        ranks = f"{first}" if first == last else f"{first}-{last}"
        found.setdefault(part.node, []).append(f"{part.role} {ranks}")
        first = last + 1
    return found


def _gpus(placement: Placement, held: Held) -> Counter[NodeName]:
    ours: Counter[NodeName] = Counter()
    for part in placement.assignments:
        ours[part.node] += part.workers * held.gpus_per_worker.get(part.role, 0)
    return ours


@dataclass(frozen=True, slots=True, kw_only=True)
class _Picture:
    tree: TopologyTree
    nodes: Mapping[NodeName, Node]
    held: Held
    ranks: Mapping[NodeName, list[str]]
    ours: Mapping[NodeName, int]

    def domain(self, level: int, number: int, indices: Sequence[int], depth: int) -> Iterator[str]:
        """One domain with those of its parts that hold workers."""
        domain = self.tree.domains[level][number]
        pad = "  " * depth
        inside = [index for index in indices if index in domain.nodes]
        name = domain.path[-1] or "unknown" if domain.path else ""
        others = len(domain.nodes) - len(inside)
        more = f"   ({others} other node{'s' if others > 1 else ''})" if others else ""
        yield f"{pad}{self.tree.levels[level].name} {name}".rstrip() + more
        if level == 1:
            width = max(len(self.tree.nodes[index]) for index in inside)
            for index in sorted(set(inside)):
                yield f"{pad}  {self._node(self.tree.nodes[index], width)}"
            return
        for child in sorted({self.tree.domain_of[level - 1][index] for index in inside}):
            yield from self.domain(level - 1, child, inside, depth + 1)

    def _node(self, name: NodeName, width: int) -> str:
        return f"{name.ljust(width)}  {self._bar(name)}  {', '.join(self.ranks[name])}"

    def _bar(self, name: NodeName) -> str:
        node, ours = self.nodes[name], self.ours[name]
        others = max(0, self.held.gpus_by_node.get(name, 0) - ours) + node.gpus_foreign
        total = node.gpus + node.gpus_foreign
        free = max(0, total - ours - others)
        if total > GPUS_DRAWN:
            return f"[{ours}{OURS} {others}{OTHERS} {free}{FREE}]"
        return f"[{OURS * ours}{OTHERS * others}{FREE * free}]"
