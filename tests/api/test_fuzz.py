"""Requests drawn from the description, valid and not: never a failure, always as described."""

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    allow_header_conformance,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.app import create_app
from tests.api.front_door import JOBS, FrontDoor, a_file
from tests.proof import times

if TYPE_CHECKING:
    from schemathesis.specs.openapi.schemas import OpenApiCase


def a_served_schema() -> schemathesis.BaseSchema:
    """The description of a server that has jobs, a second project and short streams."""
    door = FrontDoor()
    door.project("other", "team-b", "default")
    # Each watch would be waited for otherwise.
    door.limit(stream_life_min_s=0.001, stream_heartbeat_s=0.001, reports_per_second=1e6)
    with door.client(door.admin_token) as admin:
        for name in ("train", "held", "ended"):
            assert admin.post(JOBS, json=a_file(name)).status_code == 201
        admin.post(f"{JOBS}/held/hold")
        admin.post(f"{JOBS}/ended/cancel")
    headers = {"Authorization": f"Bearer {door.admin_token}"}
    served = schemathesis.openapi.from_asgi("/openapi.json", create_app(door.deps), headers=headers)
    served.config.update(headers=headers)
    served.config.phases.coverage.enabled = bool(times(ci=0, proof=1))
    return served


EXAMPLES = times(ci=15, proof=1_000)
"""Requests to each route."""

# No server reads logs here: that is a 503 by itself.
SCHEMA = a_served_schema().exclude(operation_id=["getLogs"])


def a_test_of(operation_id: str) -> Callable[..., None]:
    """The test of one operation: all in one test would share one name, and pytest-xdist run one."""

    @pytest.mark.proof(examples=EXAMPLES)
    @SCHEMA.include(operation_id=operation_id).parametrize()
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    def test(case: "OpenApiCase") -> None:
        case.call_and_validate(
            checks=[
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
                allow_header_conformance,
            ]
        )

    return cast("Callable[..., None]", test)  # The library does not say what it makes.


for _path in SCHEMA.raw_schema["paths"].values():
    for _operation in _path.values():
        _id = _operation["operationId"]
        if _id != "getLogs":
            globals()[f"test_any_request_to_{_id}_is_answered_as_described"] = a_test_of(_id)
