"""The kinds of objects that `get` and `describe` know: names, paths, columns."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches

from pydantic import JsonValue

from api.events.schemas import EventView
from api.lists import ObjectMetadata
from api.nodes.schemas import NodeView
from api.policy.schemas import KnobView
from api.profiles.schemas import ProfileView
from api.projects.schemas import ProjectView
from api.queues.schemas import QueueView
from api.strays.schemas import StrayView
from api.timers.schemas import TimerView
from api.tokens.schemas import TokenView
from api.wire import Reply
from cli.failures import CommandError
from cli.times import age


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of object."""

    name: str
    """Singular, as in `job/NAME`."""
    plural: str
    short: str
    path: str
    """Path of the list; empty for jobs and profiles, whose path depends on the project."""
    headers: tuple[str, ...]
    headers_wide: tuple[str, ...] = ()
    """Added by `-o wide`."""
    row: Callable[[JsonValue], tuple[object, ...]]
    """Values for all headers, the wide ones included."""
    is_paged: bool = False
    filters: tuple[str, ...] = ()
    """Parameters of the list that flags of `get` set."""


class _JobSpec(Reply):
    queue: str | None = None


class _JobStatus(Reply):
    phase: str
    reason: str = ""
    priority: int
    workers: int
    gpus: int
    attempts: int = 0


class _JobRow(Reply):
    """What a row shows of a job: reading the whole job file would take longer than the list."""

    metadata: ObjectMetadata
    spec: _JobSpec
    status: _JobStatus


def _job_row(item: JsonValue) -> tuple[object, ...]:
    job = _JobRow.model_validate(item)
    status = job.status
    return (
        job.metadata.name,
        job.spec.queue,
        status.phase,
        status.workers,
        status.gpus,
        age(job.metadata.create_time),
        job.metadata.project,
        status.priority,
        status.attempts,
        status.reason,
        job.metadata.created_by,
    )


def _node_row(item: JsonValue) -> tuple[object, ...]:
    node = NodeView.model_validate(item)
    state = "Ready" if node.is_ready else "NotReady"
    return (
        node.name,
        ",".join([state, *_closed(node), *_left_alone(node)]),
        node.pool,
        node.gpu_model,
        node.gpus,
        node.gpus_held,
        node.gpus - node.gpus_held,
        "/".join(reversed(node.path.values())),
        f"{node.cpus:g}",
        ",".join(node.jobs),
    )


def _closed(node: NodeView) -> list[str]:
    if node.is_draining:
        return ["Draining" if node.gpus_held or node.jobs else "Drained"]
    return ["Cordoned"] if node.is_cordoned else []


def _left_alone(node: NodeView) -> list[str]:
    """Why a node is not used for a while, e.g. `SuspectNode`."""
    return [node.left_alone_reason] if node.left_alone_reason else []


def _stray_row(item: JsonValue) -> tuple[object, ...]:
    stray = StrayView.model_validate(item)
    return (
        stray.id,
        f"{stray.project}/{stray.name}" if stray.name else "",
        stray.reason,
        f"{stray.workers_alive}/{stray.workers}",
        stray.order,
        age(stray.since),
        stray.problem,
        stray.term,
        ",".join(stray.nodes),
    )


def _queue_row(item: JsonValue) -> tuple[object, ...]:
    queue = QueueView.model_validate(item)
    return (
        queue.name,
        queue.jobs_pending,
        queue.jobs_active,
        queue.gpus_pending,
        queue.gpus_active,
        queue.jobs_held,
        queue.policy,
        ",".join(queue.projects),
    )


def _project_row(item: JsonValue) -> tuple[object, ...]:
    project = ProjectView.model_validate(item)
    return (project.name, ",".join(project.queues))


def _event_row(item: JsonValue) -> tuple[object, ...]:
    event = EventView.model_validate(item)
    subject = f"job/{event.job}" if event.job else f"node/{event.node}" if event.node else ""
    return (
        age(event.time) + (f" (x{event.count})" if event.count > 1 else ""),
        event.type,
        event.reason,
        subject,
        event.message,
        event.actor,
        event.attempt,
    )


def _token_row(item: JsonValue) -> tuple[object, ...]:
    token = TokenView.model_validate(item)
    return (
        token.id,
        token.name,
        "admin" if token.admin else ",".join(token.projects),
        "revoked" if token.is_revoked else "valid",
        token.expire_time,
        age(token.create_time),
    )


def _knob_row(item: JsonValue) -> tuple[object, ...]:
    knob = KnobView.model_validate(item)
    return (
        knob.name,
        knob.value,
        knob.source,
        knob.default,
        knob.scope,
        knob.description.replace("`", ""),
    )


def _timer_row(item: JsonValue) -> tuple[object, ...]:
    timer = TimerView.model_validate(item)
    return (
        timer.name,
        timer.demand,
        timer.level,
        timer.timer or "worth",
        timer.source,
        timer.accepted,
        timer.censored,
        timer.learned_from or None,
        age(timer.update_time) if timer.update_time else None,
    )


