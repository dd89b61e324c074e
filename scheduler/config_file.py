"""dallyd.yaml: the topology, pools, queues, priority classes, policy, projects and server settings.

Read and checked as a whole: every mistake is reported at once, with its place in the file.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import yaml
from pydantic import Field, JsonValue, ValidationError
from pydantic_core import ErrorDetails

from scheduler.domain.errors import SchedulerError
from scheduler.domain.ids import ProjectName, QueueName
from scheduler.domain.knob_sheet import KnobSheet, KnobTexts
from scheduler.domain.pod_policy import PodPolicy
from scheduler.domain.queue import DEFAULT_QUEUE, Project, Queue
from scheduler.knob_settings import nearest, read_texts
from scheduler.pods_section import (
    PodProfileSection,
    ProjectPodsSection,
    SharedMountSection,
    mount_problems,
    pod_policy,
    profile_problems,
    project_problems,
)
from scheduler.topology_file import (
    FileProblem,
    Name,
    Section,
    Topology,
    TopologySection,
    problems_of,
    topology_of,
)

DEFAULT_PRIORITIES: Mapping[str, int] = {"low": -100, "normal": 0, "high": 100}
PRIORITY_MAX = 1_000_000


class ConfigError(SchedulerError):
    """Settings or the configuration file have mistakes; all of them are listed."""

    code = "InvalidConfig"

    def __init__(self, source: str, problems: Sequence[FileProblem]) -> None:
        lines = [f"  {problem.place or '(file)'}: {problem.detail}" for problem in problems]
        count = "a mistake" if len(lines) == 1 else f"{len(lines)} mistakes"
        super().__init__("\n".join([f"{source} has {count}:", *lines]))
        self.source = source
        self.problems = tuple(problems)


class PoolSection(Section):
    """Nodes that belong together, fenced from others."""

    name: Name = Field(description="Name of the pool.")
    node_selector: dict[str, str] = Field(
        default_factory=dict, description="Labels of its nodes (Kubernetes)."
    )
    mode: Literal["exclusive", "shared"] = Field(
        default="exclusive", description="Whether only Dally's workers may take its GPUs."
    )
    pod_profile: Name | None = Field(
        default=None, description="Pod profile of jobs that name this pool (Kubernetes)."
    )


class QueueSection(Section):
    """A queue and what is different in it."""

    name: Name = Field(description="Name of the queue.")
    policy: str = Field(default="", description="Policy that orders it; empty: the cluster's.")
    knobs: dict[str, JsonValue] = Field(
        default_factory=dict, description="Policy knobs that differ here, as in `policy`."
    )


class PrioritySection(Section):
    """A priority class."""

    name: Name = Field(description="Name that job files use.")
    value: int = Field(ge=-PRIORITY_MAX, le=PRIORITY_MAX, description="Larger goes first.")


class ProjectSection(Section):
    """A project and the queues its jobs may use."""

    name: Name = Field(description="Name of the project.")
    queues: tuple[Name, ...] = Field(
        default=(DEFAULT_QUEUE,),
        strict=False,
        min_length=1,
        description="Queues its jobs may use; the first is its default.",
    )
    namespace: Name | None = Field(
        default=None,
        description="Namespace of its pods (Kubernetes); default: the setting `jobNamespace`.",
    )
    pods: ProjectPodsSection = Field(
        default=ProjectPodsSection(), description="What holds for its pods (Kubernetes)."
    )


class ConfigFile(Section):
    """The whole file; every part may be left out."""

    server: dict[str, JsonValue] = Field(
        default_factory=dict, description="Server settings, named as in the settings page."
    )
    topology: TopologySection = Field(
        default=TopologySection(), description="Levels and nodes of the local executor."
    )
    pools: tuple[PoolSection, ...] = Field(default=(), strict=False, description="Pools of nodes.")
    queues: tuple[QueueSection, ...] = Field(default=(), strict=False, description="Queues.")
    priority_classes: tuple[PrioritySection, ...] = Field(
        default=(), strict=False, description="Priority classes besides low, normal and high."
    )
    policy: dict[str, JsonValue] = Field(
        default_factory=dict, description="Policy knobs of the cluster."
    )
    projects: tuple[ProjectSection, ...] = Field(default=(), strict=False, description="Projects.")
    shared_mounts: tuple[SharedMountSection, ...] = Field(
        default=(), strict=False, description="Storage that jobs may mount by name (Kubernetes)."
    )
    pod_profiles: tuple[PodProfileSection, ...] = Field(
        default=(), strict=False, description="Settings of pods that jobs may name (Kubernetes)."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """What the file says, in the words of the domain."""

    server: Mapping[str, JsonValue]
    """Settings as written; settings.py reads them."""
    topology: Topology
    pools: tuple[PoolSection, ...]
    queues: tuple[Queue, ...]
    """Those the file names; one named `default` always exists besides."""
    projects: tuple[Project, ...]
    """Those the file names; one named `default` always exists besides."""
    namespaces: Mapping[ProjectName, str]
    """Namespaces of the projects that name one."""
    priorities: Mapping[str, int]
    policy: KnobTexts
    """Knobs the file names."""
    pods: PodPolicy
    """What holds for pods."""


def empty_config() -> Config:
    """What holds without a file."""
    return _config(ConfigFile())


def read_config(path: Path, *, policies: Collection[str], fabrics: Collection[str]) -> Config:
    """Read and check dallyd.yaml; policies and fabrics are the names there are.

    Raises ConfigError.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        problem = FileProblem(place="", detail=f"can not be read: {error}")
        raise ConfigError(str(path), [problem]) from error
    return parse_config(text, source=str(path), policies=policies, fabrics=fabrics)


