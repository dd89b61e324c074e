"""Routes of the policy: its knobs as they hold, and changes that hold from the next cycle on."""

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import Response

from api.bodies import JsonBody
from api.dependencies import AdminOf, CallerOf, Services, ServicesOf
from api.description import body_of
from api.parameters import DryRun, QueueParameter
from api.policy.mapping import PolicyState, ReadChange, event_of, read_change, to_view
from api.policy.schemas import PolicyChange, PolicyView
from api.replies import audit_row, model_response
from scheduler.domain.errors import InvalidSpecError, NotFoundError
from scheduler.domain.ids import QueueName
from scheduler.ports.unit import Change, ChangeKnobs, Unit

router = APIRouter(prefix="/api/v1", tags=["policy"])


@router.get("/policy", operation_id="getPolicy", response_model=PolicyView)
def get_policy(services: ServicesOf, _caller: CallerOf, queue: QueueParameter = None) -> Response:
    """The policy's knobs as they hold: those of the cluster, or in one queue."""
    state = _state(services)
    return model_response(to_view(state, _queue(state, queue)))


@router.patch(
    "/policy",
    operation_id="changePolicy",
    response_model=PolicyView,
    openapi_extra=body_of(PolicyChange),
)
def change_policy(
    services: ServicesOf,
    admin: AdminOf,
    body: JsonBody,
    queue: QueueParameter = None,
    dry_run: DryRun = None,
) -> Response:
    """Set knobs of the cluster or of one queue, or leave them to the file again. Admins only.

    What is set here wins over dallyd.yaml until it is reset, also after a restart. It holds from
    the next cycle on; jobs that wait keep the timers they wait by.
    """
    asked = body.read(PolicyChange)
    state = _state(services)
    of_queue = _queue(state, queue)
    change = read_change(
        asked.knobs, is_for_queue=of_queue is not None, policies=services.given.policies
    )
    if change.problems:
        raise InvalidSpecError(change.problems)
    after = state.with_change(of_queue, change)
    if dry_run is not None:
        return model_response(to_view(after, of_queue))
    now = services.clock.now()
    row = audit_row(
        body.request,
        admin,
        verb="update",
        target=f"queues/{of_queue}/policy" if of_queue else "policy",
        at=now,
        outcome=HTTPStatus.OK,
    )
    event = event_of(state, after, of_queue, by=admin.name, at=now, why=asked.reason)
    changes: tuple[Change, ...] = (row,)
    if event is not None:
        changes = (*changes, _to_change(change, of_queue))
    services.store.write(Unit(changes=changes, events=() if event is None else (event,)))
    services.given.on_write()
    return model_response(to_view(_state(services), of_queue))


def _to_change(change: ReadChange, queue: QueueName | None) -> ChangeKnobs:
    return ChangeKnobs(changed=change.changed, reset=change.reset, queue=queue)


def _state(services: Services) -> PolicyState:
    return PolicyState(
        cluster=services.store.knob_sheet(),
        queues={queue.name: queue for queue in services.store.queues()},
    )


def _queue(state: PolicyState, name: str | None) -> QueueName | None:
    if name is None:
        return None
    queue = QueueName(name)
    if queue not in state.queues:
        raise NotFoundError("queue", name)
    return queue
