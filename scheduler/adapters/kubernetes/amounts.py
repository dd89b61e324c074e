"""Amounts as Kubernetes writes them (`500m`, `64Gi`, `1e3`), and what pods ask for in all."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal, InvalidOperation

from scheduler.adapters.kubernetes.objects import JsonObject, at, parts
from scheduler.domain.codec import Json

_SUFFIXES = {
    **{
        unit: Decimal(1024) ** power
        for power, unit in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)
    },
    **{
        unit: Decimal(1000) ** power for power, unit in enumerate(("k", "M", "G", "T", "P", "E"), 1)
    },
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
}

CPU, MEMORY, PODS = "cpu", "memory", "pods"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequest:
    """What one pod holds of a node."""

    amounts: dict[str, Decimal]
    """By resource name; a pod counts as one of `pods`."""


def amount(value: Json) -> Decimal:
    """The amount that a text or number stands for; 0 where it can not be read."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(str(value))
    if not isinstance(value, str):
        return Decimal(0)
    digits = value.rstrip("KMGTPEiknum") if not _is_exponent(value) else value
    factor = _SUFFIXES.get(value[len(digits) :], Decimal(1))
    try:
        return Decimal(digits) * factor
    except InvalidOperation:
        return Decimal(0)


def whole(value: Decimal) -> int:
    """Rounded up, and never negative: what is asked for in parts is taken whole."""
    return max(0, int(value.to_integral_value(ROUND_CEILING)))


def amounts_at(data: Json, *path: str) -> dict[str, Decimal]:
    """All amounts in the object at a path, by resource name."""
    found = at(data, *path)
    if not isinstance(found, dict):
        return {}
    return {name: amount(value) for name, value in found.items()}


def request_of(pod: JsonObject) -> PodRequest:
    """What a pod holds: its containers together, or an init container if that is more."""
    starters = parts(pod, "spec", "initContainers")
    sidecars = [each for each in starters if each.get("restartPolicy") == "Always"]
    alone = [_requests(each) for each in starters if each.get("restartPolicy") != "Always"]
    running = _sum(_requests(each) for each in (*parts(pod, "spec", "containers"), *sidecars))
    names = running.keys() | {name for each in alone for name in each}
    most = {name: max(each.get(name, Decimal(0)) for each in (running, *alone)) for name in names}
    overhead = amounts_at(pod, "spec", "overhead")
    return PodRequest(amounts={**_sum([most, overhead]), PODS: Decimal(1)})


def _is_exponent(value: str) -> bool:
    return ("e" in value or "E" in value) and value[-1:].isdigit()


def _requests(container: JsonObject) -> dict[str, Decimal]:
    limits = amounts_at(container, "resources", "limits")
    return {**limits, **amounts_at(container, "resources", "requests")}


def _sum(many: Iterable[dict[str, Decimal]]) -> dict[str, Decimal]:
    total: dict[str, Decimal] = {}
    for each in many:
        for name, value in each.items():
            total[name] = total.get(name, Decimal(0)) + value
    return total
