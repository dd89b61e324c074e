"""Kubernetes node selectors, affinities and taints, as node filters need them."""

from collections.abc import Mapping, Sequence

from tests.conformance.forms import Json, UnreadableCaseError


def matches_labels(labels: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """Whether all the wanted labels are there with these values."""
    return all(labels.get(key) == value for key, value in wanted.items())


def matches_terms(labels: Mapping[str, str], terms: Sequence[Json]) -> bool:
    """Whether one of the terms holds: a term holds if all of its requirements do."""
    return any(matches_term(labels, term) for term in terms)


def matches_term(labels: Mapping[str, str], term: Json) -> bool:
    """Whether all requirements of a term hold; a term without any matches nothing."""
    requirements = term.get("match") or []
    return bool(requirements) and all(_matches(labels, wanted) for wanted in requirements)


def _matches(labels: Mapping[str, str], wanted: Json) -> bool:
    key, operator = wanted["key"], wanted["operator"]
    values = wanted.get("values") or []
    have = labels.get(key)
    match operator:
        case "In":
            return have in values
        case "NotIn":
            return have not in values
        case "Exists":
            return have is not None
        case "DoesNotExist":
            return have is None
        case "Gt" | "Lt" if len(values) == 1 and _is_number(values[0]):
            if have is None or not _is_number(have):
                return False
            have_number, wanted_number = int(have), int(values[0])
            return have_number > wanted_number if operator == "Gt" else have_number < wanted_number
        case _:
            raise UnreadableCaseError(f"operator {operator!r} with values {values}")


def _is_number(text: str) -> bool:
    return text.removeprefix("-").isdecimal()


def untolerated(taints: Sequence[Json], tolerations: Sequence[Json]) -> str:
    """The first taint that keeps pods away and is not tolerated; empty if there is none."""
    for taint in taints:
        if taint["effect"] not in {"NoSchedule", "NoExecute"}:
            continue
        if not any(_tolerates(toleration, taint) for toleration in tolerations):
            return f"{taint['key']}={taint.get('value', '')}:{taint['effect']}"
    return ""


def _tolerates(toleration: Json, taint: Json) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint["effect"]:
        return False
    operator = toleration.get("operator") or "Equal"
    if not toleration.get("key"):
        return bool(operator == "Exists")
    if toleration["key"] != taint["key"]:
        return False
    return bool(
        operator == "Exists" or (toleration.get("value") or "") == (taint.get("value") or "")
    )
