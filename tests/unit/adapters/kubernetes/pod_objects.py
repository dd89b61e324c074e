"""Pods of ours as an API server tells them: name only what matters."""

from scheduler.adapters.kubernetes import names
from scheduler.adapters.kubernetes.manifests import PodRenderer, RenderSettings
from scheduler.adapters.kubernetes.objects import JsonObject, Uid
from scheduler.adapters.kubernetes.pods import PodFacts, facts_of
from scheduler.domain.codec import Json
from scheduler.domain.ids import Rank
from tests.gangs import an_order

SETTINGS = RenderSettings(instance="test", namespace_of=lambda _project: "jobs")


def a_rendered_pod() -> JsonObject:
    """A pod as we make it."""
    order = an_order(command=("train",))
    return PodRenderer(order, SETTINGS).pod(Rank(0), Uid("anchor"))


def a_pod(*, is_gated: bool = False, node: str = "n0", **status: Json) -> JsonObject:
    """A pod with a status."""
    pod = a_rendered_pod()
    metadata, spec = pod["metadata"], pod["spec"]
    assert isinstance(metadata, dict)
    assert isinstance(spec, dict)
    metadata |= {"uid": "u1", "resourceVersion": "7"}
    if not is_gated:
        del spec["schedulingGates"]
    if node:
        spec["nodeName"] = node
    return {**pod, "status": {"phase": "Running", **status}}


def main(**state: Json) -> Json:
    """Statuses of the containers: the main one in a state."""
    return [{"name": names.MAIN_CONTAINER, "state": dict(state)}]


def ended(code: int, **more: Json) -> Json:
    """The main container has ended."""
    times: JsonObject = {"startedAt": "2026-11-30T10:00:00Z", "finishedAt": "2026-11-30T10:01:00Z"}
    return main(terminated={"exitCode": code, **times, **more})


def facts(pod: JsonObject) -> PodFacts:
    """What a pod says."""
    found = facts_of(pod)
    assert found is not None
    return found
