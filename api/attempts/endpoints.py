"""The route of rank 0: where its training stands."""

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import Response

from api.bodies import JsonBody
from api.callers import bearer
from api.dependencies import ServicesOf
from api.description import body_of
from api.errors import RequestError
from api.jobs.schemas import ProgressReport
from scheduler.control.learning import take_in
from scheduler.domain.errors import InvalidTransitionError, NotFoundError
from scheduler.domain.job import Attempt, AttemptPhase
from scheduler.domain.progress import Progress
from scheduler.domain.reservation import AttemptKey
from scheduler.ports.job_store import JobStore

router = APIRouter(prefix="/api/v1", tags=["attempts"])


@router.post(
    "/attempts/progress",
    operation_id="reportProgress",
    status_code=HTTPStatus.NO_CONTENT,
    response_class=Response,
    openapi_extra=body_of(ProgressReport),
)
def report_progress(body: JsonBody, services: ServicesOf) -> Response:
    """Store a report of rank 0; the token says of which attempt."""
    secret = bearer(body.request.headers.get("authorization", ""))
    key = services.attempt_tokens.verify(secret) if secret else None
    if key is None:
        challenge = {"WWW-Authenticate": 'Bearer realm="dally-attempt"'}
        raise RequestError(
            "Unauthenticated", "the token of an attempt is needed", headers=challenge
        )
    now = services.clock.now()
    services.throttle_attempt(key, now)
    report = body.read(ProgressReport)
    attempt = _attempt(services.store, key)
    if attempt.phase is AttemptPhase.ENDED:
        raise InvalidTransitionError(key.job_id, AttemptPhase.ENDED, AttemptPhase.RUNNING)
    progress = Progress(
        step=report.step,
        step_seconds=report.step_seconds,
        loss=report.loss,
        accuracy=report.accuracy,
        steps_total=report.steps_total,
        reported_at=now,
    )
    job = services.store.job_by_id(key.job_id)
    take_in(services.store, job, attempt, progress, services.cluster.distances())
    return Response(status_code=HTTPStatus.NO_CONTENT)


def _attempt(store: JobStore, key: AttemptKey) -> Attempt:
    for attempt in store.attempts(key.job_id):
        if attempt.number == key.number:
            return attempt
    raise NotFoundError("attempt", str(key))