def _profile_row(item: JsonValue) -> tuple[object, ...]:
    model = ProfileView.model_validate(item)
    return (
        model.name,
        model.family,
        f"{model.parameters / 1e6:,.1f}M",
        f"{model.gradient_bytes / 1e6:,.0f}MB",
        model.strategy,
        ",".join(sorted({timing.gpu_model for timing in model.timings})),
        model.source,
    )


JOB = Kind(
    name="job",
    plural="jobs",
    short="jo",
    path="",
    headers=("NAME", "QUEUE", "PHASE", "WORKERS", "GPUS", "AGE"),
    headers_wide=("PROJECT", "PRIORITY", "ATTEMPTS", "REASON", "BY"),
    row=_job_row,
    is_paged=True,
    filters=("queue", "phase", "labelSelector"),
)
NODE = Kind(
    name="node",
    plural="nodes",
    short="no",
    path="/api/v1/nodes",
    headers=("NAME", "STATE", "POOL", "MODEL", "GPUS", "HELD", "FREE"),
    headers_wide=("TOPOLOGY", "CPUS", "JOBS"),
    row=_node_row,
)
QUEUE = Kind(
    name="queue",
    plural="queues",
    short="q",
    path="/api/v1/queues",
    headers=("NAME", "PENDING", "ACTIVE", "GPUS-PENDING", "GPUS-ACTIVE"),
    headers_wide=("HELD", "POLICY", "PROJECTS"),
    row=_queue_row,
)
PROJECT = Kind(
    name="project",
    plural="projects",
    short="pr",
    path="/api/v1/projects",
    headers=("NAME", "QUEUES"),
    row=_project_row,
)
EVENT = Kind(
    name="event",
    plural="events",
    short="ev",
    path="/api/v1/events",
    headers=("AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"),
    headers_wide=("BY", "ATTEMPT"),
    row=_event_row,
    is_paged=True,
)
TOKEN = Kind(
    name="token",
    plural="tokens",
    short="to",
    path="/api/v1/tokens",
    headers=("ID", "NAME", "MAY", "STATE", "EXPIRES", "AGE"),
    row=_token_row,
)

PROFILE = Kind(
    name="profile",
    plural="profiles",
    short="pf",
    path="",
    headers=("NAME", "FAMILY", "PARAMETERS", "GRADIENTS", "STRATEGY"),
    headers_wide=("GPUS", "SOURCE"),
    row=_profile_row,
)

KNOB = Kind(
    name="knob",
    plural="policy",
    short="kn",
    path="/api/v1/policy",
    headers=("NAME", "VALUE", "SOURCE"),
    headers_wide=("DEFAULT", "SCOPE", "DESCRIPTION"),
    row=_knob_row,
    filters=("queue",),
)

TIMER = Kind(
    name="timer",
    plural="timers",
    short="ti",
    path="/api/v1/timers",
    headers=("NAME", "DEMAND", "LEVEL", "TIMER", "SOURCE", "ACCEPTED", "CENSORED"),
    headers_wide=("LEARNED-FROM", "UPDATED"),
    row=_timer_row,
    filters=("queue",),
)

STRAY = Kind(
    name="stray",
    plural="strays",
    short="st",
    path="/api/v1/strays",
    headers=("ID", "JOB", "REASON", "ALIVE", "ORDER", "AGE"),
    headers_wide=("PROBLEM", "TERM", "NODES"),
    row=_stray_row,
)

KINDS = (JOB, NODE, QUEUE, PROJECT, PROFILE, EVENT, TOKEN, KNOB, TIMER, STRAY)
_BY_NAME = {name: kind for kind in KINDS for name in (kind.name, kind.plural, kind.short)}


def kind_named(name: str) -> Kind:
    """The kind of that name, plural or short name. Raises CommandError with the nearest one."""
    kind = _BY_NAME.get(name.lower())
    if kind is None:
        near = get_close_matches(name.lower(), _BY_NAME, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise CommandError(
            f"no kind of object is called {name!r}{hint}",
            reason="UnknownKind",
            way_out="dally api-resources",
        )
    return kind


def job_name(text: str) -> str:
    """NAME of `NAME` or `job/NAME`. Raises CommandError for another kind."""
    kind, slash, name = text.rpartition("/")
    if slash and kind_named(kind) is not JOB:
        raise CommandError(
            f"{text!r} is not a job", reason="NotAJob", way_out=f"dally describe {kind} {name}"
        )
    return name


def without_noun(kind: Kind, names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, of `NAME ...` or `KIND NAME ...`, as `get` has it."""
    is_noun_first = len(names) > 1 and names[0] in (kind.name, kind.plural, kind.short)
    return names[1:] if is_noun_first else names
