"""Cases of Kueue's topology-aware scheduling, answered by our engine under its `kueue` tie-break.

What Kueue reads from pods and nodes (selectors, affinities, taints, readiness) becomes node
filters and weights of the engine.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from scheduler.domain.gang import GangRequest, RoleRequest
from scheduler.domain.ids import RoleName
from scheduler.domain.job import Slice
from scheduler.domain.knobs import Algorithm
from scheduler.domain.placement import Assignment, Placement
from scheduler.domain.topology import CLUSTER_LEVEL, NODE_LEVEL
from scheduler.engine.choosing import Rules, TieBreak
from scheduler.engine.placing import place_gang
from scheduler.engine.replacing import replace_lost, resize_gang
from tests.conformance.forms import Json, KueueCase, read
from tests.conformance.kueue_world import KueueWorld, Spots, resources_of
from tests.conformance.verdict import Compare, Verdict

_ANYWHERE = {"unconstrained", "implied_unconstrained", "slices_only"}
"""Modes in which distance does not matter."""


class InvalidRequestError(Exception):
    """The case asks for what Kueue refuses."""


COMPARES = (Compare.FEASIBLE, Compare.DOMAINS, Compare.EXACT)


def judge(case: Json) -> Verdict:
    """How our answer to a case compares with the expected one. Raises UnreadableCaseError."""
    case = {"id": case["id"], "name": str(case.get("name", "")), **read(KueueCase, case)}
    world = KueueWorld(case)
    found = answers(case, world)
    agrees = dict.fromkeys(COMPARES, True)
    differs: list[str] = []
    for request in _requests(case):
        wanted = request.get("expected") or case["expected"]
        spots = found.get(request["podset"])
        should = world.spots_of(wanted["assignment"]) if wanted["feasible"] else None
        if (spots is None) != (should is None):
            agrees = dict.fromkeys(agrees, False)
        elif spots is not None and should is not None:
            agrees[Compare.DOMAINS] &= world.domains_used(spots) == world.domains_used(should)
            agrees[Compare.EXACT] &= spots == should
        if spots != should:
            differs.append(f"{request['podset']}: expected {_shown(should)}, got {_shown(spots)}")
    return Verdict(
        case=case["id"],
        name=case["name"],
        agrees=agrees,
        differs="; ".join(differs),
        group=case["algorithm"]["flavour"],
    )


def answers(case: Json, world: KueueWorld) -> dict[str, Spots | None]:
    """Our placement of each pod set, None where there is none; what comes after a no is absent."""
    found: dict[str, Spots | None] = {}
    for requests in _groups(case):
        try:
            placed = _place(requests, case, world)
        except InvalidRequestError:
            placed = None
        for request in requests:
            found[request["podset"]] = None if placed is None else placed[request["podset"]]
        if placed is None:
            break
    return found


def _place(requests: Sequence[Json], case: Json, world: KueueWorld) -> dict[str, Spots] | None:
    """Pod sets that are placed together; none of a count of 0."""
    if not any(request["count"] for request in requests):
        return {request["podset"]: {} for request in requests}
    if world.is_empty and not _is_kept_by_its_pod(case):
        return None
    if (case.get("running_workload") or {}).get("unhealthy_nodes"):
        placed: dict[str, Spots] = {}
        for request in requests:
            spots = _replace(request, case, world)
            if spots is None:
                return None
            placed[request["podset"]] = spots
        return placed
    asked = _asked(requests, case, world)
    before = _previous(requests, case, world)
    if before is None:
        answer = place_gang(asked.request, world.free, asked.rules)
    else:
        world.free.take(before, asked.request)
        answer = resize_gang(asked.request, before, world.free, asked.rules)
        world.free.release(before, asked.request)
    if not isinstance(answer, Placement):
        return None
    world.free.take(answer, asked.request)
    return {request["podset"]: _spots(answer, request["podset"], world) for request in requests}


def _replace(request: Json, case: Json, world: KueueWorld) -> Spots | None:
    """The pods on the first unhealthy node placed anew."""
    running = case["running_workload"]
    admitted = next((a for a in running["admitted"] if a["podset"] == request["podset"]), None)
    if admitted is None:
        return {}
    before = world.spots_of(admitted["assignment"]["domains"])
    if _is_kept_by_its_pod(case):
        return before
    lost = running["unhealthy_nodes"][0]
    kept = {path: count for path, count in before.items() if path[-1] != lost}
    if any(not world.has(path) for path in kept):
        return None
    asked = _asked([request], case, world)
    role = RoleName(request["podset"])
    gang = replace(
        asked.request, roles=(replace(asked.request.roles[0], workers=sum(before.values())),)
    )
    answer = replace_lost(
        gang,
        _placement(role, before, world),
        frozenset({world.node_at([lost])}),
        world.free,
        asked.rules,
    )
    if not isinstance(answer, Placement):
        return None
    spots = _spots(answer, request["podset"], world)
    added = Counter(spots)
    added.subtract(kept)
    world.free.take(_placement(role, +added, world), gang)
    return spots


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """Pod sets as our engine is asked for them."""

    request: GangRequest
    rules: Rules


def _asked(requests: Sequence[Json], case: Json, world: KueueWorld) -> _Asked:
    """The workers lead the group; a leader follows them into the same domain."""
    workers, *others = sorted(requests, key=lambda request: -request["count"])
    slices = _slices(workers, case, world)
    gates = case["algorithm"]["feature_gates_set_by_case"]
    roles = [
        RoleRequest(
            name=RoleName(request["podset"]),
            workers=request["count"],
            gpus=0,
            resources=resources_of(request["per_pod"]),
            filters=world.filters(workers, case),
            slices=slices if request is workers else (),
        )
        for request in (workers, *others)
    ]
    level = _start(workers, world)
    is_anywhere = workers["mode"] in _ANYWHERE
    return _Asked(
        request=GangRequest(
            roles=tuple(roles),
            required=world.level(level) if workers["mode"] == "required" else None,
            preferences=(
                world.preferences(workers) if gates.get("TASRespectNodeAffinityPreferred") else {}
            ),
        ),
        rules=Rules(
            algorithm=_algorithm(workers, case),
            tie_break=TieBreak.KUEUE,
            starts_at=world.level(level),
            is_anywhere=is_anywhere,
        ),
    )


def _algorithm(request: Json, case: Json) -> Algorithm:
    if request["mode"] in _ANYWHERE:
        is_least = "least_free" in case["algorithm"]["flavour"]
        return Algorithm.LEAST_FREE if is_least else Algorithm.BEST_FIT
    gates = case["algorithm"]["feature_gates_set_by_case"]
    if request["mode"] == "preferred" and gates.get("TASBalancedPlacement"):
        return Algorithm.BALANCED
    return Algorithm.BEST_FIT


def _start(request: Json, world: KueueWorld) -> str:
    """The level at which the search starts."""
    if request["mode"] == "slices_only":
        return world.keys[0]
    if request["mode"] in _ANYWHERE:
        return world.keys[-1]
    level: str = request["level"]
    if world.index(level) < 0:
        raise InvalidRequestError(f"no requested topology level: {level}")
    return level


def _slices(request: Json, case: Json, world: KueueWorld) -> tuple[Slice, ...]:
    """The slices asked for, outermost first, by Kueue's rules."""
    asked = request.get("slices") or []
    if not case["algorithm"]["feature_gates_set_by_case"].get("TASMultiLayerTopology"):
        asked = asked[:1]
    above, size = world.index(_start(request, world)) - 1, request["count"]
    for layer in asked:
        index = world.index(layer["level"])
        if index <= above or not layer["size"] or size % layer["size"]:
            raise InvalidRequestError(f"slice of {layer['size']} within {layer['level']}")
        above, size = index, layer["size"]
    return tuple(Slice(workers=s["size"], within=world.level(s["level"])) for s in asked)


