"""Routes of nodes and topology."""

from fastapi import APIRouter
from starlette.responses import Response

from api.dependencies import CallerOf, ServicesOf
from api.nodes.mapping import gpus_held_by_node, to_node, to_topology
from api.nodes.schemas import NodeList, TopologyView
from api.replies import model_response
from api.strays.mapping import safe_mode_text
from scheduler.domain.ids import NodeName

router = APIRouter(prefix="/api/v1", tags=["nodes"])


@router.get("/nodes", operation_id="listNodes", response_model=NodeList)
def list_nodes(services: ServicesOf, caller: CallerOf) -> Response:
    """All nodes as last observed, by name."""
    levels, nodes = services.store.topology()
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
    items = [
        to_node(node, levels, gpus_held=held[node.name], jobs=sorted(jobs.get(node.name, ())))
        for node in sorted(nodes, key=lambda node: node.name)
    ]
    safe_mode = safe_mode_text(services.store.strays())
    return model_response(NodeList(items=items, safe_mode=safe_mode))


@router.get("/topology", operation_id="getTopology", response_model=TopologyView)
def get_topology(services: ServicesOf, _caller: CallerOf) -> Response:
    """Levels and the tree of topology domains, with what is held in each."""
    levels, nodes = services.store.topology()
    held = gpus_held_by_node(services.store.reservations())
    return model_response(to_topology(levels, nodes, held))