def parse_config(
    text: str, *, source: str, policies: Collection[str], fabrics: Collection[str]
) -> Config:
    """Check the text of a dallyd.yaml. Raises ConfigError with every mistake."""
    try:
        document = yaml.load(text, Loader=_Loader)  # noqa: S506 - a SafeLoader with one check more
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigError(source, [FileProblem(place="", detail=_not_read(error))]) from error
    try:
        file = ConfigFile.model_validate({} if document is None else document)
    except ValidationError as error:
        raise ConfigError(source, [_problem(found) for found in error.errors()]) from error
    problems = [*problems_of(file.topology, fabrics), *_problems(file, policies)]
    if problems:
        raise ConfigError(source, problems)
    return _config(file)


def _not_read(error: yaml.YAMLError | ValueError | RecursionError) -> str:
    """What is wrong with the text, and where if the library says so."""
    if isinstance(error, RecursionError):
        return "is nested too deeply"
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"line {mark.line + 1}, column {mark.column + 1}: {error.problem}"
    # Values that look like dates or numbers and are none, e.g. 2026-13-45, tell no place.
    return " ".join(str(error).split())


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice in one mapping: which of the two counts is a guess."""

    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT001, FBT002 - its base's
    ) -> dict[Hashable, object]:
        """One mapping."""
        keys = [key.value for key, _ in node.value]
        for key, _ in node.value:
            if keys.count(key.value) > 1:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
        return super().construct_mapping(node, deep=deep)


_NO_SECTION = frozenset({"model_type", "dict_type", "mapping_type"})
"""What pydantic says here names our classes."""


def _problem(found: ErrorDetails) -> FileProblem:
    # Of a value that may be any JSON, the library also names the kind it took it for.
    is_any = found["type"] == "finite_number" and found["loc"][-1] == "float"
    place = _place(found["loc"][:-1] if is_any else found["loc"]) or "(file)"
    if found["type"] == "extra_forbidden":
        names = _names_at(found["loc"][:-1])
        detail = f"there is no such key{nearest(str(found['loc'][-1]), names)}"
        return FileProblem(place=place, detail=detail)
    if found["type"] in _NO_SECTION:
        return FileProblem(place=place, detail="must be a section: keys with values")
    if found["type"] == "tuple_type":
        return FileProblem(place=place, detail="must be a list")
    message = found["msg"]
    return FileProblem(place=place, detail=message[:1].lower() + message[1:])


def _place(loc: Sequence[int | str]) -> str:
    place = ""
    for step in loc:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else step
    return place


def _names_at(loc: Sequence[int | str]) -> tuple[str, ...]:
    """Keys of the section at a place of the file."""
    section: type[Section] = ConfigFile
    for step in loc:
        if isinstance(step, int):
            continue
        hints = {
            field.alias or name: field.annotation for name, field in section.model_fields.items()
        }
        found = next(_sections(hints.get(step)), None)
        if found is None:
            return ()
        section = found
    return tuple(field.alias or name for name, field in section.model_fields.items())


def _sections(hint: object) -> Iterator[type[Section]]:
    if isinstance(hint, type) and issubclass(hint, Section):
        yield hint
    for argument in get_args(hint):
        yield from _sections(argument)


def _problems(file: ConfigFile, policies: Collection[str]) -> Iterator[FileProblem]:
    yield from _doubled("queues", [queue.name for queue in file.queues])
    yield from _doubled("projects", [project.name for project in file.projects])
    yield from _doubled("pools", [pool.name for pool in file.pools])
    yield from _doubled("priorityClasses", [each.name for each in file.priority_classes])
    yield from _knob_problems("policy", file.policy, policies, is_for_queue=False)
    for index, queue in enumerate(file.queues):
        place = f"queues[{index}].knobs"
        yield from _knob_problems(place, queue.knobs, policies, is_for_queue=True)
        if queue.policy:
            yield from _policy_problem(f"queues[{index}].policy", queue.policy, policies)
            if queue.knobs.get("policy", queue.policy) != queue.policy:
                detail = f"is not the policy {queue.policy} that the queue names itself"
                yield FileProblem(place=f"queues[{index}].knobs.policy", detail=detail)
    yield from _pod_problems(file)
    yield from _missing_queues(file)
    yield from _missing_pools("nodes", [node.pool for node in file.topology.nodes], file)
    yield from _missing_pools("racks", [rack.pool for rack in file.topology.racks], file)


def _doubled(key: str, names: Sequence[str]) -> Iterator[FileProblem]:
    counts = Counter(names)
    for index, name in enumerate(names):
        if counts[name] > 1:
            detail = f"the name {name} is used {counts[name]} times"
            yield FileProblem(place=f"{key}[{index}].name", detail=detail)


def _pod_problems(file: ConfigFile) -> Iterator[FileProblem]:
    yield from _doubled("sharedMounts", [mount.name for mount in file.shared_mounts])
    yield from _doubled("podProfiles", [profile.name for profile in file.pod_profiles])
    yield from mount_problems(file.shared_mounts)
    yield from profile_problems(file.pod_profiles)
    known = tuple(profile.name for profile in file.pod_profiles)
    for index, pool in enumerate(file.pools):
        if pool.pod_profile is not None and pool.pod_profile not in known:
            detail = f"there is no pod profile {pool.pod_profile}{nearest(pool.pod_profile, known)}"
            yield FileProblem(place=f"pools[{index}].podProfile", detail=detail)
    for index, project in enumerate(file.projects):
        yield from project_problems(
            f"projects[{index}].pods",
            project.pods,
            profiles=file.pod_profiles,
            mounts=file.shared_mounts,
        )


def _missing_queues(file: ConfigFile) -> Iterator[FileProblem]:
    known = (*(queue.name for queue in file.queues), DEFAULT_QUEUE)
    for index, project in enumerate(file.projects):
        for place, name in enumerate(project.queues):
            if name not in known:
                detail = f"there is no queue {name}{nearest(name, known)}"
                yield FileProblem(place=f"projects[{index}].queues[{place}]", detail=detail)


def _missing_pools(key: str, names: Sequence[str], file: ConfigFile) -> Iterator[FileProblem]:
    known = (*(pool.name for pool in file.pools), "default")
    for index, name in enumerate(names):
        if name not in known:
            detail = f"there is no pool {name}{nearest(name, known)}"
            yield FileProblem(place=f"topology.{key}[{index}].pool", detail=detail)


def _knob_problems(
    place: str, values: Mapping[str, JsonValue], policies: Collection[str], *, is_for_queue: bool
) -> Iterator[FileProblem]:
    _, problems = read_texts(values, is_for_queue=is_for_queue)
    for problem in problems:
        yield FileProblem(place=f"{place}.{problem.name}", detail=problem.detail)
    policy = values.get("policy")
    if isinstance(policy, str):
        yield from _policy_problem(f"{place}.policy", policy, policies)


def _policy_problem(place: str, name: str, policies: Collection[str]) -> Iterator[FileProblem]:
    if name not in policies:
        known = ", ".join(sorted(policies))
        yield FileProblem(place=place, detail=f"there is no policy {name!r}; there are: {known}")


def _config(file: ConfigFile) -> Config:
    return Config(
        server=file.server,
        topology=topology_of(file.topology),
        pools=file.pools,
        queues=tuple(
            Queue(
                name=QueueName(queue.name),
                knobs=KnobSheet(seeded=_texts(_knobs_of(queue), is_for_queue=True)),
            )
            for queue in file.queues
        ),
        projects=tuple(
            Project(
                name=ProjectName(project.name),
                queues=tuple(QueueName(queue) for queue in project.queues),
            )
            for project in file.projects
        ),
        namespaces={
            ProjectName(project.name): project.namespace
            for project in file.projects
            if project.namespace is not None
        },
        priorities={
            **DEFAULT_PRIORITIES,
            **{priority.name: priority.value for priority in file.priority_classes},
        },
        policy=_texts(file.policy, is_for_queue=False),
        pods=pod_policy(
            projects={project.name: project.pods for project in file.projects},
            profiles=file.pod_profiles,
            mounts=file.shared_mounts,
            pool_profiles={p.name: p.pod_profile for p in file.pools if p.pod_profile},
        ),
    )


def _knobs_of(queue: QueueSection) -> Mapping[str, JsonValue]:
    return {**queue.knobs, "policy": queue.policy} if queue.policy else queue.knobs


def _texts(values: Mapping[str, JsonValue], *, is_for_queue: bool) -> KnobTexts:
    texts, problems = read_texts(values, is_for_queue=is_for_queue)
    assert not problems, "the file was checked when it was read"
    return texts