def _previous(requests: Sequence[Json], case: Json, world: KueueWorld) -> Placement | None:
    """Where an elastic workload runs at present; None if it is placed afresh."""
    gates = case["algorithm"]["feature_gates_set_by_case"]
    workers = min(requests, key=lambda request: -request["count"])
    if not gates.get("ElasticJobsViaWorkloadSlicesWithTAS") or not workers.get(
        "previous_assignment"
    ):
        return None
    parts: list[Assignment] = []
    for request in requests:
        before = request.get("previous_assignment")
        if before:
            spots = world.spots_of(before["domains"])
            if any(not world.has(path) for path in spots):
                return None
            parts += _placement(RoleName(request["podset"]), spots, world).assignments
    size = (_slices(workers, case, world) or (Slice(workers=1, within=NODE_LEVEL),))[0].workers
    now = sum(part.workers for part in parts if part.role == workers["podset"])
    if now % size or workers["count"] % size:
        return None
    return Placement(assignments=tuple(parts), tier=0, tier_name=CLUSTER_LEVEL)


def _is_kept_by_its_pod(case: Json) -> bool:
    """Whether the workload is a lone pod, which can not move."""
    running = case.get("running_workload") or {}
    gates = case["algorithm"]["feature_gates_set_by_case"]
    return bool(
        gates.get("SkipReassignmentForPodOwnedWorkloads")
        and running.get("owner_kinds") == ["Pod"]
        and not running.get("is_pod_group")
    )


def _requests(case: Json) -> list[Json]:
    return [case["request"]] if "request" in case else list(case["requests"])


def _groups(case: Json) -> list[list[Json]]:
    """Pod sets of one group together, in the order of the first of each."""
    groups: dict[str, list[Json]] = {}
    for number, request in enumerate(_requests(case)):
        groups.setdefault(request.get("podset_group") or f"#{number}", []).append(request)
    return list(groups.values())


def _placement(role: RoleName, spots: Spots, world: KueueWorld) -> Placement:
    """Where pods are, as a placement; its tier does not matter here."""
    return Placement(
        assignments=tuple(
            Assignment(role=role, node=world.node_at(path), workers=count)
            for path, count in sorted(spots.items())
        ),
        tier=0,
        tier_name=CLUSTER_LEVEL,
    )


def _spots(placement: Placement, podset: str, world: KueueWorld) -> Spots:
    spots: Counter[tuple[str, ...]] = Counter()
    for assignment in placement.assignments:
        if assignment.role == podset:
            spots[world.path_of(assignment.node)] += assignment.workers
    return spots


def _shown(spots: Mapping[tuple[str, ...], int] | None) -> str:
    if spots is None:
        return "no placement"
    return " ".join(f"{'/'.join(path)}:{count}" for path, count in sorted(spots.items()))
