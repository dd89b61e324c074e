"""Routes of nodes and topology."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response

from api.bodies import Body, JsonBody
from api.callers import Caller
from api.dependencies import AdminOf, CallerOf, Services, ServicesOf
from api.description import body_of
from api.nodes.mapping import gpus_held_by_node, to_node, to_topology
from api.nodes.schemas import CordonRequest, NodeList, NodeView, TopologyView
from api.replies import audit_row, model_response
from api.strays.mapping import safe_mode_text
from scheduler.control.events import node_cordoned, node_uncordoned
from scheduler.domain.copying import replace
from scheduler.domain.cordon import Cordon
from scheduler.domain.errors import NotFoundError
from scheduler.domain.ids import NodeName
from scheduler.ports.unit import Change, ChangeCordon, ChangeExclusion, Unit

router = APIRouter(prefix="/api/v1", tags=["nodes"])


NodePath = Annotated[str, Path(max_length=253)]


@router.get("/nodes", operation_id="listNodes", response_model=NodeList)
def list_nodes(services: ServicesOf, caller: CallerOf) -> Response:
    """All nodes as last observed, by name."""
    safe_mode = safe_mode_text(services.store.strays())
    return model_response(NodeList(items=_views(services, caller), safe_mode=safe_mode))


@router.post(
    "/nodes/{node}/cordon",
    operation_id="cordonNode",
    response_model=NodeView,
    openapi_extra=body_of(CordonRequest),
)
def cordon_node(node: NodePath, services: ServicesOf, admin: AdminOf, body: JsonBody) -> Response:
    """Keep new workers from a node; what runs there runs on. Admins only."""
    return _cordon(node, services, admin, body, is_drain=False)


@router.post(
    "/nodes/{node}/drain",
    operation_id="drainNode",
    response_model=NodeView,
    openapi_extra=body_of(CordonRequest),
)
def drain_node(node: NodePath, services: ServicesOf, admin: AdminOf, body: JsonBody) -> Response:
    """Keep new workers from a node, and stop the gangs on it, each with its grace. Admins only.

    They start again elsewhere, at no cost to `maxRestarts`.
    """
    return _cordon(node, services, admin, body, is_drain=True)


@router.post(
    "/nodes/{node}/uncordon",
    operation_id="uncordonNode",
    response_model=NodeView,
    openapi_extra=body_of(CordonRequest),
)
def uncordon_node(node: NodePath, services: ServicesOf, admin: AdminOf, body: JsonBody) -> Response:
    """Take a cordon or a drain back, and use the node if it was left alone. Admins only.

    What the cluster itself keeps workers from (`kubectl cordon`, taints) stays as it is.
    """
    name, now = _known(node, services), services.clock.now()
    said = body.read(CordonRequest).reason
    before = next((each for each in services.store.cordons() if each.node == name), None)
    left_alone = services.store.exclusions().get(name)
    event = node_uncordoned(name, by=admin.name, reason=said, at=now)
    row = audit_row(
        body.request, admin, verb="uncordon", target=f"nodes/{name}", at=now, outcome=HTTPStatus.OK
    )
    changes: tuple[Change, ...] = (row,)
    if before is not None:
        changes = (*changes, ChangeCordon(node=name, cordon=None))
    if left_alone is not None and left_alone.holds(now):
        ended = replace(left_alone, cleared_by=admin.name, cleared_at=now)
        changes = (*changes, ChangeExclusion(node=name, exclusion=ended))
    events = () if len(changes) == 1 else (event,)
    services.store.write(Unit(changes=changes, events=events))
    services.given.on_write()
    return model_response(_view(services, admin, name))


def _cordon(
    node: str, services: Services, admin: Caller, body: Body, *, is_drain: bool
) -> Response:
    name, now = _known(node, services), services.clock.now()
    said = body.read(CordonRequest).reason
    cordon = Cordon(node=name, is_drain=is_drain, reason=said, by=admin.name, at=now)
    row = audit_row(
        body.request,
        admin,
        verb="drain" if is_drain else "cordon",
        target=f"nodes/{name}",
        at=now,
        outcome=HTTPStatus.OK,
    )
    change = ChangeCordon(node=name, cordon=cordon)
    services.store.write(Unit(changes=(row, change), events=(node_cordoned(cordon),)))
    services.given.on_write()
    return model_response(_view(services, admin, name))


def _known(node: str, services: Services) -> NodeName:
    """The node of that name, if the cluster has it or it is cordoned. Raises NotFoundError."""
    name = NodeName(node)
    _, nodes = services.store.topology()
    cordoned = {cordon.node for cordon in services.store.cordons()}
    if name not in cordoned and all(each.name != name for each in nodes):
        raise NotFoundError("node", node)
    return name


def _view(services: Services, caller: Caller, name: NodeName) -> NodeView:
    found = next((view for view in _views(services, caller) if view.name == name), None)
    if found is None:
        # Its cordon outlived it: there is nothing else to show.
        raise NotFoundError("node", name)
    return found


def _views(services: Services, caller: Caller) -> list[NodeView]:
    levels, nodes = services.store.topology()
    cordons = {cordon.node: cordon for cordon in services.store.cordons()}
    exclusions, now = services.store.exclusions(), services.clock.now()
    left_alone = {name: each for name, each in exclusions.items() if each.holds(now)}
    live = services.store.live()
    names = {
        job.id: f"{job.project}/{job.name}" for job in live.jobs if caller.may_see(job.project)
    }
    held = gpus_held_by_node(live.reservations)
    jobs: dict[NodeName, set[str]] = {}
    for reservation in live.reservations:
        name = names.get(reservation.attempt.job_id)
        if name is not None:
            jobs.setdefault(reservation.node, set()).add(name)
    return [
        to_node(
            node,
            levels,
            gpus_held=held[node.name],
            jobs=sorted(jobs.get(node.name, ())),
            cordon=cordons.get(node.name),
            exclusion=left_alone.get(node.name),
        )
        for node in sorted(nodes, key=lambda node: node.name)
    ]


@router.get("/topology", operation_id="getTopology", response_model=TopologyView)
def get_topology(services: ServicesOf, _caller: CallerOf) -> Response:
    """Levels and the tree of topology domains, with what is held in each."""
    levels, nodes = services.store.topology()
    held = gpus_held_by_node(services.store.reservations())
    return model_response(to_topology(levels, nodes, held))
