"""Where a job was placed, as a list and as a picture."""

from api.dependencies import Services
from api.jobs.mapping import to_assignments
from api.jobs.schemas import PlacementView
from api.nodes.mapping import gpus_held_by_node
from scheduler.domain.drawing import Held, draw_placement
from scheduler.domain.errors import NotFoundError
from scheduler.domain.job import AttemptPhase, Job
from scheduler.domain.topology import topology_tree


def placement_view(services: Services, job: Job) -> PlacementView:
    """The placement of the latest attempt. Raises NotFoundError if there was none yet."""
    attempts = services.store.attempts(job.id)
    if not attempts:
        raise NotFoundError("placement of job", job.name)
    attempt = attempts[-1]
    levels, nodes = services.store.topology()
    held = gpus_held_by_node(services.store.reservations())
    if attempt.phase is AttemptPhase.ENDED:
        # It holds nothing any more: what others hold there now would not fit beside it.
        for part in attempt.placement.assignments:
            held.pop(part.node, None)
    return PlacementView(
        job=job.name,
        project=job.project,
        attempt=attempt.number,
        phase=attempt.phase.value,
        tier=attempt.placement.tier_name,
        placement=to_assignments(attempt.placement),
        drawing=draw_placement(
            attempt.placement,
            topology_tree(levels, nodes),
            nodes,
            Held(
                gpus_by_node=held,
                gpus_per_worker={role.name: role.gpus_per_worker for role in job.spec.roles},
            ),
        ),
    )
