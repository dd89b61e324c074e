"""Knobs of the domain on the wire and back."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from pydantic import JsonValue
from pydantic.alias_generators import to_camel

from api.documents.document import child
from api.job_files.validation import nearest
from api.policy.schemas import KnobView, PolicyView
from scheduler.domain.errors import SpecProblem
from scheduler.domain.event import Event
from scheduler.domain.ids import QueueName
from scheduler.domain.instants import Instant
from scheduler.domain.knob_sheet import (
    CLUSTER_KNOBS,
    NOTHING_SAID,
    KnobSheet,
    KnobTexts,
    source_of,
)
from scheduler.domain.knobs import PolicyKnobs
from scheduler.domain.queue import Queue
from scheduler.knob_settings import KNOB_TEXTS, knob_names, read_texts, written_knobs


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyState:
    """What is said of the knobs of the cluster and of its queues."""

    cluster: KnobSheet
    queues: Mapping[QueueName, Queue]

    def knobs(self, queue: QueueName | None) -> PolicyKnobs:
        """What holds for the cluster or in a queue."""
        knobs = self.cluster.over(PolicyKnobs())
        return knobs if queue is None else self.sheet(queue).over(knobs)

    def with_change(self, queue: QueueName | None, change: "ReadChange") -> "PolicyState":
        """The same after a change."""
        sheet = self.sheet(queue).with_changes(change.changed, change.reset)
        if queue is None:
            return replace(self, cluster=sheet)
        changed = replace(self.queues[queue], knobs=sheet)
        return replace(self, queues={**self.queues, queue: changed})

    def sheet(self, queue: QueueName | None) -> KnobSheet:
        """What is said of the cluster or of a queue."""
        return self.cluster if queue is None else self.queues[queue].knobs


def to_view(state: PolicyState, queue: QueueName | None) -> PolicyView:
    """All knobs, by their order in the configuration."""
    own = None if queue is None else state.sheet(queue)
    defaults = dict(written_knobs(PolicyKnobs()))
    values = dict(written_knobs(state.knobs(queue)))
    return PolicyView(
        queue=queue,
        queues_that_differ=[
            name for name, each in sorted(state.queues.items()) if each.knobs != NOTHING_SAID
        ],
        items=[
            KnobView(
                name=to_camel(name),
                value=values[to_camel(name)],
                source=source_of(name, state.cluster, own).value,
                default=defaults[to_camel(name)],
                scope="cluster" if name in CLUSTER_KNOBS else "queue",
                description=text,
            )
            for name, text in KNOB_TEXTS.items()
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadChange:
    """A change as it was asked for, in the words of a sheet."""

    changed: KnobTexts
    reset: tuple[str, ...]
    problems: tuple[SpecProblem, ...]


def read_change(
    asked: Mapping[str, JsonValue], *, is_for_queue: bool, policies: Collection[str]
) -> ReadChange:
    """What is asked for, and every mistake in it."""
    names = {to_camel(name): name for name in KNOB_TEXTS}
    values = {name: value for name, value in asked.items() if value is not None}
    changed, _ = read_texts(values, is_for_queue=is_for_queue)
    return ReadChange(
        changed=changed,
        reset=tuple(names[name] for name in asked if name in names and asked[name] is None),
        problems=tuple(_problems(asked, is_for_queue=is_for_queue, policies=policies)),
    )


def _problems(
    asked: Mapping[str, JsonValue], *, is_for_queue: bool, policies: Collection[str]
) -> Iterator[SpecProblem]:
    known = list(knob_names())
    for name in asked:
        if name not in known:
            detail = f"there is no such knob{nearest(name[:80], known)}"
            yield _problem(name, "UnknownField", detail)
    values = {n: value for n, value in asked.items() if value is not None and n in known}
    for problem in read_texts(values, is_for_queue=is_for_queue)[1]:
        yield _problem(problem.name, "InvalidValue", problem.detail)
    policy = values.get("policy")
    if isinstance(policy, str) and policy not in policies:
        detail = f"there is no policy {policy[:80]!r}{nearest(policy[:80], sorted(policies))}"
        yield _problem("policy", "UnknownValue", detail)


def _problem(name: str, reason: str, detail: str) -> SpecProblem:
    return SpecProblem(pointer=child("/knobs", name), reason=reason, detail=detail)


def event_of(
    before: PolicyState,
    after: PolicyState,
    queue: QueueName | None,
    *,
    by: str,
    at: Instant,
    why: str,
) -> Event | None:
    """What a change comes to, told to everybody; None if nothing is another than before."""
    if before == after:
        return None
    former = dict(written_knobs(before.knobs(queue)))
    moved = [
        f"{name} is {value} (was {former[name]})"
        for name, value in written_knobs(after.knobs(queue))
        if value != former[name]
    ]
    where = f"in queue {queue}: " if queue else ""
    what = "; ".join(moved) or "values stay, and are set live or left to the file"
    said = f": {why}" if why else ""
    return Event(reason="PolicyChanged", message=f"{where}{what}, by {by}{said}", at=at, actor=by)
