"""From a document to a checked job file: all findings at once, of types and of rules."""

import copy
from dataclasses import replace
from itertools import islice

from pydantic import ValidationError

from api.documents.document import Document, Json, body_problems, child
from api.job_files.rules import Surroundings, rule_problems
from api.job_files.schemas import JobFile
from api.job_files.validation import PROBLEMS_MAX, pointer_of, problems
from scheduler.domain.errors import InvalidSpecError, SpecProblem

_REPAIRS_MAX = 8
_STAND_IN = "unnamed"


def read_job_file(document: Document, around: Surroundings) -> JobFile:
    """The job file in `document`. Raises InvalidSpecError with everything that is wrong with it."""
    found = tuple(islice(body_problems(document.value), PROBLEMS_MAX))
    if found:
        # Text that must not be shown anywhere is not quoted in further findings either.
        raise InvalidSpecError(found)
    try:
        file = _checked(document.value)
    except ValidationError as error:
        typed = problems(error, JobFile)
        is_hopeless = len(typed) >= PROBLEMS_MAX
        ruled = () if is_hopeless else _rules_of_the_rest(document.value, error, around)
        raise InvalidSpecError(_merged(typed, ruled)) from error
    ruled = tuple(islice(rule_problems(file, around), PROBLEMS_MAX))
    if ruled:
        raise InvalidSpecError(ruled)
    return file


def _checked(value: Json) -> JobFile:
    return JobFile.model_validate(value, by_alias=True, by_name=False)


def _merged(
    typed: tuple[SpecProblem, ...], ruled: tuple[SpecProblem, ...]
) -> tuple[SpecProblem, ...]:
    known = [problem.pointer for problem in typed]
    more = [problem for problem in ruled if not any(_touch(problem.pointer, k) for k in known)]
    return (*typed, *more)[:PROBLEMS_MAX]


def _touch(one: str, other: str) -> bool:
    return one == other or one.startswith(other + "/") or other.startswith(one + "/")


def _rules_of_the_rest(
    value: Json, error: ValidationError, around: Surroundings
) -> tuple[SpecProblem, ...]:
    """What the rules say of the file without the parts whose types are wrong."""
    rest = copy.deepcopy(value)
    dropped: set[str] = set()
    for _ in range(_REPAIRS_MAX):
        for found in error.errors(include_url=False, include_context=False, include_input=False):
            dropped.add(_take_out(rest, found["loc"], is_missing=found["type"] == "missing"))
        try:
            file = _checked(rest)
        except ValidationError as next_error:
            error = next_error
        else:
            ruled = rule_problems(file, replace(around, dropped=frozenset(dropped)))
            return tuple(islice(ruled, PROBLEMS_MAX))
    return ()


def _take_out(rest: Json, location: tuple[int | str, ...], *, is_missing: bool) -> str:
    """Remove the offending part of `rest`; a whole list if the part stands inside one."""
    if location == ("metadata", "name"):
        _put(rest, location, _STAND_IN)
        return pointer_of(location)
    if location in (("metadata",), ("spec",)):
        _put(rest, location, {"name": _STAND_IN} if location == ("metadata",) else {})
        return pointer_of(location)
    kept: list[str] = []
    for part in location:
        if isinstance(part, int) or part == "[key]":
            break
        kept.append(part)
    if is_missing and len(kept) == len(location):
        kept.pop()
    node = rest
    for part in kept[:-1]:
        node = node.get(part) if isinstance(node, dict) else None
    if isinstance(node, dict) and kept:
        node.pop(kept[-1], None)
    return "".join(child("", part) for part in kept)


def _put(rest: Json, location: tuple[int | str, ...], value: Json) -> None:
    node = rest
    for part in location[:-1]:
        node = node.get(str(part)) if isinstance(node, dict) else None
    if isinstance(node, dict):
        node[str(location[-1])] = value
