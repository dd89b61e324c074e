"""What a case must say to be run, by form: keys that are missing get their defaults here, and what
can not be read is told by its place in the case."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

Json = Any
"""A value of a case file."""


class UnreadableCaseError(Exception):
    """A case that lacks what it takes, or says it in a way that is not known."""


def _filled(value: object) -> object:
    return {} if value is None else value


def _listed(value: object) -> object:
    return [] if value is None else value


Count = Annotated[int, Field(ge=0)]
Labels = Annotated[dict[str, str], BeforeValidator(_filled)]
Amounts = Annotated[dict[str, int], BeforeValidator(_filled)]
Needs = Annotated[dict[str, Count], BeforeValidator(_filled)]


class _Taint(BaseModel):
    key: str
    value: str | None = None
    effect: str


class _Toleration(BaseModel):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class _Match(BaseModel):
    key: str
    operator: str
    values: Annotated[list[str], BeforeValidator(_listed)] = []


class _Term(BaseModel):
    match: Annotated[list[_Match], BeforeValidator(_listed)] = []
    weight: int = 1


class _Affinity(BaseModel):
    required: Annotated[list[_Term], BeforeValidator(_listed)] = []
    preferred: Annotated[list[_Term], BeforeValidator(_listed)] = []


class _KueueNode(BaseModel):
    labels: Labels = {}
    free: Amounts
    ready: bool = True
    schedulable: bool = True
    taints: Annotated[list[_Taint], BeforeValidator(_listed)] = []

    @model_validator(mode="before")
    @classmethod
    def _free_of_capacity(cls, node: Json) -> Json:
        """What is free, where a node says its capacity and what others use of it."""
        if isinstance(node, dict) and "free" not in node and "capacity" in node:
            used = node.get("used_by_other_pods") or {}
            left = {key: have - used.get(key, 0) for key, have in node["capacity"].items()}
            return {**node, "free": left}
        return node


class _Part(BaseModel):
    domain: Annotated[list[str], Field(min_length=1)]
    count: Count


class _Placed(BaseModel):
    domains: list[_Part]


class _Slice(BaseModel):
    size: Count
    level: str


class _Expected(BaseModel):
    feasible: bool
    assignment: Annotated[list[_Part], BeforeValidator(_listed)] = []


class _KueueRequest(BaseModel):
    podset: str = "main"
    count: Count
    per_pod: Needs = {}
    mode: str
    level: str | None = None
    slices: Annotated[list[_Slice], BeforeValidator(_listed)] = []
    podset_group: str | None = None
    tolerations: Annotated[list[_Toleration], BeforeValidator(_listed)] = []
    node_selector: Labels = {}
    node_affinity: _Affinity | None = None
    previous_assignment: _Placed | None = None
    expected: _Expected | None = None

    @model_validator(mode="after")
    def _names_its_level(self) -> "_KueueRequest":
        modes = {"required", "preferred", "unconstrained", "implied_unconstrained", "slices_only"}
        if self.mode not in modes:
            raise ValueError(f"unknown mode {self.mode!r}")
        if self.mode in {"required", "preferred"} and self.level is None:
            raise ValueError(f"mode {self.mode!r} needs a level")
        return self


class _Admitted(BaseModel):
    podset: str
    assignment: _Placed


class _RunningWorkload(BaseModel):
    owner_kinds: Annotated[list[str], BeforeValidator(_listed)] = []
    is_pod_group: bool = False
    unhealthy_nodes: Annotated[list[str], BeforeValidator(_listed)] = []
    admitted: Annotated[list[_Admitted], BeforeValidator(_listed)] = []


class _Use(BaseModel):
    domain: Annotated[list[str], Field(min_length=1)]
    count: Count
    per_pod: Needs = {}


class _KueueAlgorithm(BaseModel):
    flavour: str = "best_fit"
    feature_gates_set_by_case: Annotated[dict[str, bool], BeforeValidator(_filled)] = {}


class KueueCase(BaseModel):
    """A case of Kueue's topology-aware scheduling."""

    levels: Annotated[list[str], Field(min_length=1)]
    algorithm: _KueueAlgorithm
    nodes: list[_KueueNode]
    pool_node_labels: Labels = {}
    pool_tolerations: Annotated[list[_Toleration], BeforeValidator(_listed)] = []
    already_placed: Annotated[list[_Use], BeforeValidator(_listed)] = []
    running_workload: _RunningWorkload | None = None
    request: _KueueRequest | None = None
    requests: list[_KueueRequest] | None = None
    expected: _Expected | None = None

    @model_validator(mode="after")
    def _asks_and_tells(self) -> "KueueCase":
        requests = self.requests if self.request is None else [self.request]
        if not requests:
            raise ValueError("neither request nor requests")
        if self.expected is None and any(request.expected is None for request in requests):
            raise ValueError("nothing says what is expected")
        return self


class _Topology(BaseModel):
    name: str
    levels: list[str]


class _KaiNode(BaseModel):
    name: str
    gpus: Count = 0
    labels: Labels = {}
    GPUName: str | None = None
    CPUMillis: Count = 10**9
    CPUMemory: Count = 10**18


class _Task(BaseModel):
    State: str
    NodeName: str | None = None


class _KaiTopology(BaseModel):
    topology: str | None = None
    required: str | None = None
    preferred: str | None = None


class _KaiJob(BaseModel):
    Name: str
    Priority: int = 0
    RequiredGPUsPerTask: Annotated[float, Field(ge=0)] = 0
    RequiredCPUsPerTask: Count = 0
    RequiredMemoryPerTask: Count = 0
    Tasks: Annotated[list[_Task], Field(min_length=1)]
    topology: _KaiTopology | None = None


class _Outcome(BaseModel):
    Status: str
    NodeName: str | None = None


class _Outcomes(BaseModel):
    jobs: Annotated[dict[str, _Outcome], BeforeValidator(_filled)] = {}
    tasks: Annotated[dict[str, _Outcome], BeforeValidator(_filled)] = {}


class KaiCase(BaseModel):
    """A case of KAI-Scheduler."""

    actions: str
    topologies: Annotated[list[_Topology], BeforeValidator(_listed)] = []
    nodes: list[_KaiNode]
    jobs: list[_KaiJob]
    expected: _Outcomes


def read(form: type[BaseModel], case: Json) -> Json:
    """The case with all defaults filled in. Raises UnreadableCaseError."""
    try:
        return form.model_validate(case).model_dump(exclude_none=True)
    except ValidationError as error:
        first, *others = error.errors()
        place = ".".join(str(part) for part in first["loc"])
        more = f" (and {len(others)} more)" if others else ""
        raise UnreadableCaseError(
            f"{place or 'case'}: {first['msg'].removeprefix('Value error, ')}{more}"
        ) from error
